"""Delete some incarnations' share of a day row by row, while other transactions of it stay.

Changes of all slots are in one partition, so this runs in pieces of one store transaction each. A
piece's transactions are deleted first and stored as ``orphans`` in ``retention.deleting``; their
changes are deleted next, even after a crash. No transaction is ever shown without its changes.
"""

import time
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from replview.store import instance_settings
from replview.store.django_session import rows
from replview.store.models import AbortedSubtransaction, Baseline, Transaction, Transition
from replview.store.retention import tidy

#: Transactions of one piece.
TOGETHER = 1000
_OTHERS = """
    SELECT EXISTS (SELECT FROM transaction WHERE id >= %s AND id < %s
                   AND incarnation_id <> ALL (%s::bigint[]))
"""


def others_have_some(low: int, high: int, incarnations: Sequence[int] = ()) -> bool:
    """Return whether a day has transactions of other incarnations than these."""
    return bool(rows(_OTHERS, [low, high, list(incarnations)])[0][0])


def delete(low: int, high: int, state: dict[str, Any], deadline: float) -> bool:
    """Delete the share; return False if the deadline (``time.monotonic()``) passed first."""
    orphans: list[int] = state.get("orphans", [])
    after = low
    while True:
        while orphans:
            done = set(tidy.delete_changes_of(orphans, deadline))
            orphans = [one for one in orphans if one not in done]
            if orphans and time.monotonic() > deadline:
                return False
        piece = _take_piece(after, high, state)
        if not piece:
            return True
        orphans, after = piece, piece[-1] + 1
        if time.monotonic() > deadline:
            return False


@transaction.atomic
def _take_piece(low: int, high: int, state: dict[str, Any]) -> list[int]:
    """Delete some transactions, and store their ids so that their changes are deleted next."""
    share = Transaction.objects.filter(incarnation_id__in=state["share"])
    found = share.filter(pk__gte=low, pk__lt=high).order_by("pk")
    piece = list(found.values_list("pk", flat=True)[:TOGETHER])
    for belonging in (Transition, AbortedSubtransaction, Baseline):
        belonging.objects.filter(transaction_id__in=piece).delete()
    Transaction.objects.filter(pk__in=piece).delete()
    instance_settings.write("retention.deleting", {**state, "orphans": piece})
    return piece

"""Deleting some lives' share of a day whose other transactions stay.

Changes lie in one partition for all slots, so these are deleted row by row, in pieces of a store
transaction each; autovacuum makes their room usable again. A piece's transactions go first, and are
noted with it as ``orphans`` of ``retention.deleting``, whose changes go next: whoever goes on after
a crash begins with those, and nobody ever sees a transaction without its changes.
"""

import time
from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction

from replview.store import instance_settings
from replview.store.models import AbortedSubtransaction, Baseline, Transaction, Transition
from replview.store.retention import tidy

BY = "replview"
#: Transactions of one piece.
TOGETHER = 1000
_OTHERS = """
    SELECT EXISTS (SELECT FROM transaction WHERE id >= %s AND id < %s
                   AND incarnation_id <> ALL (%s::bigint[]))
"""
_SIZES = """
    SELECT one, coalesce((SELECT max(seq) FROM change WHERE transaction_id = one), 0)
    FROM unnest(%s::bigint[]) AS one
"""


def others_have_some(low: int, high: int, lives: Sequence[int] = ()) -> bool:
    """Whether a day has transactions besides those of these lives."""
    with connection.cursor() as cursor:
        cursor.execute(_OTHERS, [low, high, list(lives)])
        return bool(cursor.fetchone()[0])


def delete(low: int, high: int, state: dict[str, Any], deadline: float | None) -> bool:
    """Go on until all is gone; False if the deadline (``time.monotonic()``) came first."""
    orphans: list[int] = state.get("orphans", [])
    after = low
    while True:
        while orphans:
            orphans = _delete_changes(orphans, deadline)
            if orphans and _is_over(deadline):
                return False
        piece = _take_piece(after, high, state)
        if not piece:
            return True
        orphans, after = piece, piece[-1] + 1
        if _is_over(deadline):
            return False


@transaction.atomic
def _take_piece(low: int, high: int, state: dict[str, Any]) -> list[int]:
    """Delete some transactions, and note whose changes are left to delete."""
    share = Transaction.objects.filter(incarnation_id__in=state["share"])
    found = share.filter(pk__gte=low, pk__lt=high).order_by("pk")
    piece = list(found.values_list("pk", flat=True)[:TOGETHER])
    for belonging in (Transition, AbortedSubtransaction, Baseline):
        belonging.objects.filter(transaction_id__in=piece).delete()
    Transaction.objects.filter(pk__in=piece).delete()
    instance_settings.write("retention.deleting", {**state, "orphans": piece}, BY)
    return piece


def _delete_changes(identifiers: list[int], deadline: float | None) -> list[int]:
    """Delete their changes, small ones together; returns those that are left."""
    with connection.cursor() as cursor:
        cursor.execute(_SIZES, [identifiers])
        sizes = dict(cursor.fetchall())
    done: set[int] = set()
    small: list[int] = []
    size = 0
    for identifier in identifiers:
        if _is_over(deadline):
            break
        last_seq = sizes[identifier]
        if last_seq > tidy.WINDOW:
            until = float("inf") if deadline is None else deadline
            if not tidy.delete_changes(identifier, None, until)[1]:
                break
            done.add(identifier)
            continue
        if size + last_seq > tidy.WINDOW:
            tidy.delete_all_changes(small)
            done.update(small)
            small, size = [], 0
        small.append(identifier)
        size += last_seq
    tidy.delete_all_changes(small)
    done.update(small)
    return [one for one in identifiers if one not in done]


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() > deadline

"""What stopped a slot because it could not be stored, and what somebody decides about it.

The receiver writes the row and obeys the decision; here pages and commands read and decide. The
raw message is never read along: it may be 64 MB.
"""

from collections.abc import Sequence

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from replview.store.models import Quarantine, Slot, Transaction

_OPEN_STATES = [
    Transaction.State.RECEIVING,
    Transaction.State.STREAMING,
    Transaction.State.PREPARED,
]


def open_quarantine(slot: Slot) -> Quarantine | None:
    """What is not settled yet: first what waits for a decision, then what was decided."""
    return _rows(slot).filter(settled_at__isnull=True).order_by("decision", "id").first()


def settled_quarantines(slot: Slot, limit: int = 20) -> Sequence[Quarantine]:
    """Earlier ones, the last one first."""
    return list(_rows(slot).filter(settled_at__isnull=False).order_by("-id")[:limit])


def _rows(slot: Slot) -> QuerySet[Quarantine]:
    return Quarantine.objects.filter(slot=slot).defer("raw")


def skip_word(quarantine: Quarantine) -> str:
    """What names the thing that skipping leaves out, to be typed by whoever does it: the xid, or
    the LSN of a message outside any transaction. Empty where there is nothing to skip.
    """
    if quarantine.xid is not None:
        return str(quarantine.xid)
    if quarantine.tag == "M" and quarantine.lsn is not None:
        return str(quarantine.lsn)
    return ""


def decide(quarantine_id: int, decision: str, by: str) -> bool:
    """Write down what somebody decided; only once, only while nobody has and it still stands.

    ``decision`` is ``retry`` or ``skip`` (``ValueError`` for anything else, and where there is
    nothing to skip); ``by`` is who. False: somebody was faster, or it is settled.
    """
    if decision not in (Quarantine.Decision.RETRY, Quarantine.Decision.SKIP):
        raise ValueError(f"no such decision: {decision}")
    undecided = Quarantine.objects.filter(
        pk=quarantine_id, decision=Quarantine.Decision.NONE, settled_at__isnull=True
    )
    if decision == Quarantine.Decision.SKIP:
        row = undecided.defer("raw").first()
        if row is not None and not skip_word(row):
            raise ValueError("the message belongs to nothing that could be skipped")
    return undecided.update(decision=decision, decided_by=by, decided_at=timezone.now()) == 1


def changes_so_far(quarantine: Quarantine) -> int | None:
    """How many changes of its transaction had arrived; None where the record does not tell."""
    if quarantine.xid is None:
        return None
    row = (
        Transaction.objects.filter(
            incarnation_id=quarantine.incarnation_id,
            xid=quarantine.xid,
            state__in=_OPEN_STATES,
        )
        .order_by("-id")
        .first()
    )
    if row is None:
        return None
    return row.inserts + row.updates + row.deletes + row.truncates + row.messages


def raw_part(quarantine_id: int, offset: int, length: int) -> bytes:
    """A part of the raw message, ``offset`` from 0; empty beyond its end."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT substring(raw FROM %s FOR %s) FROM quarantine WHERE id = %s",
            [offset + 1, length, quarantine_id],
        )
        row = cursor.fetchone()
    return b"" if row is None else bytes(row[0])


def raw_length(quarantine_id: int) -> int:
    """How many bytes of the message were kept."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT octet_length(raw) FROM quarantine WHERE id = %s", [quarantine_id])
        row = cursor.fetchone()
    return 0 if row is None else int(row[0])

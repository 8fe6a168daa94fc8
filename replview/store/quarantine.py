"""Read quarantined messages, and store the decision about them.

The receiver writes the row and carries the decision out; pages and commands read and decide here.
The raw message is not read with the row: it may be 64 MB.
"""

from collections.abc import Sequence

from django.db.models import F, QuerySet
from django.utils import timezone

from replview.store.django_session import rows
from replview.store.models import Quarantine, Slot, Transaction
from replview.store.read.history import OPEN_STATES


def open_quarantine(slot: Slot) -> Quarantine | None:
    """Return a quarantined message that is not settled, undecided ones first, or None."""
    return _messages(slot).filter(settled_at__isnull=True).order_by("decision", "id").first()


def settled_quarantines(slot: Slot, limit: int = 20) -> Sequence[Quarantine]:
    """Return messages that were settled earlier, the last one first."""
    return list(_messages(slot).filter(settled_at__isnull=False).order_by("-id")[:limit])


def _messages(slot: Slot) -> QuerySet[Quarantine]:
    return Quarantine.objects.filter(slot=slot).defer("raw")


def skip_word(quarantine: Quarantine) -> str:
    """Return the word to type for skipping: the xid, a standalone message's LSN, or empty."""
    if quarantine.xid is not None:
        return str(quarantine.xid)
    if quarantine.tag == "M" and quarantine.lsn is not None:
        return str(quarantine.lsn)
    return ""


def decide(quarantine_id: int, decision: str, by: str) -> bool:
    """Store a decision, ``retry`` or ``skip``; return False if it was decided or settled already.

    Raises ``ValueError`` for any other decision, and where there is nothing to skip.
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
    """Return how many changes of its transaction had arrived; None where the record lacks it."""
    if quarantine.xid is None:
        return None
    transactions = Transaction.objects.filter(
        incarnation_id=quarantine.incarnation_id, xid=quarantine.xid, state__in=OPEN_STATES
    )
    count = F("inserts") + F("updates") + F("deletes") + F("truncates") + F("messages")
    return transactions.order_by("-id").values_list(count, flat=True).first()


def raw_part(quarantine_id: int, offset: int, length: int) -> bytes:
    """Return a part of the raw message, ``offset`` from 0; empty beyond its end."""
    sql = "SELECT substring(raw FROM %s FOR %s) FROM quarantine WHERE id = %s"
    result = rows(sql, [offset + 1, length, quarantine_id])
    return bytes(result[0][0]) if result else b""


def raw_length(quarantine_id: int) -> int:
    """Return the stored length of the raw message in bytes."""
    result = rows("SELECT octet_length(raw) FROM quarantine WHERE id = %s", [quarantine_id])
    return int(result[0][0]) if result else 0

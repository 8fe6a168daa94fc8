"""What stopped a slot because it could not be stored, and what somebody decides about it.

The receiver writes the row and obeys the decision; here pages and commands read and decide. The
raw message is never read along: it may be 64 MB.
"""

from collections.abc import Sequence

from django.db.models import F, QuerySet
from django.utils import timezone

from replview.store.django_session import rows
from replview.store.models import Quarantine, Slot, Transaction
from replview.store.read.history import OPEN_STATES


def open_quarantine(slot: Slot) -> Quarantine | None:
    """Return one that is not settled yet, those without a decision first; None: all are."""
    return _rows(slot).filter(settled_at__isnull=True).order_by("decision", "id").first()


def settled_quarantines(slot: Slot, limit: int = 20) -> Sequence[Quarantine]:
    """Return those that were settled earlier, the last one first."""
    return list(_rows(slot).filter(settled_at__isnull=False).order_by("-id")[:limit])


def _rows(slot: Slot) -> QuerySet[Quarantine]:
    return Quarantine.objects.filter(slot=slot).defer("raw")


def skip_word(quarantine: Quarantine) -> str:
    """What is typed to skip it: the xid, the LSN of a message outside any transaction, or empty."""
    if quarantine.xid is not None:
        return str(quarantine.xid)
    if quarantine.tag == "M" and quarantine.lsn is not None:
        return str(quarantine.lsn)
    return ""


def decide(quarantine_id: int, decision: str, by: str) -> bool:
    """Store what somebody decided, ``retry`` or ``skip`` (``ValueError`` for anything else, and
    where there is nothing to skip). False: somebody else was faster, or it is settled.
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
    found = Transaction.objects.filter(
        incarnation_id=quarantine.incarnation_id, xid=quarantine.xid, state__in=OPEN_STATES
    )
    kinds = F("inserts") + F("updates") + F("deletes") + F("truncates") + F("messages")
    return found.order_by("-id").values_list(kinds, flat=True).first()


def raw_part(quarantine_id: int, offset: int, length: int) -> bytes:
    """A part of the raw message, ``offset`` from 0; empty beyond its end."""
    sql = "SELECT substring(raw FROM %s FOR %s) FROM quarantine WHERE id = %s"
    found = rows(sql, [offset + 1, length, quarantine_id])
    return bytes(found[0][0]) if found else b""


def raw_length(quarantine_id: int) -> int:
    found = rows("SELECT octet_length(raw) FROM quarantine WHERE id = %s", [quarantine_id])
    return int(found[0][0]) if found else 0

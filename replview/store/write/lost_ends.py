"""Prepared transactions whose end will never come: it fell into a gap of the record.

A COMMIT or ROLLBACK PREPARED that was not received leaves its transaction prepared for ever, unless
the source is asked: one that is not among its prepared transactions has ended, and once everything
up to that look has been received, its end is not going to be.
"""

import datetime as dt

from django.db import transaction
from django.db.models import F

from decoder.scalars import LSN
from replview.store.models import Slot, SlotEvent, SourceLook, Transaction, Transition

_STATES = Transaction.State


def give_up_lost_ends() -> int:
    """Call the end of such transactions unknown, and say so; returns how many there were."""
    found = 0
    for look in SourceLook.objects.select_related("source"):
        between = (look.holders or {}).get("prepared_between")
        if look.prepared is None or look.prepared_limit is not None or not between:
            continue
        before, after = map(LSN.parse, between)
        waiting = {(row["gid"], row["xid"]) for row in look.prepared}
        # Of the cluster that was looked at, and received beyond the look.
        slots = Slot.objects.filter(
            source=look.source,
            incarnation__system_identifier=look.source.system_identifier,
            incarnation__timeline=F("source__timeline"),
            checkpoint_lsn__gte=after,
        )
        for slot in slots.select_related("incarnation"):
            found += _give_up(slot, before, waiting)
    return found


def _give_up(slot: Slot, before: LSN, waiting: set[tuple[str, int]]) -> int:
    """Those of one slot that were prepared before the look and did not wait any more."""
    prepared = Transaction.objects.filter(
        incarnation=slot.incarnation, state=_STATES.PREPARED, prepare_lsn__lt=before
    )
    lost = [
        (identifier, gid)
        for identifier, gid, xid in prepared.values_list("pk", "gid", "xid")
        if (gid, xid) not in waiting
    ]
    for identifier, gid in lost:
        with transaction.atomic():
            _end_unknown(slot, identifier, gid)
    return len(lost)


def _end_unknown(slot: Slot, identifier: int, gid: str | None) -> None:
    now = dt.datetime.now(dt.UTC)
    row = Transaction.objects.filter(pk=identifier, state=_STATES.PREPARED)
    if not row.update(state=_STATES.UNKNOWN, stored_at=now):
        return
    Transition.objects.create(transaction_id=identifier, state=_STATES.UNKNOWN, recorded_at=now)
    SlotEvent.objects.create(
        slot=slot,
        incarnation=slot.incarnation,
        kind="lost_end",
        message="A prepared transaction is not on the source any more, and its end was not "
        "received: whether it was committed or rolled back is unknown.",
        detail={"transaction": identifier, "gid": gid},
        after_commit_seq=slot.incarnation.commit_seq if slot.incarnation else 0,
    )

"""Delete what is no longer needed, a bounded piece at a time, while receivers write.

No table is counted or scanned as a whole: a transaction's changes are read by primary key in
windows of ``seq``, each in a store transaction of its own. All functions take a deadline
(``time.monotonic()``) and continue the next time.
"""

import datetime as dt
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, Max, OuterRef, Q

from decoder.scalars import LSN
from replview.store import connecting
from replview.store.django_session import rows
from replview.store.models import (
    AbortedSubtransaction,
    Change,
    LargeValue,
    Slot,
    SlotIncarnation,
    SlotSample,
    SlotSampleHour,
    SlotSampleMinute,
    Source,
    SourceLook,
    Transaction,
    Transition,
)
from replview.store.slot_log import add_line, after_seq
from replview.store.sums import activity, relation_minutes
from replview.store.write.partitions import ensure_partitions

#: Range of ``seq`` that one store transaction deletes.
WINDOW = 5000
#: Small transactions that are deleted together.
TOGETHER = 500
_DAYS_AHEAD = 2
#: Serialises tidying among workers.
_TIDY_LOCK = 0x7265706C74696479
#: Seconds without heartbeat after which a watch is removed.
_WATCH_GONE_SECONDS = 60
_ENDED_FOR_NOTHING = [Transaction.State.ABORTED, Transaction.State.ROLLED_BACK]
_ENDED = [Transaction.State.COMMITTED, *_ENDED_FOR_NOTHING]
#: Seconds for which changes of an aborted transaction can be viewed.
LOOKED_AT_SECONDS = 600

_SIZES = """
    SELECT one, coalesce((SELECT max(seq) FROM change WHERE transaction_id = one), 0)
    FROM unnest(%s::bigint[]) AS one
"""


def alone() -> AbstractContextManager[bool]:
    """Return a context that yields whether no other process tidies this store now."""
    return connecting.alone(_TIDY_LOCK)


def make_partitions() -> list[str]:
    """Create missing partitions for today and the next two days; return their names."""
    connection.ensure_connection()
    today = dt.datetime.now(dt.UTC).date()
    return ensure_partitions(connection.connection, today, today + dt.timedelta(days=_DAYS_AHEAD))


def sweep_tombstones(deadline: float) -> int:
    """Delete changes of aborted subtransactions and transactions; return how many.

    Those of subtransactions are deleted once their transaction has ended, those of transactions
    that aborted or were rolled back some time later. A slot with ``keep_aborted`` keeps them.
    """
    deleted = 0
    for identifier in _to_sweep():
        if time.monotonic() > deadline:
            break
        xid = Transaction.objects.values_list("xid", flat=True).get(pk=identifier)
        stones = AbortedSubtransaction.objects.filter(transaction_id=identifier)
        subxids = list(stones.values_list("subxid", flat=True))
        doomed = None if xid in subxids else subxids
        count, finished = delete_changes(identifier, doomed, deadline)
        deleted += count
        if finished:
            stones.filter(subxid__in=subxids).update(swept=True)
    return deleted


def _to_sweep() -> list[int]:
    """Return the oldest ended transactions with aborted changes to delete."""
    long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=LOOKED_AT_SECONDS)
    keeping = Slot.objects.filter(keep_aborted=True).values("incarnations")
    young = Q(state__in=_ENDED_FOR_NOTHING, stored_at__gt=long_ago)
    ended = Transaction.objects.filter(pk=OuterRef("transaction_id"), state__in=_ENDED)
    ended = ended.exclude(incarnation__in=keeping).exclude(young)
    waiting = AbortedSubtransaction.objects.filter(Exists(ended), swept=False)
    found = waiting.values_list("transaction_id", flat=True).distinct()
    return list(found.order_by("transaction_id")[:TOGETHER])


def sweep_discarded(deadline: float) -> int:
    """Delete transactions that were partly received when a session ended; return how many."""
    swept = 0
    found = Transaction.objects.filter(state=Transaction.State.DISCARDED).values_list("pk")
    while time.monotonic() < deadline and (piece := [pk for (pk,) in found[:TOGETHER]]):
        swept += _delete_transactions(piece, deadline)
    return swept


def forget_ended_watches() -> int:
    """Mark the slots of killed watches for removal; return how many."""
    long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=_WATCH_GONE_SECONDS)
    watches = Slot.objects.filter(source__ephemeral=True, created_at__lt=long_ago)
    silent = watches.exclude(desired=Slot.Desired.REMOVING).exclude(heartbeat_at__gt=long_ago)
    return silent.update(desired=Slot.Desired.REMOVING)


def remove_slots(deadline: float, give_up: Callable[[Slot], None] = lambda slot: None) -> int:
    """Delete everything of slots that are being removed; return how many are done.

    The slots' counters fall meanwhile. ``give_up`` ends the jobs that would store more of a slot.
    """
    gone = 0
    for slot in Slot.objects.filter(desired=Slot.Desired.REMOVING):
        give_up(slot)
        lately = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=settings.LEASE_SECONDS)
        # A receiver may still write for it.
        held = slot.lease_owner and slot.heartbeat_at is not None and slot.heartbeat_at > lately
        if not held and _empty_slot(slot, deadline):
            for samples in (SlotSample, SlotSampleMinute, SlotSampleHour):
                samples.objects.filter(slot_id=slot.pk).delete()
            slot.delete()
            gone += 1
    leaving = Q(ephemeral=True) | Q(removing_at__isnull=False)
    Source.objects.filter(leaving, slots__isnull=True).delete()
    return gone


def _empty_slot(slot: Slot, deadline: float) -> bool:
    """Delete the slot's transactions; return False if the deadline passed first."""
    for incarnation in SlotIncarnation.objects.filter(slot=slot):
        found = Transaction.objects.filter(incarnation=incarnation)
        # Use the existing indexes: committed transactions first, then the others.
        in_order = found.filter(commit_seq__isnull=False).order_by("commit_seq")
        for part in (in_order, found.order_by("pk")):
            while identifiers := list(part.values_list("pk", flat=True)[:TOGETHER]):
                if time.monotonic() > deadline:
                    return False
                removed = _delete_transactions(identifiers, deadline)
                Slot.objects.filter(pk=slot.pk, transactions_stored__gte=removed).update(
                    transactions_stored=F("transactions_stored") - removed
                )
        activity.forget(incarnation.pk)
        relation_minutes.forget(incarnation.pk)
    return True


def _delete_transactions(identifiers: list[int], deadline: float) -> int:
    """Delete transactions with all that belongs to them; return how many."""
    done = delete_changes_of(identifiers, deadline)
    for belonging in (AbortedSubtransaction, Transition):
        belonging.objects.filter(transaction_id__in=done).delete()
    Transaction.objects.filter(pk__in=done).delete()
    return len(done)


def delete_changes_of(identifiers: list[int], deadline: float) -> list[int]:
    """Delete transactions' changes, small ones together; return transactions without changes."""
    sizes = dict(rows(_SIZES, [identifiers]))
    done, small, size = list[int](), list[int](), 0
    for identifier in identifiers:
        if time.monotonic() > deadline:
            break
        last_seq = sizes[identifier]
        if last_seq > WINDOW:
            if not delete_changes(identifier, None, deadline)[1]:
                break
            done.append(identifier)
            continue
        if size + last_seq > WINDOW:
            delete_all_changes(small)
            done, small, size = done + small, [], 0
        small.append(identifier)
        size += last_seq
    delete_all_changes(small)
    return done + small


def delete_all_changes(identifiers: list[int]) -> None:
    """Delete all changes of small transactions in one statement."""
    LargeValue.objects.filter(transaction_id__in=identifiers).delete()
    Change.objects.filter(transaction_id__in=identifiers).delete()


def delete_changes(identifier: int, subxids: list[int] | None, deadline: float) -> tuple[int, bool]:
    """Delete changes of a transaction or of subtransactions; return how many, and if all."""
    deleted = 0
    newest = Change.objects.filter(transaction_id=identifier).aggregate(last=Max("seq"))
    for first in range(0, (newest["last"] or 0) + 1, WINDOW):
        if time.monotonic() > deadline:
            return deleted, False
        span = {"transaction_id": identifier, "seq__gte": first, "seq__lt": first + WINDOW}
        window, large = Change.objects.filter(**span), LargeValue.objects.filter(**span)
        if subxids is not None:
            window = window.filter(subxid__in=subxids)
            if large.exists():
                large = large.filter(seq__in=list(window.values_list("seq", flat=True)))
        large.delete()
        deleted += window.delete()[0]
    return deleted, True


def give_up_lost_ends() -> int:
    """Set prepared transactions to unknown whose end will never arrive; return how many.

    A COMMIT or ROLLBACK PREPARED in a gap of the record would leave its transaction prepared for
    ever. A transaction that is not among the source's prepared ones has ended; once everything up
    to that sample was received, its end will not arrive.
    """
    found = 0
    for look in SourceLook.objects.select_related("source"):
        between = (look.holders or {}).get("prepared_between")
        if look.prepared is None or look.prepared_limit is not None or not between:
            continue
        before, after = map(LSN.parse, between)
        waiting = {(row["gid"], row["xid"]) for row in look.prepared}
        # Slots of the sampled cluster that have received everything up to the sample.
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
    """Set a slot's transactions to unknown that were prepared before the sample and are gone."""
    prepared = Transaction.objects.filter(
        incarnation=slot.incarnation, state=Transaction.State.PREPARED, prepare_lsn__lt=before
    )
    found = prepared.values_list("pk", "gid", "xid")
    lost = [(pk, gid) for pk, gid, xid in found if (gid, xid) not in waiting]
    for identifier, gid in lost:
        _end_unknown(slot, identifier, gid)
    return len(lost)


@transaction.atomic
def _end_unknown(slot: Slot, identifier: int, gid: str | None) -> None:
    now, unknown = dt.datetime.now(dt.UTC), Transaction.State.UNKNOWN
    row = Transaction.objects.filter(pk=identifier, state=Transaction.State.PREPARED)
    if not row.update(state=unknown, stored_at=now):
        return
    Transition.objects.create(transaction_id=identifier, state=unknown, recorded_at=now)
    message = (
        "A prepared transaction is no longer on the source, and its end was not received: it is "
        "unknown whether it was committed or rolled back."
    )
    detail = {"transaction": identifier, "gid": gid}
    add_line(slot, "lost_end", message, detail=detail, after_commit_seq=after_seq(slot))

"""Delete whole days of the record, oldest first, to make room in the store.

A day consists of the transactions first seen on it (``store.write.partitions``), with all that
belongs to them: transitions, subtransactions, large values, baselines, their share of the sums
(``store.sums.activity``), and its partition of changes. The setting ``retention.slots`` stores for
each slot from which time on (``since``), and from which ``lsn`` of which ``incarnation``, nothing
is missing. It also stores transactions that began on a deleted day but ended after some that are
kept (``late``: ``[incarnation, LSN, identifier, commit time]``), since a row's history has a gap
there.

The log and coverage are updated first, then rows are deleted in bounded pieces, then the sums are
corrected, then the partition is dropped, so that no transaction is ever shown without its changes.
Each step can be repeated; ``retention.deleting`` names the day in progress, so a crash is harmless.
Days are deleted in order. The last two days, days with an open transaction, and days that a
configured archive does not have completely (``store.retention.archived``) are never deleted.

If slots keep days for different times (``store.retention.policy``), a day is deleted slot by slot
(``store.retention.shares``), and the partition with the last one; ``through`` is then the last
deleted day of a slot.
"""

import datetime as dt
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, connection, transaction

from decoder.scalars import LSN
from replview.store import instance_settings
from replview.store.django_session import rows
from replview.store.models import (
    AbortedSubtransaction,
    Baseline,
    LargeValue,
    Slot,
    Transaction,
    Transition,
)
from replview.store.read.days import first_id_of
from replview.store.read.history_places import BLOCK, PLACED_TIME
from replview.store.retention import archived
from replview.store.retention import day_sizes as kept_days
from replview.store.retention import shares as retention_shares
from replview.store.slot_log import add_line, after_seq
from replview.store.sums.activity import recount

log = logging.getLogger(__name__)

#: Transactions of one piece.
TRANSACTIONS_TOGETHER = 2000
#: Lock timeout of dropping a partition, which locks its parent and blocks writers meanwhile. It is
#: longer than deadlock_timeout (1 s by default), after which an autovacuum gives way.
_LOCK_TIMEOUT = "1500ms"
_DAYS_KEPT = 2

#: Most late transactions that are stored per incarnation, latest first.
_MOST_LATE = 1000

_OPEN = """
    SELECT t.state, t.gid, t.xid, o.name || '/' || s.name FROM transaction t
    LEFT JOIN slot_incarnation i ON i.id = t.incarnation_id
    LEFT JOIN slot s ON s.id = i.slot_id LEFT JOIN source o ON o.id = s.source_id
    WHERE t.id >= %(low)s AND t.id < %(high)s
      AND t.state IN ('receiving', 'streaming', 'prepared', 'copying')
      AND (%(slots)s::bigint[] IS NULL OR s.id = ANY (%(slots)s))
    ORDER BY t.id LIMIT 1
"""
_INCARNATIONS = f"""
    SELECT t.incarnation_id, i.slot_id, count(*), min(t.commit_seq), max(t.commit_seq),
           max({PLACED_TIME}) FILTER (WHERE t.commit_seq IS NOT NULL AND t.state <> 'snapshot'),
           max(coalesce(t.end_lsn, t.commit_lsn)) FILTER (
               WHERE t.commit_seq IS NOT NULL AND t.state <> 'snapshot')::text,
           array_agg(DISTINCT ({PLACED_TIME} AT TIME ZONE 'UTC')::date)
    FROM transaction t LEFT JOIN slot_incarnation i ON i.id = t.incarnation_id
    WHERE t.id >= %(low)s AND t.id < %(high)s
      AND (%(slots)s::bigint[] IS NULL OR i.slot_id = ANY (%(slots)s))
    GROUP BY 1, 2 ORDER BY 1
"""  # noqa: S608 (of constants)
# Deleted transactions of an incarnation that follow the first kept one, latest first.
_LATE = """
    SELECT t.incarnation_id, t.commit_lsn::text, t.id, t.commit_time FROM transaction t
    WHERE t.incarnation_id = %(incarnation)s AND t.id >= %(low)s AND t.id < %(high)s
      AND t.commit_lsn IS NOT NULL AND t.state IN ('committed', 'skipped')
      AND t.commit_seq <= %(last)s
      AND t.commit_seq > (SELECT k.commit_seq FROM transaction k
                          WHERE k.incarnation_id = %(incarnation)s AND k.commit_seq >= %(first)s
                            AND k.id >= %(high)s ORDER BY k.commit_seq LIMIT 1)
    ORDER BY t.commit_seq DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A day that was deleted from the store."""

    day: dt.date
    transactions: int
    #: Slots that had transactions on that day.
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _DayRows:
    """The contents of a day that is about to be deleted."""

    #: Each incarnation with its first and last commit_seq, and the days of its commits.
    incarnations: list[tuple[int, int | None, int | None, list[dt.date]]]
    #: Number of transactions by slot.
    counts: dict[int, int]
    #: Number of transactions of incarnations whose slot was removed.
    orphans: int


def drop_day(
    day: dt.date, *, why: str = "to make room", deadline: float | None = None
) -> Dropped | None:
    """Delete one day of the record; ``why`` ends the sentence in the slots' logs.

    Return None if the day may not be deleted (``why_kept``), or if it is not deleted completely yet
    (``finish`` continues).
    """
    if is_under_way() or why_kept(day):
        return None
    dropped = _begin(day, why)
    return dropped if finish(deadline) else None


def drop_share(
    day: dt.date, slots: Collection[int], *, why: str, deadline: float | None = None
) -> Dropped | None:
    """Delete these slots' share of a day; return None in the cases of ``drop_day``."""
    if is_under_way() or why_share_kept(day, slots):
        return None
    dropped = _begin(day, why, slots)
    return dropped if finish(deadline) else None


def oldest_day() -> dt.date | None:
    """Return the oldest day with a partition of changes; None if there is none."""
    days = kept_days.partitions()
    return days[0][0] if days else None


def why_kept(day: dt.date | None) -> str:
    """Return in a sentence why a day may not be deleted now; empty if it may."""
    oldest = oldest_day()
    if day is None or oldest is None or _is_late(day):
        return "Only today and yesterday are left of the record, and they are never deleted."
    if day != oldest:
        return f"{oldest} must be deleted first: the oldest day is always deleted first."
    return _why_wanted(day, f"{day} is the oldest day, and")


def why_share_kept(day: dt.date, slots: Collection[int]) -> str:
    """Return in a sentence why these slots' share of a day may not be deleted; or empty."""
    if _is_late(day):
        return "Today and yesterday are never deleted."
    return _why_wanted(day, f"{day} is kept, because", slots)


def _is_late(day: dt.date) -> bool:
    """Return whether the day is today or yesterday, by the store's clock."""
    today: dt.date = rows("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")[0][0]
    return day > today - dt.timedelta(days=_DAYS_KEPT)


def _why_wanted(day: dt.date, begin: str, slots: Collection[int] | None = None) -> str:
    """Return an open transaction of the day, or what the archive lacks, in a sentence; or empty."""
    low, high = _ids(day)
    listed = None if slots is None else sorted(slots)
    for state, gid, xid, slot in rows(_OPEN, {"low": low, "high": high, "slots": listed}):
        name = f" {gid}" if gid else f" {xid}" if xid else ""
        return (
            f"{begin} transaction{name} of {slot or 'a removed slot'}, first seen on that day, is "
            f"still {state}: a day is deleted only after its transactions have ended."
        )
    return archived.why_wanted(day, low, high, slots=slots)


def is_under_way() -> bool:
    """Return whether the deletion of a day is in progress."""
    return instance_settings.read("retention.deleting", None) is not None


def finish(deadline: float | None = None) -> bool:
    """Continue the deletion in progress until it is complete.

    Return False if the deadline (``time.monotonic()``) passed first, or if the partition is in use.
    """
    found = instance_settings.read("retention.deleting", None)
    if found is None:
        return True
    day = dt.date.fromisoformat(found["day"])
    if found.get("share") is not None:
        until = float("inf") if deadline is None else deadline
        if not retention_shares.delete(*_ids(day), found, until):
            return False
        found = instance_settings.read("retention.deleting", found)
    else:
        while _delete_some(*_ids(day)):
            if deadline is not None and time.monotonic() > deadline:
                return False
    while found["incarnations"]:
        incarnation, first, last, days = found["incarnations"][0]
        recount(incarnation, first, last, [dt.date.fromisoformat(one) for one in days])
        # Store progress: the partition may be in use, and recounting must happen once.
        found = {**found, "incarnations": found["incarnations"][1:]}
        instance_settings.write("retention.deleting", found)
    if found.get("share") is not None and retention_shares.others_have_some(*_ids(day)):
        instance_settings.write("retention.deleting", None)
        return True
    return _drop_partition(day)


def what_waits() -> str:
    """Return in a sentence why the deletion in progress waits; empty if it does not."""
    found = instance_settings.read("retention.deleting", None)
    if found is None or not found.get("in_use"):
        return ""
    return f"The changes of {found['day']} are being read: they are deleted after that."


@transaction.atomic
def _begin(day: dt.date, why: str, slots: Collection[int] | None = None) -> Dropped:
    """Store what is to be deleted, of these slots or of all, before the first row is deleted."""
    low, high = _ids(day)
    found = _note(day, low, high, why, slots)
    incarnations = [incarnation for incarnation, *_ in found.incarnations]
    share = None if slots is None else incarnations
    archived.remember(low, high, share)
    kept_days.forget(incarnations, day)
    # If no other slot has rows of the day, drop its partition without deleting rows.
    if share is not None and not retention_shares.others_have_some(low, high, share):
        share = None
    spans = [
        [incarnation, first // BLOCK, last // BLOCK, [str(one) for one in days]]
        for incarnation, first, last, days in found.incarnations
        if first is not None and last is not None
    ]
    deleting = {"day": str(day), "incarnations": spans, "share": share}
    instance_settings.write("retention.deleting", deleting)
    return Dropped(day, sum(found.counts.values()) + found.orphans, tuple(sorted(found.counts)))


def _note(day: dt.date, low: int, high: int, why: str, slots: Collection[int] | None) -> _DayRows:
    """Update coverage and the slots' logs for the deletion of a day or of these slots' share."""
    listed = None if slots is None else sorted(slots)
    incarnations = rows(_INCARNATIONS, {"low": low, "high": high, "slots": listed})
    known = dict(instance_settings.read("retention.slots", {}))
    counts: dict[int, int] = {}
    orphans = 0
    for incarnation, slot_id, count, first, last, at, lsn, _ in incarnations:
        if slot_id is None:
            orphans += count
            continue
        counts[slot_id] = counts.get(slot_id, 0) + count
        if at is not None:
            slot = known.setdefault(
                str(slot_id), {"since": "", "lsn": None, "incarnation": incarnation, "late": []}
            )
            _note_coverage(slot, incarnation, at, lsn)
            span = {"low": low, "high": high, "first": first, "last": last, "most": _MOST_LATE}
            late = reversed(rows(_LATE, {**span, "incarnation": incarnation}))
            slot["late"] += [[*one, at.isoformat() if at else None] for *one, at in late]
            slot["late"] = slot["late"][-5 * _MOST_LATE :]
    for pk in slots or ():
        if (slot := known.get(str(pk))) is not None:
            slot["through"] = max(str(day), slot.get("through", ""))
    alive = {str(pk) for pk in Slot.objects.values_list("pk", flat=True)}
    kept = {pk: slot for pk, slot in known.items() if pk in alive}
    instance_settings.write("retention.slots", kept)
    if slots is None:
        instance_settings.write("retention.last_day", str(day))
    _log(day, why, counts)
    return _DayRows([(row[0], row[3], row[4], row[7]) for row in incarnations], counts, orphans)


def _note_coverage(
    slot: dict[str, Any], incarnation: int, at: dt.datetime, lsn: str | None
) -> None:
    # Nothing is missing after the last deleted transaction.
    since = at.astimezone(dt.UTC) + dt.timedelta(microseconds=1)
    slot["since"] = max(since.isoformat(timespec="microseconds"), slot["since"])
    # Track LSN and time separately: an earlier server's clock may have been ahead.
    if lsn is not None and (
        slot["lsn"] is None or _place(incarnation, lsn) > _place(slot["incarnation"], slot["lsn"])
    ):
        slot.update(incarnation=incarnation, lsn=lsn)


def _log(day: dt.date, why: str, counts: dict[int, int]) -> None:
    for slot in Slot.objects.filter(pk__in=counts).select_related("incarnation"):
        detail = {"day": str(day), "transactions": counts[slot.pk]}
        message = f"The record of {day} was deleted {why}."
        add_line(slot, "retention", message, after_commit_seq=after_seq(slot), detail=detail)


def _place(incarnation: int, lsn: str) -> tuple[int, int]:
    """Return a place that orders incarnations, and LSNs within an incarnation."""
    return incarnation, int(LSN.parse(lsn))


@transaction.atomic
def _delete_some(low: int, high: int) -> bool:
    """Delete a piece of a day's rows; return False after the last one."""
    ids = Transaction.objects.filter(pk__gte=low, pk__lt=high).order_by("pk")
    piece = list(ids.values_list("pk", flat=True)[:TRANSACTIONS_TOGETHER])
    until = piece[-1] + 1 if len(piece) == TRANSACTIONS_TOGETHER else high
    for belonging in (Transition, AbortedSubtransaction, LargeValue, Baseline):
        belonging.objects.filter(transaction_id__gte=low, transaction_id__lt=until).delete()
    Transaction.objects.filter(pk__gte=low, pk__lt=until).delete()
    return len(piece) == TRANSACTIONS_TOGETHER


def _drop_partition(day: dt.date) -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            cursor.execute(f"DROP TABLE IF EXISTS change_{day:%Y%m%d}")
            cursor.execute("SET LOCAL lock_timeout = DEFAULT")
            instance_settings.write("retention.deleting", None)
    except OperationalError:  # a query reads it
        waiting = {"day": str(day), "incarnations": [], "in_use": True}
        instance_settings.write("retention.deleting", waiting)
        return False
    log.warning("the record of %s was deleted", day)
    return True


def _ids(day: dt.date) -> tuple[int, int]:
    return first_id_of(day), first_id_of(day + dt.timedelta(days=1))

"""How long, and how much, each slot keeps of its record.

What a slot has beyond so many days, or so many bytes (``Slot.keep_for_days``,
``Slot.keep_at_most_bytes``), is deleted by whole days, the oldest first. Where all slots that have
something of a day are past it, its partition is dropped; where they differ, a slot's share goes row
by row (``store.retention.deletion``). Never today and yesterday, never before its transactions have
ended or the archive has it. ``keeping.stuck``: why a slot keeps more, in a sentence, by its number.
"""

import datetime as dt
import time
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from django.db import transaction
from django.utils import timezone

from replview.store import instance_settings
from replview.store.django_session import rows
from replview.store.models import KeptDay, Slot
from replview.store.retention import day_sizes as kept_days
from replview.store.retention import deletion as retention
from replview.store.retention import tidy
from replview.store.slot_log import add_line

#: Days are deleted for so long at a time.
_SECONDS = 20.0
#: A slot keeps at least one whole day; and for longer than a century is for ever.
FEWEST_DAYS = 1
MOST_DAYS = 36_500
LEAST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a slot is to keep; None: that does not bound it."""

    for_days: int | None
    at_most_bytes: int | None

    @classmethod
    def of(cls, slot: Slot) -> "Keeping":
        return cls(slot.keep_for_days, slot.keep_at_most_bytes)

    def columns(self) -> dict[str, int | None]:
        return {"keep_for_days": self.for_days, "keep_at_most_bytes": self.at_most_bytes}


@dataclass(frozen=True, slots=True)
class DaySum:
    """What a slot has of one day, its incarnations together."""

    day: dt.date
    transactions: int
    changes: int
    #: Its share of the disk; None: the day is not over.
    store_bytes: int | None


def days_of(slot_id: int) -> list[DaySum]:
    """The days that a slot has something of, the oldest first."""
    found: list[DaySum] = []
    columns = ("day", "transactions", "changes", "store_bytes")
    kept = KeptDay.objects.filter(incarnation__slot_id=slot_id).order_by("day")
    for day, same in groupby(kept.values_list(*columns), key=itemgetter(0)):
        _, transactions, changes, sizes = zip(*same, strict=True)
        size = None if None in sizes else sum(sizes)
        found.append(DaySum(day, sum(transactions), sum(changes), size))
    return found


def doomed_through(
    keeping: Keeping, days: list[DaySum], today: dt.date, today_bytes: int
) -> dt.date | None:
    """The last day that a slot keeps nothing of; None: it keeps all it has. By size, the oldest
    days go until the rest fits, ``today_bytes`` included. Neither today nor yesterday ever goes.
    """
    ends = []
    if keeping.for_days is not None:
        ends = [one.day for one in days if one.day < today - dt.timedelta(keeping.for_days)]
    if keeping.at_most_bytes is not None:
        size = today_bytes
        for day in reversed(days):
            size += day.store_bytes or 0
            if size > keeping.at_most_bytes:
                ends.append(day.day)
                break
    return min(max(ends), today - dt.timedelta(days=2)) if ends else None


def change_keeping(slot: Slot, keeping: Keeping, *, by: str) -> Slot:
    """Choose what a slot keeps from the next look (``enforce``) on, with a line in its log. Raises
    ``ValueError`` for what cannot be.
    """
    check(keeping)
    with transaction.atomic():
        row = Slot.objects.select_for_update().select_related(None).get(pk=slot.pk)
        was = Keeping.of(row)
        if was != keeping:
            Slot.objects.filter(pk=slot.pk).update(**keeping.columns())
            detail = {"was": was.columns(), "is": keeping.columns(), "by": by}
            message = f"Changed by {by}: how much of its record is kept."
            add_line(row, "budget", message, detail=detail)
    slot.refresh_from_db()
    return slot


def check(keeping: Keeping) -> None:
    """Raise ``ValueError``, saying what to write, for what no slot can keep."""
    if keeping.for_days is not None and not FEWEST_DAYS <= keeping.for_days <= MOST_DAYS:
        raise ValueError(f"a slot keeps {FEWEST_DAYS} to {MOST_DAYS:,} days, or for ever (none)")
    most = keeping.at_most_bytes
    if most is not None and not LEAST_BYTES <= most < 1 << 62:
        raise ValueError("a slot keeps at least 1 MB, or whatever it takes (none)")


def enforce() -> None:
    """Count what is new, and delete some days that no slot keeps, unless another process does."""
    deadline = time.monotonic() + _SECONDS
    with tidy.alone() as mine:
        if not mine:
            return
        kept_days.count(deadline)
        stuck: dict[str, str] = {}
        if not retention.finish(deadline):
            return
        doomed = _doomed()
        for day, holders in _holders(max(doomed.values(), default=None)):
            if time.monotonic() > deadline or not _delete(day, holders, doomed, stuck, deadline):
                break
    stuck = {**_two_days_alone(doomed), **stuck}
    if stuck != instance_settings.read("keeping.stuck", {}):
        instance_settings.write("keeping.stuck", stuck or None)


def why_stuck(slot: Slot) -> str:
    """Why a slot keeps more than it should, in a sentence; empty: it does not."""
    return str(instance_settings.read("keeping.stuck", {}).get(str(slot.pk), ""))


def all_alike() -> bool:
    """Whether all slots keep for the same time and none is bounded in size: days then go whole."""
    slots = Slot.objects.filter(temporary=False).exclude(desired=Slot.Desired.REMOVING)
    chosen = set(slots.values_list("keep_for_days", "keep_at_most_bytes"))
    return len(chosen) == 1 and next(iter(chosen))[1] is None


def _doomed() -> dict[int, dt.date]:
    """Of the slots that do not keep all: the last day to go."""
    today, of_today = timezone.now().date(), today_share_bytes()
    found = {}
    bounded = Slot.objects.exclude(keep_for_days=None, keep_at_most_bytes=None)
    for slot in bounded.exclude(desired=Slot.Desired.REMOVING):
        days = days_of(slot.pk)
        through = doomed_through(Keeping.of(slot), days, today, of_today.get(slot.pk, 0))
        if through is not None:
            found[slot.pk] = through
    return found


def _holders(through: dt.date | None) -> list[tuple[dt.date, set[int]]]:
    """The days up to one, the oldest first, with the slots that have something of them."""
    counted = kept_days.counted_through()
    if through is None or counted is None:
        return []
    rows = KeptDay.objects.filter(day__lte=min(through, counted)).order_by("day")
    found: dict[dt.date, set[int]] = {}
    for day, slot in rows.values_list("day", "incarnation__slot_id"):
        found.setdefault(day, set()).add(slot)
    return list(found.items())


def _delete(
    day: dt.date,
    holders: set[int],
    doomed: dict[int, dt.date],
    stuck: dict[str, str],
    deadline: float,
) -> bool:
    """Delete what of a day is to go; False: no time, or it is read. A slot in the way keeps the
    rest.
    """
    going = set()
    for slot in sorted(holders):
        if day > doomed.get(slot, dt.date.min) or str(slot) in stuck:
            continue
        if why := retention.why_share_kept(day, [slot]):
            stuck[str(slot)] = why
        else:
            going.add(slot)
    if not going:
        return True
    why = "as its slot keeps no more"
    if going == holders and day == retention.oldest_day() and not retention.why_kept(day):
        return retention.drop_day(day, why=why, deadline=deadline) is not None
    return retention.drop_share(day, going, why=why, deadline=deadline) is not None


def _two_days_alone(doomed: dict[int, dt.date]) -> dict[str, str]:
    """Slots whose last two days are already more than they may keep."""
    found: dict[str, str] = {}
    today, of_today = timezone.now().date(), today_share_bytes()
    for slot in Slot.objects.filter(keep_at_most_bytes__isnull=False):
        days = days_of(slot.pk)
        late = [day.store_bytes or 0 for day in days if day.day > today - dt.timedelta(days=2)]
        if sum(late) + of_today.get(slot.pk, 0) > (slot.keep_at_most_bytes or 0):
            found[str(slot.pk)] = (
                "Its last two days alone take more than it may keep; they are never deleted."
            )
    return found


def today_share_bytes() -> dict[int, int]:
    """What each slot has of the day that is not over, estimated from the partition as it is now."""
    return {slot: int(size) for slot, size in rows(_TODAY)}


_TODAY = """
    SELECT slot_id, (partition * weight / sum(weight) OVER ())::bigint FROM (
        SELECT i.slot_id, sum(k.size_bytes + 100 * k.changes)::numeric + 1 AS weight,
               coalesce(pg_total_relation_size(to_regclass(
                   'change_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'))), 0) AS partition
        FROM kept_day k JOIN slot_incarnation i ON i.id = k.incarnation_id
        WHERE k.day = (now() AT TIME ZONE 'UTC')::date GROUP BY i.slot_id) AS weighed
"""

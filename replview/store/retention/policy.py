"""Keep each slot's record for a number of days and up to a size.

Older days (``Slot.keep_for_days``) and excess bytes (``Slot.keep_at_most_bytes``) are deleted by
whole days, oldest first. A day that no slot keeps is dropped as a partition; otherwise a slot's
share is deleted row by row (``store.retention.deletion``). Today and yesterday are never deleted,
nor days with open transactions, nor days that a configured archive lacks. The setting
``keeping.stuck`` holds, by slot id, a sentence that says why a slot keeps more.
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

#: Most seconds that one run deletes days.
_SECONDS = 20.0
#: Bounds of the number of days; a limit above a century would be no limit.
FEWEST_DAYS = 1
MOST_DAYS = 36_500
LEAST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Keeping:
    """The retention of a slot; None stands for no limit."""

    for_days: int | None
    at_most_bytes: int | None

    @classmethod
    def of(cls, slot: Slot) -> "Keeping":
        """Return the retention of a slot."""
        return cls(slot.keep_for_days, slot.keep_at_most_bytes)

    def columns(self) -> dict[str, int | None]:
        """Return the retention as columns of the slot."""
        return {"keep_for_days": self.for_days, "keep_at_most_bytes": self.at_most_bytes}


@dataclass(frozen=True, slots=True)
class DayContents:
    """The contents of one day of a slot's record, over all incarnations."""

    day: dt.date
    transactions: int
    changes: int
    #: Estimated size on disk; None while the day is not over.
    store_bytes: int | None


def days_of(slot_id: int) -> list[DayContents]:
    """Return the days of a slot's record, oldest first."""
    found: list[DayContents] = []
    columns = ("day", "transactions", "changes", "store_bytes")
    kept = KeptDay.objects.filter(incarnation__slot_id=slot_id).order_by("day")
    for day, same in groupby(kept.values_list(*columns), key=itemgetter(0)):
        _, transactions, changes, sizes = zip(*same, strict=True)
        size = None if None in sizes else sum(sizes)
        found.append(DayContents(day, sum(transactions), sum(changes), size))
    return found


def doomed_through(
    keeping: Keeping, days: list[DayContents], today: dt.date, today_bytes: int
) -> dt.date | None:
    """Return the last day to delete from a slot's record; None to keep all.

    By size, the oldest days are deleted until the rest fits, ``today_bytes`` included. Today and
    yesterday are never deleted.
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
    """Change a slot's retention, with a line in its log; ``enforce`` applies it later.

    Raises ``ValueError`` for a value out of range.
    """
    check(keeping)
    with transaction.atomic():
        row = Slot.objects.select_for_update().select_related(None).get(pk=slot.pk)
        was = Keeping.of(row)
        if was != keeping:
            Slot.objects.filter(pk=slot.pk).update(**keeping.columns())
            detail = {"was": was.columns(), "is": keeping.columns(), "by": by}
            message = f"How much of its record is kept was changed by {by}."
            add_line(row, "budget", message, detail=detail)
    slot.refresh_from_db()
    return slot


def check(keeping: Keeping) -> None:
    """Raise ``ValueError``, with the allowed range, for a retention that no slot can have."""
    if keeping.for_days is not None and not FEWEST_DAYS <= keeping.for_days <= MOST_DAYS:
        raise ValueError(f"a slot keeps {FEWEST_DAYS} to {MOST_DAYS:,} days, or all (none)")
    most = keeping.at_most_bytes
    if most is not None and not LEAST_BYTES <= most < 1 << 62:
        raise ValueError("a slot keeps at least 1 MB, or has no limit (none)")


def enforce() -> None:
    """Count new days, and delete days that no slot keeps, unless another process does so."""
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
    """Return in a sentence why a slot keeps more than it should; empty if it does not."""
    return str(instance_settings.read("keeping.stuck", {}).get(str(slot.pk), ""))


def all_alike() -> bool:
    """Return whether all slots keep the same number of days and none has a size limit."""
    slots = Slot.objects.filter(temporary=False).exclude(desired=Slot.Desired.REMOVING)
    chosen = set(slots.values_list("keep_for_days", "keep_at_most_bytes"))
    return len(chosen) == 1 and next(iter(chosen))[1] is None


def _doomed() -> dict[int, dt.date]:
    """Return, by slot that does not keep all, the last day to delete."""
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
    """Return the days up to ``through``, oldest first, with the slots that have them."""
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
    """Delete the shares of a day that are to go; return False on the deadline or a lock.

    A slot whose share may not be deleted keeps it, and its later days too.
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
    why = "because its slot keeps no more"
    if going == holders and day == retention.oldest_day() and not retention.why_kept(day):
        return retention.drop_day(day, why=why, deadline=deadline) is not None
    return retention.drop_share(day, going, why=why, deadline=deadline) is not None


def _two_days_alone(doomed: dict[int, dt.date]) -> dict[str, str]:
    """Return slots whose last two days alone exceed their size limit, with a sentence."""
    found: dict[str, str] = {}
    today, of_today = timezone.now().date(), today_share_bytes()
    for slot in Slot.objects.filter(keep_at_most_bytes__isnull=False):
        days = days_of(slot.pk)
        late = [day.store_bytes or 0 for day in days if day.day > today - dt.timedelta(days=2)]
        if sum(late) + of_today.get(slot.pk, 0) > (slot.keep_at_most_bytes or 0):
            found[str(slot.pk)] = (
                "Its last two days alone exceed its size limit, and they are never deleted."
            )
    return found


def today_share_bytes() -> dict[int, int]:
    """Return each slot's estimated share of the current day's partition."""
    return {slot: int(size) for slot, size in rows(_TODAY)}


_TODAY = """
    SELECT slot_id, (partition * weight / sum(weight) OVER ())::bigint FROM (
        SELECT i.slot_id, sum(k.size_bytes + 100 * k.changes)::numeric + 1 AS weight,
               coalesce(pg_total_relation_size(to_regclass(
                   'change_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'))), 0) AS partition
        FROM kept_day k JOIN slot_incarnation i ON i.id = k.incarnation_id
        WHERE k.day = (now() AT TIME ZONE 'UTC')::date GROUP BY i.slot_id) AS weighed
"""

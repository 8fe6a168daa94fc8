"""Forecast when the store is full at its present growth, and where each slot's record levels off.

The store's size is stored every few minutes, with the free space of its disk if that can be read:
on the store's own host, with the right to read its data directory. The forecast is for whichever
fills first, the budget or the disk. The growth already includes what retention deletes. None is
unknown.
"""

import datetime as dt
import os
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Max, Min
from django.utils import timezone

from replview.store.django_session import rows
from replview.store.models import Baseline, KeptDay, Slot, StoreMoment
from replview.store.read.days import first_id_of
from replview.store.read.history_places import BLOCK
from replview.store.retention import archive
from replview.store.retention import day_sizes as kept_days
from replview.store.retention import policy as keeping
from replview.store.retention import size as store_size
from replview.store.retention.policy import Keeping, days_of, doomed_through, today_share_bytes

#: Least time between two stored sizes, and the time for which they are kept.
_EVERY = dt.timedelta(minutes=10)
_KEPT = dt.timedelta(days=31)
_WEEK, _DAY = dt.timedelta(days=7), dt.timedelta(hours=24)
#: Least time span that a rate is computed from.
_LEAST = dt.timedelta(hours=1)
#: Days that a slot's rate is computed from.
_RATE_DAYS = 7
_DAY_SECONDS = 86_400
# The data directory, if this role may read it, and whether the server runs on this host.
_PLACE = """
    SELECT CASE WHEN pg_has_role(current_user, 'pg_read_all_settings', 'USAGE')
                THEN current_setting('data_directory') END,
           inet_server_addr() IS NULL OR inet_server_addr() << '127.0.0.0/8'
           OR inet_server_addr() = '::1'
"""


@dataclass(frozen=True, slots=True)
class Rate:
    """The growth of the store."""

    bytes_per_day: float
    #: Time span that the rate was measured over.
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The forecast of when the store is full."""

    size_bytes: int
    #: Bytes left until the store is full; None when unknown.
    room_bytes: int | None
    #: The limit that is reached first: ``budget`` or ``disk``; empty when unknown.
    of: str
    #: Free space of the store's disk; None when unknown.
    free_bytes: int | None
    #: Rates over the last week, or as much of it as is known, and over the last day.
    week: Rate | None
    day: Rate | None

    @property
    def rate(self) -> Rate | None:
        """Return the rate to use: the week's, or the last day's if that fills a disk sooner.

        The last day also counts if the week shows no growth, because days deleted in the week hide
        it.
        """
        week, day = self.days_left(self.week), self.days_left(self.day)
        if day is not None and (week is None or (self.of == "disk" and day < week)):
            return self.day
        return self.week or self.day

    @property
    def disk_days(self) -> float | None:
        """Return the days until the disk is full, if that comes before a budget; else None."""
        return self.days_left(self.rate) if self.of == "disk" else None

    def days_left(self, rate: Rate | None) -> float | None:
        """Return the days until the store is full at a rate; None if unknown or not growing."""
        if rate is None or self.room_bytes is None or rate.bytes_per_day <= 0:
            return None
        return max(self.room_bytes, 0) / rate.bytes_per_day


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotForecast:
    """The estimated size of one slot's record in the store."""

    slot: Slot
    #: Size of the counted days; None before any was counted.
    store_bytes: int | None
    days: int
    #: Mean over the last week's complete days; None before the first.
    bytes_per_day: float | None
    #: Days until the record reaches its size limit; None if it never does, or when unknown.
    days_left: float | None
    #: Size at which the record levels off; None if it does not, or when unknown.
    levels_off_bytes: int | None
    stuck: str


def forecast() -> Forecast:
    """Return the forecast from the stored sizes."""
    budget, _ = store_size.chosen()
    last = StoreMoment.objects.order_by("-at").first()
    size = store_size.size_now()
    free = last.free_bytes if last is not None else None
    rooms = [(budget - size, "budget")] if budget is not None else []
    rooms += [(free, "disk")] if free is not None else []
    room, of = min(rooms, default=(None, ""))
    return Forecast(
        size_bytes=size, room_bytes=room, of=of, free_bytes=free,
        week=_rate(size, _WEEK), day=_rate(size, _DAY),
    )  # fmt: skip


def _rate(size: int, length: dt.timedelta) -> Rate | None:
    now = timezone.now()
    first = StoreMoment.objects.filter(at__gte=now - length).order_by("at").first()
    if first is None or now - first.at < _LEAST:
        return None
    seconds = (now - first.at).total_seconds()
    return Rate((size - first.size_bytes) * _DAY_SECONDS / seconds, seconds)


def slot_forecasts() -> list[SlotForecast]:
    """Return the forecast of every slot, from the days counted so far."""
    today = keeping.today_share_bytes()
    slots = Slot.objects.select_related("source").filter(temporary=False)
    return [_of_slot(slot, today.get(slot.pk, 0)) for slot in slots]


def of_slot(slot: Slot) -> SlotForecast:
    """Return the forecast of one slot."""
    return _of_slot(slot, keeping.today_share_bytes().get(slot.pk, 0))


def _of_slot(slot: Slot, today_bytes: int) -> SlotForecast:
    days = keeping.days_of(slot.pk)
    whole = [day.store_bytes for day in days if day.store_bytes is not None]
    size = sum(whole) + today_bytes if days else None
    # Days without transactions have no row, but count in the mean.
    now = timezone.now().date()
    since = max(now - dt.timedelta(days=_RATE_DAYS), days[0].day if days else now)
    recent = [day.store_bytes or 0 for day in days if since <= day.day < now]
    rate = sum(recent) / (now - since).days if since < now else None
    most, left = slot.keep_at_most_bytes, None
    if most is not None and rate and size is not None:
        left = max(most - size, 0) / rate
    bounds = [] if rate is None or slot.keep_for_days is None else [rate * slot.keep_for_days]
    bounds += [] if most is None else [most]
    level = min(bounds, default=None)
    if level is not None and slot.keep_for_days is not None and left is not None:
        # The age limit keeps the record below its size limit.
        left = None if rate is not None and rate * slot.keep_for_days < (most or 0) else left
    return SlotForecast(
        slot=slot, store_bytes=size, days=len(days), bytes_per_day=rate, days_left=left,
        levels_off_bytes=None if level is None else int(level), stuck=keeping.why_stuck(slot),
    )  # fmt: skip


@transaction.atomic
def note_size() -> None:
    """Store the store's size, unless that was done just now."""
    now = timezone.now()
    if StoreMoment.objects.filter(at__gt=now - _EVERY).exists():
        return
    StoreMoment.objects.create(at=now, size_bytes=store_size.size_now(), free_bytes=_free_bytes())
    StoreMoment.objects.filter(at__lt=now - _KEPT).delete()


def _free_bytes() -> int | None:
    """Return the free space of the store's disk; None if it is on another host or unreadable."""
    [(folder, near)] = rows(_PLACE)
    if not folder or not near:
        return None
    try:
        # Check for the data directory: a local address may lead into a container.
        os.stat(os.path.join(folder, "PG_VERSION"))
        disk = os.statvfs(folder)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize


_TABLES = """
    SELECT r.schema || '.' || r."table",
           sum(a.inserts + a.updates + a.deletes + a.truncates + a.snapshots)::bigint AS changes
    FROM unnest(%(incarnations)s::bigint[], %(first)s::bigint[], %(last)s::bigint[])
         AS lost (incarnation, first, last)
    JOIN relation_activity a ON a.incarnation_id = lost.incarnation
                            AND a.block BETWEEN lost.first AND lost.last
    JOIN relation r ON r.id = a.relation_id
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT %(most)s
"""
_MOST_TABLES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLoss:
    """The part of a slot's record that a change of its retention would delete."""

    #: First and last day that would be deleted; None if none would.
    first: dt.date | None
    last: dt.date | None
    days: int
    transactions: int
    changes: int
    store_bytes: int
    #: Tables with their approximate number of changes, most first.
    tables: tuple[tuple[str, int], ...]
    #: Number of baselines read on those days; only they have rows that never changed since.
    baselines: int
    #: True with an archive, which must have a day before it is deleted.
    archived: bool
    #: Last counted day, if later days that may be deleted are not counted yet; else None.
    counted_through: dt.date | None

    @property
    def nothing(self) -> bool:
        """Return whether nothing would be deleted."""
        return self.days == 0

    @property
    def is_to_be_confirmed(self) -> bool:
        """Return whether something would be deleted, or may be on days not yet counted."""
        return not self.nothing or self.counted_through is not None


def loss_of(slot: Slot, keeping: Keeping) -> RetentionLoss:
    """Return what would be deleted now under this retention; more follows as time passes."""
    today = timezone.now().date()
    days = days_of(slot.pk)
    through = doomed_through(keeping, days, today, today_share_bytes().get(slot.pk, 0))
    lost = [] if through is None else [day for day in days if day.day <= through]
    counted = kept_days.counted_through()
    late = any((counted or dt.date.min) < day < today for day, _ in kept_days.partitions())
    return RetentionLoss(
        first=lost[0].day if lost else None,
        last=lost[-1].day if lost else None,
        days=len(lost),
        transactions=sum(day.transactions for day in lost),
        changes=sum(day.changes for day in lost),
        store_bytes=sum(day.store_bytes or 0 for day in lost),
        tables=_tables(slot, lost[-1].day) if lost else (),
        baselines=_baselines(slot, lost[-1].day) if lost else 0,
        archived=archive.chosen().target is not None,
        counted_through=(counted or dt.date.min) if late else None,
    )


def _tables(slot: Slot, last: dt.date) -> tuple[tuple[str, int], ...]:
    spans = (
        KeptDay.objects.filter(incarnation__slot=slot, day__lte=last, first_seq__isnull=False)
        .values_list("incarnation_id")
        .annotate(Min("first_seq"), Max("last_seq"))
    )
    incarnations, first, final = zip(*spans, strict=True) if spans else ((), (), ())
    wanted = {
        "incarnations": list(incarnations), "first": [seq // BLOCK for seq in first],
        "last": [seq // BLOCK for seq in final], "most": _MOST_TABLES,
    }  # fmt: skip
    return tuple((str(name), changes) for name, changes in rows(_TABLES, wanted))


def _baselines(slot: Slot, last: dt.date) -> int:
    until = first_id_of(last + dt.timedelta(days=1))
    return Baseline.objects.filter(slot=slot, state="done", transaction_id__lt=until).count()

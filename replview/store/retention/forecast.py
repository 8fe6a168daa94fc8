"""When the store is full, at the rate it has been growing, and where each slot's record levels off.

The store's size is noted every few minutes, and what its disk has left, where that can be told: on
the store's own host, to whoever may see its data directory. The forecast is of what fills first,
the budget or the disk; what retention deletes is already in the rate. None is unknown.
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

#: The size is noted no more often than this, and forgotten after so long.
_EVERY = dt.timedelta(minutes=10)
_KEPT = dt.timedelta(days=31)
_WEEK, _DAY = dt.timedelta(days=7), dt.timedelta(hours=24)
#: From less than this nothing is foretold.
_LEAST = dt.timedelta(hours=1)
#: Days a slot's rate is taken from.
_RATE_DAYS = 7
_DAY_SECONDS = 86_400
# Where its data is, for whoever may know, and whether it is reached on this host.
_PLACE = """
    SELECT CASE WHEN pg_has_role(current_user, 'pg_read_all_settings', 'USAGE')
                THEN current_setting('data_directory') END,
           inet_server_addr() IS NULL OR inet_server_addr() << '127.0.0.0/8'
           OR inet_server_addr() = '::1'
"""


@dataclass(frozen=True, slots=True)
class Rate:
    bytes_per_day: float
    #: Over so long.
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    size_bytes: int
    #: What is left until it is full; None: unknown.
    room_bytes: int | None
    #: ``budget``, ``disk``, or empty: neither is known.
    of: str
    #: Left on its disk; None: that cannot be told from here.
    free_bytes: int | None
    #: Over the last week, or as much of it as was noted; over the last day.
    week: Rate | None
    day: Rate | None

    @property
    def rate(self) -> Rate | None:
        """The one that counts: the week's, or the last day's where that alone fills it, or fills a
        disk sooner: days deleted in the week tell nothing of what comes then.
        """
        week, day = self.days_left(self.week), self.days_left(self.day)
        if day is not None and (week is None or (self.of == "disk" and day < week)):
            return self.day
        return self.week or self.day

    @property
    def disk_days(self) -> float | None:
        """Until its disk is full, which comes before any budget; None: that is not foreseen."""
        return self.days_left(self.rate) if self.of == "disk" else None

    def days_left(self, rate: Rate | None) -> float | None:
        """Until it is full at a rate; None: unknown, or it does not grow."""
        if rate is None or self.room_bytes is None or rate.bytes_per_day <= 0:
            return None
        return max(self.room_bytes, 0) / rate.bytes_per_day


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotForecast:
    """One slot's record in the store, estimated."""

    slot: Slot
    #: None: none of its days is counted yet.
    store_bytes: int | None
    days: int
    #: Of whole days, the last week's mean; None: none is over yet.
    bytes_per_day: float | None
    #: Until it has what it may keep at most, at this rate; None: it never has, or unknown.
    days_left: float | None
    #: What it levels off at; None: at nothing, or unknown.
    levels_off_bytes: int | None
    stuck: str


def forecast() -> Forecast:
    """As of the last note of the size, and the ones before."""
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
    """Every slot, as far as its days are counted."""
    today = keeping.today_share_bytes()
    slots = Slot.objects.select_related("source").filter(temporary=False)
    return [_of_slot(slot, today.get(slot.pk, 0)) for slot in slots]


def of_slot(slot: Slot) -> SlotForecast:
    return _of_slot(slot, keeping.today_share_bytes().get(slot.pk, 0))


def _of_slot(slot: Slot, today_bytes: int) -> SlotForecast:
    days = keeping.days_of(slot.pk)
    whole = [day.store_bytes for day in days if day.store_bytes is not None]
    size = sum(whole) + today_bytes if days else None
    # Of the days of the last week that have nothing nothing is noted: they count as what they are.
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
        # Its age comes first: it never has so much.
        left = None if rate is not None and rate * slot.keep_for_days < (most or 0) else left
    return SlotForecast(
        slot=slot, store_bytes=size, days=len(days), bytes_per_day=rate, days_left=left,
        levels_off_bytes=None if level is None else int(level), stuck=keeping.why_stuck(slot),
    )  # fmt: skip


@transaction.atomic
def note_size() -> None:
    """Note how large the store is, unless that was done just now."""
    now = timezone.now()
    if StoreMoment.objects.filter(at__gt=now - _EVERY).exists():
        return
    StoreMoment.objects.create(at=now, size_bytes=store_size.size_now(), free_bytes=_free_bytes())
    StoreMoment.objects.filter(at__lt=now - _KEPT).delete()


def _free_bytes() -> int | None:
    """What the disk of the store's data directory has left; None: it is not here, or not told."""
    [(folder, near)] = rows(_PLACE)
    if not folder or not near:
        return None
    try:
        # Ours only where it is there: an address of this host may lead into a container.
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
class Loss:
    #: The first and the last day; None: nothing.
    first: dt.date | None
    last: dt.date | None
    days: int
    transactions: int
    changes: int
    store_bytes: int
    #: Tables with about so many changes, the most first.
    tables: tuple[tuple[str, int], ...]
    #: Baselines read in those days: rows that never changed since are known from them alone.
    baselines: int
    #: There is an archive: days go only once it has them.
    archived: bool
    #: Of the days that may go those after this are not counted yet; None: all are.
    counted_through: dt.date | None

    @property
    def nothing(self) -> bool:
        return self.days == 0

    @property
    def is_to_be_confirmed(self) -> bool:
        """Something would go, or may: of days that are not counted nothing is told."""
        return not self.nothing or self.counted_through is not None


def loss_of(slot: Slot, keeping: Keeping) -> Loss:
    """What would go now if the slot kept so much; more goes as time passes."""
    today = timezone.now().date()
    days = days_of(slot.pk)
    through = doomed_through(keeping, days, today, today_share_bytes().get(slot.pk, 0))
    lost = [] if through is None else [day for day in days if day.day <= through]
    counted = kept_days.counted_through()
    late = any((counted or dt.date.min) < day < today for day, _ in kept_days.partitions())
    return Loss(
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

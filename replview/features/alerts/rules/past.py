"""What the past samples tell in each kind's unit, a series a subject: to try a rule against."""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from replview.features.alerts import measuring_slots
from replview.features.alerts.rules.alert_samples import past_samples
from replview.features.alerts.snapshot import GROWTH_LEAST, GROWTH_WINDOW
from replview.store.models import AlertRule, Source, SourceSample, WatchedSlot

_K = AlertRule.Kind
#: More rows than about this are not read: with very many slots, the samples are thinned out.
_ROWS_LIMIT = 100_000
Row = dict[str, Any]
Point = tuple[dt.datetime, float | None]
Reader = Callable[[WatchedSlot, list[Row]], Iterator[Point]]


@dataclass
class Series:
    """What was measured of one subject, oldest first."""

    name: str
    slot_id: int | None = None
    points: list[Point] = field(default_factory=list)


def read_past(
    rule: AlertRule, overridden: Iterable[int], since: dt.datetime, until: dt.datetime
) -> list[Series]:
    """A series of each subject the rule concerns."""
    if rule.kind in _OF_SOURCES:
        return _sources(_OF_SOURCES[rule.kind], since, until)
    slots = WatchedSlot.objects.select_related("source", "slot").exclude(pk__in=list(overridden))
    if rule.slot_id is not None:
        slots = slots.filter(pk=rule.slot_id)
    own_rule = rule.slot_id is not None
    rows = [row for row in slots if _concerns(rule.kind, row, own_rule)]
    return _slots(_OF_SLOTS[rule.kind], rows, since, until)


def _concerns(kind: str, row: WatchedSlot, own_rule: bool) -> bool:
    if kind == _K.RECEIVER_DOWN:
        return row.slot is not None
    limited = measuring_slots.limit_of(row) is not None
    if kind == _K.RETAINED_WAL:
        return own_rule or not limited
    if kind == _K.RETAINED_SHARE:
        return limited
    if kind == _K.TIME_TO_LOSS:
        return (row.source.max_slot_wal_keep_bytes or -1) > 0
    return kind != _K.SLOT_INACTIVE or row.facts.get("synced") is not True


def _slots(
    read: Reader, slots: list[WatchedSlot], since: dt.datetime, until: dt.datetime
) -> list[Series]:
    seconds = (until - since).total_seconds()
    thinned = max(1.0, len(slots) * seconds / _ROWS_LIMIT)
    by_slot: dict[int, list[Row]] = {slot.pk: [] for slot in slots}
    for row in past_samples(list(by_slot), since, until, dt.timedelta(seconds=thinned)):
        by_slot[row["slot_id"]].append(row)
    return [
        Series(f"{slot.source.name}/{slot.name}", slot.pk, list(read(slot, by_slot[slot.pk])))
        for slot in slots
        if by_slot[slot.pk]
    ]


def _retained(slot: WatchedSlot, rows: list[Row]) -> Iterator[Point]:
    for row in rows:
        yield row["at"], row["retained_wal_bytes"]


def _share(slot: WatchedSlot, rows: list[Row]) -> Iterator[Point]:
    limit = measuring_slots.limit_of(slot) or 1
    for at, retained in _retained(slot, rows):
        yield at, None if retained is None else retained / limit


def _to_loss(slot: WatchedSlot, rows: list[Row]) -> Iterator[Point]:
    limit, first = slot.source.max_slot_wal_keep_bytes or 1, 0
    for row in rows:
        while row["at"] - rows[first]["at"] > GROWTH_WINDOW:
            first += 1
        retained, safe, older = row["retained_wal_bytes"], row["safe_wal_size"], rows[first]
        if retained is None:
            yield row["at"], None
            continue
        span, growth = row["at"] - older["at"], None
        if span >= GROWTH_LEAST and older["retained_wal_bytes"] is not None:
            growth = (retained - older["retained_wal_bytes"]) / span.total_seconds()
        left = limit - retained if safe is None else safe
        yield row["at"], measuring_slots.foretold(left, retained / limit, growth)


def _lag(slot: WatchedSlot, rows: list[Row]) -> Iterator[Point]:
    for row in rows:
        yield row["at"], measuring_slots.lag_of(row)


def _lost(slot: WatchedSlot, rows: list[Row]) -> Iterator[Point]:
    for row in rows:
        yield row["at"], float(measuring_slots.lost_reason(row) is not None)


def _unread(slot: WatchedSlot, rows: list[Row]) -> Iterator[Point]:
    """Since the server says, or since the first sample that saw nobody read it."""
    since: dt.datetime | None = None
    for row in rows:
        if row["active"] is None:
            yield row["at"], None
            continue
        if row["active"]:
            since = None
            yield row["at"], 0.0
            continue
        told = row["inactive_since"]
        since = since or (dt.datetime.fromisoformat(told) if told else row["at"])
        yield row["at"], max((row["at"] - since).total_seconds(), 0.0)


_OF_SLOTS: dict[str, Reader] = {
    _K.RETAINED_WAL: _retained,
    _K.RETAINED_SHARE: _share,
    _K.TIME_TO_LOSS: _to_loss,
    _K.LAG: _lag,
    _K.SLOT_LOST: _lost,
    _K.SLOT_INACTIVE: _unread,
    _K.RECEIVER_DOWN: _unread,
}


def _sources(column: str, since: dt.datetime, until: dt.datetime) -> list[Series]:
    names = dict(Source.objects.values_list("pk", "name"))
    found = {pk: Series(name) for pk, name in names.items()}
    silent: dict[int, dt.datetime] = {}
    for sample in SourceSample.objects.filter(
        sampled_at__gte=since, sampled_at__lte=until
    ).order_by("sampled_at"):
        series = found.get(sample.source_id)
        if series is None:
            continue
        if column == "":
            series.points.append((sample.sampled_at, _silent_for(silent, sample)))
            continue
        oldest, count = getattr(sample, f"oldest_{column}_seconds"), getattr(sample, column)
        series.points.append((sample.sampled_at, 0.0 if count == 0 else oldest))
    return [series for series in found.values() if series.points]


def _silent_for(silent: dict[int, dt.datetime], sample: SourceSample) -> float:
    if sample.reachable:
        silent.pop(sample.source_id, None)
        return 0.0
    began = silent.setdefault(sample.source_id, sample.sampled_at)
    return (sample.sampled_at - began).total_seconds()


#: The columns of source samples; empty: whether it was reached.
_OF_SOURCES = {
    _K.PREPARED_AGE: "prepared",
    _K.LONG_TRANSACTION: "running",
    _K.SOURCE_UNREACHABLE: "",
}
#: Kinds that past samples tell of.
TRIED = {*_OF_SLOTS, *_OF_SOURCES}

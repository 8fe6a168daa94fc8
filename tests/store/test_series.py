"""Samples as series: which rows tell, few enough points, gaps, and paces over resets."""

import datetime as dt
import math
from itertools import pairwise

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decoder.scalars import LSN
from replview.features.lag.series import read_series
from replview.store.models import SampleMark, Setting

pytestmark = pytest.mark.django_db

#: Noon of today: the partitions of today and yesterday are there.
NOW = dt.datetime.now(dt.UTC).replace(hour=12, minute=0, second=0, microsecond=0)
SECOND = dt.timedelta(seconds=1)


@pytest.fixture(autouse=True)
def partitions() -> None:
    """A default partition takes whatever a test stores."""
    with connection.cursor() as cursor:
        for table in ("slot_sample", "slot_sample_minute", "slot_sample_hour"):
            cursor.execute(f"CREATE TABLE series_{table} PARTITION OF {table} DEFAULT")


def store(table: str, rows: list[dict[str, object]]) -> None:
    with connection.cursor() as cursor:
        for row in rows:
            names = ", ".join(row)
            places = ", ".join(["%s"] * len(row))
            cursor.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", list(row.values()))


def sample(at: dt.datetime, slot: int = 1, **values: object) -> dict[str, object]:
    return {"slot_id": slot, "sampled_at": at, **values}


def read(fields: list[str], minutes: float, slots: tuple[int, ...] = (1,), points: int = 1000):
    return read_series(slots, fields, NOW - minutes * 60 * SECOND, NOW, points, now=NOW)


def test_raw_samples_come_as_they_were_taken() -> None:
    store("slot_sample", [sample(NOW - 5 * n * SECOND, retained_wal_bytes=n) for n in (3, 2, 1)])

    series = read(["retained_wal_bytes"], 5)

    assert (series.period, series.step_seconds) == ("raw", 5)
    assert series.slots[1].times == [(NOW - 5 * n * SECOND).timestamp() for n in (3, 2, 1)]
    assert series.slots[1].values == {"retained_wal_bytes": [3, 2, 1]}


def test_where_samples_are_missing_there_is_a_gap() -> None:
    ages = [*range(295, 195, -5), *range(100, 0, -5)]
    store("slot_sample", [sample(NOW - n * SECOND, unconfirmed_wal_bytes=n) for n in ages])

    values = read(["unconfirmed_wal_bytes"], 5).slots[1].values["unconfirmed_wal_bytes"]

    assert values.count(None) == 1
    assert values[19:22] == [200, None, 100]


def test_a_lost_slot_is_unknown_never_zero() -> None:
    store("slot_sample", [
        sample(NOW - 10 * SECOND, retained_wal_bytes=7, wal_status="extended"),
        sample(NOW - 5 * SECOND, retained_wal_bytes=None, wal_status="lost"),
    ])  # fmt: skip

    values = read(["retained_wal_bytes", "lost"], 5).slots[1].values

    assert values == {"retained_wal_bytes": [7, None], "lost": [False, True]}


def test_a_total_becomes_its_pace_and_a_fall_is_unknown() -> None:
    totals = [1000, 1500, 2000, 100, 600, None, 900, 1000]
    store("slot_sample", [
        sample(NOW - (len(totals) - n) * 5 * SECOND, spill_bytes=total)
        for n, total in enumerate(totals)
    ])  # fmt: skip

    paces = read(["spill_bytes"], 5).slots[1].values["spill_bytes"]

    assert paces == [None, 100, 100, None, 100, None, None, 20]


def test_a_fall_inside_a_bucket_is_seen() -> None:
    """Reset to nothing and above what it was, between two points that are drawn."""
    Setting.objects.create(name="sampling.seconds", value=1)
    totals = [*range(0, 600, 1), 0, *range(5000, 5600, 1)]
    store("slot_sample", [
        sample(NOW - (len(totals) - n) * SECOND, stream_bytes=total)
        for n, total in enumerate(totals)
    ])  # fmt: skip

    paces = read(["stream_bytes"], 30, points=40).slots[1].values["stream_bytes"]

    assert {round(pace, 6) for pace in paces if pace is not None} == {1}


def test_positions_become_bytes_a_second() -> None:
    store("slot_sample", [
        sample(NOW - age * SECOND, current_lsn=str(LSN(0x10_0000_0000 + position)),
               confirmed_flush_lsn=str(LSN(0x10_0000_0000 + read_to)), restart_lsn="0/1")
        for age, position, read_to in ((15, 0, 0), (10, 500, 0), (5, 1500, 1000))
    ])  # fmt: skip

    values = read(["wal_written", "wal_read"], 5).slots[1].values

    assert values == {"wal_written": [None, 100, 200], "wal_read": [None, 0, 200]}


def test_long_stretches_are_read_from_hours_and_what_follows_from_finer_rows() -> None:
    hour = NOW - dt.timedelta(hours=2)
    SampleMark.objects.create(period="hour", until=hour + dt.timedelta(hours=1))
    SampleMark.objects.create(period="minute", until=NOW - dt.timedelta(minutes=10))
    store(
        "slot_sample_hour",
        [
            sample(hour - n * 3600 * SECOND, retained_wal_bytes=n, bytes_stored=-3600 * n)
            for n in range(48)
        ],
    )
    store(
        "slot_sample_minute",
        [
            sample(NOW - 60 * n * SECOND, retained_wal_bytes=1000 + n, bytes_stored=3660 - 60 * n)
            for n in range(200, 10, -1)
        ],
    )
    store(
        "slot_sample",
        [
            sample(NOW - 5 * n * SECOND, retained_wal_bytes=3, bytes_stored=3600 - 5 * n)
            for n in range(200, 0, -1)
        ],
    )

    series = read(["retained_wal_bytes", "bytes_stored"], 30 * 24 * 60)
    values = series.slots[1].values["retained_wal_bytes"]

    assert (series.period, series.step_seconds) == ("hour", 3600)
    # Hours are not read again from minutes, nor minutes from raw samples.
    assert values[-4:] == [2, 1, 0, 1060]
    assert len(values) == 49
    paces = [pace for pace in series.slots[1].values["bytes_stored"] if pace is not None]
    assert len(paces) == 48
    assert all(abs(pace - 1) < 0.05 for pace in paces)


def test_what_is_no_longer_kept_is_read_from_coarser_rows() -> None:
    since = NOW - dt.timedelta(days=3)
    SampleMark.objects.create(period="minute", until=NOW)
    store(
        "slot_sample_minute",
        [sample(since + 60 * n * SECOND, retained_wal_bytes=n) for n in range(5)],
    )

    series = read_series([1], ["retained_wal_bytes"], since, since + 300 * SECOND, now=NOW)

    assert series.period == "minute"
    assert series.slots[1].values["retained_wal_bytes"] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("days", [0.0035, 0.04, 0.125, 1, 30, 366, 3000])
def test_never_more_points_than_asked_for(days: float) -> None:
    for points in (50, 1000):
        length = dt.timedelta(days=days)
        series = read_series([1], ["active"], NOW - length, NOW, points, now=NOW)
        buckets = math.ceil(length.total_seconds() / series.step_seconds) + 1
        assert buckets <= points


def test_a_slot_without_samples_has_none() -> None:
    assert read(["lost"], 5, slots=(1, 2)).slots[2].times == []
    assert read(["lost"], 5, slots=()).slots == {}


@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    ages=st.lists(st.integers(1, 3600), min_size=1, max_size=60, unique=True),
    totals=st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=60, max_size=60),
    points=st.integers(5, 60),
)
def test_it_is_what_plain_bucketing_gives(
    ages: list[int], totals: list[int | None], points: int
) -> None:
    rows = [
        (NOW.timestamp() - age, total)
        for age, total in zip(sorted(ages)[::-1], totals, strict=False)
    ]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM slot_sample")
    store("slot_sample", [
        sample(dt.datetime.fromtimestamp(at, dt.UTC), retained_wal_bytes=total, total_bytes=total)
        for at, total in rows
    ])  # fmt: skip

    series = read(["retained_wal_bytes", "total_bytes"], 60, points=points)
    found = series.slots[1]

    buckets: dict[int, list[tuple[float, int | None]]] = {}
    for at, total in rows:
        buckets.setdefault(int(at // series.step_seconds), []).append((at, total))
    expected: list[tuple[float, int | None, float | None]] = []
    most = max(1, math.ceil(15 / series.step_seconds))
    spacing = max(series.step_seconds, 5)
    end_known = True
    for (before, earlier), (number, samples) in pairwise([(-(10**9), []), *buckets.items()]):
        known = [total for _, total in samples if total is not None]
        past = [total for _, total in earlier if total is not None]
        gap = number - before > most
        fell = bool(known and past and min(known) < max(past))
        if gap and earlier:
            expected.append((earlier[-1][0] + spacing, None, None))
        pace = None
        if not gap and known and past and not fell and end_known:
            pace = (max(known) - max(past)) / (samples[-1][0] - earlier[-1][0])
        end_known = gap or not past or not fell or len(set(known)) == 1
        expected.append((samples[-1][0], max(known, default=None), pace))
    paces = found.values["total_bytes"]
    assert list(zip(found.times, found.values["retained_wal_bytes"], strict=True)) == [
        (at, value) for at, value, _ in expected
    ]
    assert paces == [pytest.approx(pace) for _, _, pace in expected]
    assert len(found.times) <= points

"""Samples by the minute and the hour: what is kept of each column, and what is forgotten when."""

import datetime as dt
import time

import pytest
from django.db import connection

from decoder.scalars import LSN
from replview.features.sampling import rollups as sample_rollups
from replview.store import instance_settings
from replview.store.models import (
    SampleMark,
    Slot,
    SlotSample,
    SlotSampleHour,
    SlotSampleMinute,
    Source,
    WatchedSlot,
)
from replview.store.write.partitions import ensure_partitions

pytestmark = pytest.mark.django_db
NOW = dt.datetime.now(dt.UTC)
#: Two whole hours, a while ago.
BEGAN = (NOW - dt.timedelta(hours=4)).replace(minute=0, second=0, microsecond=0)


@pytest.fixture
def slot() -> WatchedSlot:
    connection.ensure_connection()
    ensure_partitions(connection.connection, BEGAN.date(), NOW.date())
    source = Source.objects.create(name="s", conninfo="")
    made = Slot.objects.create(source=source, name="slot")
    return WatchedSlot.objects.create(id=made.pk, source=source, name="slot", slot=made)


def sample(slot: WatchedSlot, seconds: float, **values) -> None:
    SlotSample.objects.create(
        slot_id=slot.pk, sampled_at=BEGAN + dt.timedelta(seconds=seconds), **values
    )


def roll() -> int:
    return sample_rollups.roll(time.monotonic() + 60)


def test_a_minute_keeps_the_worst_and_the_last(slot) -> None:
    sample(slot, 1, retained_wal_bytes=5, safe_wal_bytes=9, wal_status="lost", active=False,
           restart_lsn=LSN(1), changes_stored=10, replay_lag_seconds=0.5)  # fmt: skip
    sample(slot, 6, retained_wal_bytes=9, safe_wal_bytes=3, wal_status="reserved", active=True,
           restart_lsn=LSN(4), changes_stored=2)  # fmt: skip
    sample(slot, 11, retained_wal_bytes=7)
    sample(slot, 61, wal_status="extended")
    roll()

    first, second = SlotSampleMinute.objects.order_by("sampled_at")
    assert first.sampled_at == BEGAN
    assert (first.samples, first.retained_wal_bytes, first.safe_wal_bytes) == (3, 9, 3)
    assert (first.wal_status, first.active) == ("lost", True)
    assert (first.restart_lsn, first.changes_stored) == (LSN(4), 2)
    assert first.replay_lag_seconds == 0.5
    assert second.retained_wal_bytes is second.active is second.restart_lsn is None


def test_an_hour_is_made_of_its_minutes(slot) -> None:
    for seconds, retained in ((0, 1), (3599, 8), (3600, 3), (7100, 2)):
        sample(slot, seconds, retained_wal_bytes=retained, changes_stored=seconds)
    roll()

    first, second = SlotSampleHour.objects.order_by("sampled_at")
    assert (first.sampled_at, first.samples) == (BEGAN, 2)
    assert (first.retained_wal_bytes, first.changes_stored) == (8, 3599)
    assert (second.retained_wal_bytes, second.changes_stored) == (3, 7100)


def test_rolling_again_changes_nothing_and_goes_on_where_it_was(slot) -> None:
    sample(slot, 1, retained_wal_bytes=5)
    assert roll() > 0
    assert roll() == 0
    SampleMark.objects.update(until=BEGAN)
    sample(slot, 2, retained_wal_bytes=6)
    roll()
    [minute] = SlotSampleMinute.objects.all()
    assert (minute.samples, minute.retained_wal_bytes) == (2, 6)


def test_the_present_minute_is_left_alone(slot) -> None:
    SlotSample.objects.create(slot_id=slot.pk, sampled_at=dt.datetime.now(dt.UTC))
    assert roll() == 0
    assert not SlotSampleMinute.objects.exists()


def test_old_partitions_go_but_none_that_is_not_rolled(slot) -> None:
    old = NOW - dt.timedelta(days=40)
    ensure_partitions(connection.connection, old.date(), old.date())
    raw, minute = f"slot_sample_{old:%Y%m%d}", f"slot_sample_minute_{old:%Y%m%d}"
    assert not {raw, minute} & set(sample_rollups.forget_old())
    SampleMark.objects.create(period="minute", until=NOW)
    assert raw in sample_rollups.forget_old()
    SampleMark.objects.create(period="hour", until=NOW)
    instance_settings.write("samples.minute_days", 60, "me")
    assert minute not in sample_rollups.forget_old()
    instance_settings.write("samples.minute_days", None, "me")
    dropped = sample_rollups.forget_old()
    assert minute in dropped
    assert f"slot_sample_{NOW:%Y%m%d}" not in dropped


def test_hours_are_kept_for_a_year_by_the_month(slot) -> None:
    old, young = NOW - dt.timedelta(days=430), NOW - dt.timedelta(days=300)
    for day in (old, young):
        ensure_partitions(connection.connection, day.date(), day.date())
    dropped = sample_rollups.forget_old()
    assert f"slot_sample_hour_{old:%Y%m}" in dropped
    assert f"slot_sample_hour_{young:%Y%m}" not in dropped


def test_a_choice_that_is_no_number_counts_as_not_chosen() -> None:
    for value, expected in (("many", 5.0), (True, 5.0), (0.1, 1.0), (7, 7.0)):
        instance_settings.write("sampling.seconds", value, "me")
        assert instance_settings.read_number("sampling.seconds", 5.0, least=1, most=60) == expected

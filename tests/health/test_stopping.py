"""Before a receiver is stopped, each limit of its slot is named, the nearest one first."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from replview.health.stopping import limits_once_stopped
from replview.store.models import Slot, SlotSample, Source, WatchedSlot
from replview.store.write.partitions import ensure_partitions

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC).replace(microsecond=0)
MB, GB = 1 << 20, 1 << 30
_IDLE = "checkpoint after {} without a consumer (idle_replication_slot_timeout) invalidates"
_GAP = "and history has a gap."


def said(pace: int | None = 10 * MB, *, slot: dict[str, Any] | None = None, **source: Any) -> str:
    """The sentences on a slot that is read now, on a source that writes WAL at this pace."""
    known: dict[str, Any] = {"max_slot_wal_keep_bytes": 10 * GB, "server_version": 180004}
    shop = Source.objects.create(name="shop", **(known | source))
    ours = Slot.objects.create(source=shop, name="ours", **(slot or {}))
    WatchedSlot.objects.create(
        id=ours.pk, source=shop, slot=ours, name="ours", last_seen_at=NOW,
        facts={"active": True, "retained_wal_bytes": 0, "wal_status": "reserved"},
    )  # fmt: skip
    connection.ensure_connection()
    ensure_partitions(connection.connection, (NOW - timedelta(days=1)).date(), NOW.date())
    if pace is not None:
        for seconds in range(0, 610, 30):
            SlotSample.objects.create(
                slot_id=ours.pk, sampled_at=NOW - timedelta(seconds=seconds),
                current_lsn=GB * 100 - seconds * pace, retained_wal_bytes=0,
            )  # fmt: skip
    return " ".join(limits_once_stopped(ours, NOW)).replace("\xa0", " ")


def test_the_timeout_comes_first_where_wal_is_written_slowly() -> None:
    assert said(idle_slot_timeout_seconds=60) == (
        f"First: the first {_IDLE.format('1 min')} the slot, {_GAP} At "
        "max_slot_wal_keep_size (10 GB), in about 17 min at the present WAL rate, the server "
        f"invalidates the slot, {_GAP}"
    )


def test_the_budget_comes_first_before_the_servers_limit_and_a_long_timeout() -> None:
    told = said(idle_slot_timeout_seconds=86400, slot={"wal_budget_bytes": 5 * GB})
    first, second, third = told.split(_GAP)[:3]
    assert first.startswith("First: at its WAL budget of 5 GB, in about 8 min 32 s")
    assert second.startswith(" At max_slot_wal_keep_size (10 GB), in about 17 min")
    assert third.strip().startswith(f"The first {_IDLE.format('1 d')}")


def test_where_no_wal_is_written_only_the_timeout_is_in_sight() -> None:
    told = said(0, idle_slot_timeout_seconds=60)
    assert told.startswith("First: the first checkpoint after 1 min")
    assert "At max_slot_wal_keep_size (10 GB) the server invalidates" in told


def test_an_unknown_pace_is_said() -> None:
    told = said(None, idle_slot_timeout_seconds=60)
    assert "First: " not in told
    assert told.endswith("It is unknown which limit comes first, because the WAL rate is unknown.")


def test_one_limit_alone_is_not_compared() -> None:
    assert said() == (
        "At max_slot_wal_keep_size (10 GB), in about 17 min at the present WAL rate, the server "
        f"invalidates the slot, {_GAP}"
    )


def test_without_any_limit_the_disk_can_fill() -> None:
    unlimited = {"max_slot_wal_keep_bytes": -1, "idle_slot_timeout_seconds": 0}
    kept = {"wal_budget_bytes": GB, "protect": "record"}
    assert said(slot=kept, **unlimited) == (
        "No limit is set: a slot without a consumer can fill the disk of the source."
    )


def test_what_the_server_did_not_tell_is_unknown() -> None:
    told = said(max_slot_wal_keep_bytes=None)
    assert told == "It is unknown whether the server limits retained WAL."


def test_on_a_standby_without_feedback_the_primary_may_end_it_at_any_moment() -> None:
    assert "as soon as the primary removes rows" in said(
        in_recovery=True, hot_standby_feedback=False
    )

"""Every slot in plain words, rule by rule: behind, unread, near its limit, lost, gone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from decoder.scalars import LSN
from replview.health.conditions import foreseen_loss, limit_of, lost_reason
from replview.health.findings_received import slot_health
from replview.health.findings_wal import behind_words
from replview.health.findings_watched import forgotten, watched_health
from replview.health.holding import cause_of
from replview.health.queries import SlotRates
from replview.health.server_slot import ServerSlot, server_slot
from replview.health.slot_steps import steps_of
from replview.health.source_state import SourceState
from replview.health.states import Health, Level, SlotReading
from replview.health.watched import reading_of
from replview.store.models import Slot, Source, WatchedSlot
from tests.support.watched_scene import COLUMNS_15, COLUMNS_18, LOST_15, LOST_16, LOST_18, unread

NOW = datetime(2026, 11, 20, 7, 57, 12, tzinfo=UTC)
MB, GB = 1 << 20, 1 << 30
VERSIONS = {15: COLUMNS_15, 16: {**COLUMNS_15, "conflicting": False}, 18: COLUMNS_18}


def make(version: int = 18, **values: Any) -> ServerSlot:
    """A slot that is read, seen just now."""
    source = Source(
        name="shop", server_version=version * 10000 + 4,
        max_slot_wal_keep_bytes=values.pop("limit", 64 * GB),
        in_recovery=values.pop("in_recovery", False),
    )  # fmt: skip
    facts = {"active": True, "active_pid": 7, "restart_lsn": "1/0", "confirmed_flush_lsn": "1/10",
             "retained_wal_bytes": 16 * MB, "unconfirmed_wal_bytes": 1000,
             **VERSIONS[version]}  # fmt: skip
    facts |= values.pop("facts", {})
    known = {"name": "debezium", "last_seen_at": NOW, "plugin": "pgoutput", "database": "app"}
    return server_slot(WatchedSlot(source=source, facts=facts, **(known | values)))


def health_of(server: ServerSlot, pace: SlotRates | None = None) -> Health:
    return watched_health(server, reading_of(server, pace or SlotRates(), NOW), NOW)


def steps(server: ServerSlot, slot: Slot | None = None) -> list[str]:
    cause = cause_of(server, SourceState(None, NOW), NOW, slot)
    found = steps_of(server, slot, reading_of(server, SlotRates(), NOW), cause, NOW)
    return [step.run for step in found]


def test_a_slot_that_is_read_is_caught_up() -> None:
    assert health_of(make()).title == "debezium is caught up."
    assert health_of(make(), SlotRates(wal=0.0)).level == Level.IDLE


@pytest.mark.parametrize(
    ("growth", "words"),
    [
        (None, "Behind by 3.2\xa0GB"),
        (-40 * MB, "Behind by 3.2\xa0GB, catching up at 40\xa0MB/s, about 82\xa0s to go"),
        (-1 * MB, "Behind by 3.2\xa0GB, catching up at 1\xa0MB/s, about 54\xa0min to go"),
        (2 * MB, "Behind by 3.2\xa0GB and falling behind, by 2\xa0MB/s"),
        (0.0, "Behind by 3.2\xa0GB, neither catching up nor falling behind"),
    ],
)
def test_behind_foretells_only_what_the_samples_show(growth: float | None, words: str) -> None:
    assert behind_words(int(3.2 * GB), growth) == words


def test_falling_behind_needs_a_look_sooner_than_catching_up() -> None:
    server = make(facts={"unconfirmed_wal_bytes": 300 * MB})

    assert health_of(server, SlotRates(behind=-40.0 * MB)).level == Level.OK
    falling = health_of(server, SlotRates(behind=1.0 * MB))
    assert falling.level == Level.LOOK
    assert falling.title.startswith("debezium: behind by 300\xa0MB and falling behind")


def test_a_physical_slot_is_behind_by_what_it_retains() -> None:
    server = make(slot_type="physical",
                  facts={"confirmed_flush_lsn": None, "unconfirmed_wal_bytes": None,
                         "retained_wal_bytes": 200 * MB})  # fmt: skip

    assert server.behind_bytes == 200 * MB
    assert "behind by 200\xa0MB" in health_of(server).title


@pytest.mark.parametrize(
    ("age", "retained", "level"),
    [
        (timedelta(seconds=20), 1 * MB, Level.IDLE),
        (timedelta(minutes=6), 1 * MB, Level.LOOK),
        (timedelta(seconds=20), 300 * MB, Level.LOOK),
    ],
)
def test_a_slot_nobody_reads_says_since_when(age: timedelta, retained: int, level: Level) -> None:
    health = health_of(make(**unread(NOW - age, retained)))

    assert health.level == level
    assert health.title.startswith("debezium: it has had no consumer for ")


def test_a_slot_unread_for_a_day_seems_forgotten() -> None:
    assert forgotten(make(**unread(NOW - timedelta(days=2), MB)), NOW)
    assert not forgotten(make(**unread(NOW - timedelta(hours=2), MB)), NOW)
    assert not forgotten(make(), NOW)
    copy = unread(NOW - timedelta(days=2), MB, synced=True)
    assert not forgotten(make(in_recovery=True, **copy), NOW)
    assert forgotten(make(facts=LOST_18), NOW)


def test_a_slot_that_was_never_used_retains_none_which_is_not_unknown() -> None:
    unused = {"active": False, "restart_lsn": None, "retained_wal_bytes": None}
    server = make(slot_type="physical", facts=unused)

    assert health_of(server).title == "debezium was never used."
    assert server.reserves_none


def test_a_standbys_copy_waits_for_a_failover() -> None:
    server = make(in_recovery=True, **unread(NOW - timedelta(days=2), MB, synced=True))

    assert health_of(server).level == Level.OK
    assert "synchronized" in health_of(server).title
    assert steps(server) == []


def test_time_to_loss_is_the_servers_safe_size_at_the_pace_of_the_last_minutes() -> None:
    server = make(16, **unread(NOW - timedelta(minutes=106), int(32.2 * GB),
                               safe_wal_size=int(31.8 * GB), wal_status="extended"))  # fmt: skip
    health = health_of(server, SlotRates(growth=5.2 * MB))

    assert health.level == Level.NOW
    assert health.title == "debezium will be lost in about 1\xa0h\xa044\xa0min."
    assert health.cause.startswith("It has had no consumer for 1\xa0h\xa046\xa0min. WAL grows")
    assert steps(server) == [
        "SELECT active_pid, safe_wal_size\n  FROM pg_replication_slots\n"
        " WHERE slot_name = 'debezium';",
        "ALTER SYSTEM SET\n  max_slot_wal_keep_size = '128GB';\nSELECT pg_reload_conf();",
        "SELECT pg_drop_replication_slot(\n  'debezium');",
    ]


def test_without_a_limit_one_is_to_be_set() -> None:
    server = make(limit=-1, **unread(NOW - timedelta(hours=2), 20 * GB))

    assert "can fill the disk" in health_of(server).cause
    assert any("max_slot_wal_keep_size = '64GB'" in run for run in steps(server))


@pytest.mark.parametrize(
    ("version", "facts", "reason"),
    [
        (15, LOST_15, "wal_removed"),
        (16, LOST_16, "wal_removed"),
        (16, {**LOST_16, "conflicting": True}, "conflicting"),
        (18, LOST_18, "wal_removed"),
        (18, {**LOST_18, "invalidation_reason": "rows_removed"}, "rows_removed"),
        (18, {**LOST_18, "invalidation_reason": "wal_level_insufficient"},
         "wal_level_insufficient"),
        (18, {**LOST_18, "invalidation_reason": "idle_timeout"}, "idle_timeout"),
        (18, {**LOST_18, "invalidation_reason": "of_a_later_version"}, "of_a_later_version"),
    ],
)  # fmt: skip
def test_a_lost_slot_says_why_and_has_no_distance(
    version: int, facts: dict[str, Any], reason: str
) -> None:
    # Positions that look caught up are those of the moment before.
    server = make(version, facts={**facts, "unconfirmed_wal_bytes": 0, "retained_wal_bytes": 0})
    health = health_of(server)

    assert health.level == Level.NOW
    assert health.title == f"debezium is lost: {reason}."
    assert health.cause
    assert server.retained_wal_bytes is None
    assert server.behind_bytes is None
    assert reading_of(server, SlotRates(), NOW).retained_wal_bytes is None
    assert steps(server)[0] == "SELECT pg_drop_replication_slot(\n  'debezium');"


def test_lost_without_a_version_is_just_lost() -> None:
    assert lost_reason({"wal_status": "lost"}, None) == "lost"
    assert lost_reason({"wal_status": "extended", "conflicting": False}, 160000) == ""


def test_a_lost_slot_stays_lost_while_its_source_does_not_answer() -> None:
    old = NOW - timedelta(minutes=10)

    assert health_of(make(facts=LOST_18, last_seen_at=old)).level == Level.NOW
    assert health_of(make(last_seen_at=old)).title == "debezium: unknown for 10\xa0min."


def test_a_slot_that_was_dropped_is_gone() -> None:
    health = health_of(make(gone_at=NOW))

    assert health.level == Level.IDLE
    assert health.title == "debezium is gone from the server."


def ours(**values: Any) -> Slot:
    source = Source(name="shop", max_slot_wal_keep_bytes=values.pop("limit", 64 * GB))
    known = {"name": "replview", "state": "streaming", "heartbeat_at": NOW, "state_since": NOW,
             "last_stored_at": NOW, "checkpoint_lsn": LSN(100), "server_lsn": LSN(100)}  # fmt: skip
    return Slot(source=source, **(known | values))


CALM = SlotReading(sampled_at=NOW, retained_wal_bytes=16 * MB, wal_status="reserved")


@pytest.mark.parametrize(
    ("reading", "title"),
    [
        (replace(CALM, invalidated="idle_timeout"), "replview is lost: idle_timeout."),
        (replace(CALM, gone_at=NOW), "replview is gone from the server."),
    ],
)
def test_what_the_server_says_goes_before_a_receiver_that_knows_nothing_yet(
    reading: SlotReading, title: str
) -> None:
    health = slot_health(ours(), reading, None, NOW)

    assert (health.level, health.title) == (Level.NOW, title)


def test_a_slot_dropped_at_its_budget_says_so_though_it_is_stopped() -> None:
    slot = ours(desired="stopped", problem_code="wal_budget")
    health = slot_health(slot, replace(CALM, gone_at=NOW), None, NOW)

    assert (health.level, health.title) == (Level.NOW, "replview was dropped at its WAL budget.")
    assert steps(make(gone_at=NOW), slot) == ["replview slot start shop debezium"]


def test_the_budget_is_the_limit_where_it_is_reached_first() -> None:
    growing = replace(CALM, retained_wal_bytes=7 * GB, growth_bytes_per_second=1.0 * MB)
    slot = ours(wal_budget_bytes=8 * GB)

    assert limit_of(slot.source, slot).by == "budget"
    loss = foreseen_loss(slot.source, growing, NOW, slot)
    assert loss is not None
    assert loss.seconds == 1024
    assert "drops the slot, to protect the database" in slot_health(slot, growing, None, NOW).cause


def test_a_budget_that_protects_the_record_loses_nothing() -> None:
    growing = replace(CALM, retained_wal_bytes=7 * GB, growth_bytes_per_second=1.0 * MB)
    slot = ours(wal_budget_bytes=8 * GB, protect="record", limit=-1)
    health = slot_health(slot, growing, None, NOW)

    assert health.loss_seconds is None
    assert health.title == "replview retains 7\xa0GB of 8\xa0GB."
    assert "only alerts" in health.cause


def test_names_in_statements_are_constants() -> None:
    evil = make(name="x'); DROP TABLE orders; --", **unread(NOW - timedelta(days=3), 2 * GB))

    assert steps(evil)[-1] == (
        "SELECT pg_drop_replication_slot(\n  'x''); DROP TABLE orders; --');"
    )

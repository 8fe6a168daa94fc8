"""The estimate names the limit that ends a slot first: WAL kept, our budget, or idle time."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from replview.features.alerts.kinds.time_to_loss import TimeToLoss
from replview.health.conditions import (
    BY_BUDGET,
    BY_IDLE,
    BY_SERVER,
    Observation,
    later_loss,
    seconds_to_loss,
    time_to_loss,
)
from replview.health.findings_received import slot_health
from replview.health.findings_watched import watched_health
from replview.health.holding import cause_of
from replview.health.queries import SlotRates
from replview.health.server_slot import server_slot
from replview.health.slot_steps import steps_of
from replview.health.source_state import SourceState
from replview.health.states import Health, Level, SlotReading
from replview.health.watched import reading_of
from replview.store.models import Slot, Source, WatchedSlot

NOW = datetime(2026, 11, 27, 7, 0, tzinfo=UTC)
MB, GB = 1 << 20, 1 << 30


def make_source(**values: Any) -> Source:
    known = {"name": "shop", "server_version": 180004, "in_recovery": False,
             "max_slot_wal_keep_bytes": 10 * GB, "idle_slot_timeout_seconds": 60}  # fmt: skip
    return Source(**(known | values))


def idle_for(seconds: float, **values: Any) -> SlotReading:
    """A slot that nobody reads, and whose WAL reaches 10 GB in 3,000 s."""
    known: dict[str, Any] = {
        "sampled_at": NOW, "retained_wal_bytes": 7 * GB, "growth_bytes_per_second": 1.024 * MB,
        "wal_status": "extended", "idle_since": NOW - timedelta(seconds=seconds),
    }  # fmt: skip
    return SlotReading(**(known | values))


def watched(seconds: float, source: Source, **facts: Any) -> WatchedSlot:
    told = {"active": False, "restart_lsn": "1/0", "wal_status": "extended", "synced": False,
            "retained_wal_bytes": 7 * GB,
            "inactive_since": (NOW - timedelta(seconds=seconds)).isoformat()}  # fmt: skip
    return WatchedSlot(source=source, name="theirs", last_seen_at=NOW, plugin="pgoutput",
                       inactive_since=NOW - timedelta(seconds=seconds),
                       facts=told | facts)  # fmt: skip


def health_of(row: WatchedSlot, pace: float | None = 1.024 * MB) -> Health:
    server = server_slot(row)
    return watched_health(server, reading_of(server, SlotRates(growth=pace), NOW), NOW)


@pytest.mark.parametrize(
    ("timeout", "idle", "budget", "protect", "by", "seconds"),
    [
        (0, 90, None, "database", BY_SERVER, 3000),
        (60, 90, None, "database", BY_IDLE, 0),
        (60, 10, None, "database", BY_IDLE, 50),
        (3600, 90, None, "database", BY_SERVER, 3000),
        (3600, 1800, None, "database", BY_IDLE, 1800),
        (3600, 90, 8 * GB, "database", BY_BUDGET, 1000),
        (3600, 3000, 8 * GB, "database", BY_IDLE, 600),
        (3600, 90, 8 * GB, "record", BY_SERVER, 3000),
    ],
)
def test_the_estimate_is_by_the_limit_that_is_reached_first(
    timeout: int, idle: float, budget: int | None, protect: str, by: str, seconds: float
) -> None:
    source = make_source(idle_slot_timeout_seconds=timeout)
    slot = Slot(source=source, name="ours", wal_budget_bytes=budget, protect=protect)

    loss = time_to_loss(source, idle_for(idle), slot)

    assert loss is not None
    assert (loss.by, round(loss.seconds)) == (by, seconds)
    assert loss.as_json()["by"] == by


def test_the_limit_that_comes_next_is_known_too() -> None:
    source = make_source(idle_slot_timeout_seconds=3600)
    first = time_to_loss(source, idle_for(90))
    assert first is not None
    later = later_loss(source, idle_for(90), first)
    assert later is not None
    assert (later.by, later.seconds) == (BY_IDLE, 3510)


def test_without_a_limit_on_wal_the_timeout_still_ends_it() -> None:
    source = make_source(max_slot_wal_keep_bytes=-1)
    by_age = {
        idle: time_to_loss(source, idle_for(idle, growth_bytes_per_second=None))
        for idle in (20, 31, 90)
    }
    # A reader may connect anew: half of the timeout is nothing to tell of yet.
    assert by_age[20] is not None
    assert by_age[20].seconds == math.inf
    assert by_age[31] is not None
    assert (by_age[31].by, by_age[31].seconds) == (BY_IDLE, 29)
    assert by_age[90] is not None
    assert by_age[90].at_checkpoint
    # A slot that is read is not lost, which is known: an alert is over then.
    read = time_to_loss(source, idle_for(0, idle_since=None))
    assert read is not None
    assert read.seconds == math.inf


@pytest.mark.parametrize(
    ("facts", "in_recovery"),
    [
        ({"active": True, "inactive_since": None}, False),
        ({"restart_lsn": None, "retained_wal_bytes": None}, False),
        ({"synced": True}, True),
        ({"wal_status": "lost", "invalidation_reason": "idle_timeout"}, False),
    ],
)
def test_the_timeout_does_not_run_for_a_slot_that_is_exempt(
    facts: dict[str, Any], in_recovery: bool
) -> None:
    row = watched(900, make_source(in_recovery=in_recovery, max_slot_wal_keep_bytes=-1), **facts)

    assert reading_of(server_slot(row), SlotRates(), NOW).idle_since is None
    assert health_of(row).loss_seconds is None


def test_pages_say_the_first_limit_what_to_do_and_the_next_one() -> None:
    health = health_of(watched(90, make_source()))
    assert health.level == Level.NOW
    assert health.title == "theirs is lost at the source's next checkpoint."
    assert health.cause == (
        "It has had no consumer for 1\xa0min\xa030\xa0s. idle_replication_slot_timeout "
        "allows a slot "
        "1\xa0min without a consumer, which is over. That comes before "
        "max_slot_wal_keep_size, which "
        "would end it in about 50\xa0min."
    )
    assert health.next_step == (
        "let its consumer read it at once, or raise idle_replication_slot_timeout."
    )
    assert (health.loss_seconds, health.loss_by) == (0, BY_IDLE)

    running = health_of(watched(40, make_source()))
    assert running.title == "theirs will be lost in about 20\xa0s."
    assert "and the next checkpoint then invalidates it" in running.cause

    wal_first = health_of(watched(90, make_source(idle_slot_timeout_seconds=3600)))
    assert wal_first.title == "theirs will be lost in about 50\xa0min."
    assert wal_first.cause.endswith(
        "That comes before idle_replication_slot_timeout, which would end it in about 58\xa0min."
    )


def test_our_stopped_slot_says_at_once_when_the_timeout_ends_it() -> None:
    source = make_source(idle_slot_timeout_seconds=3600)
    slot = Slot(source=source, name="ours", desired="stopped", state="stopped", state_since=NOW)
    calm = idle_for(90, retained_wal_bytes=16 * MB)

    health = slot_health(slot, calm, None, NOW)

    assert health.title == "ours is stopped."
    assert health.cause == (
        "It has no consumer, and the source retains WAL for it. "
        "idle_replication_slot_timeout ends it "
        "in about 58\xa0min."
    )


def test_a_budget_that_only_alerts_does_not_hide_the_servers_limit() -> None:
    source = make_source(idle_slot_timeout_seconds=None)
    slot = Slot(source=source, name="ours", state="streaming", heartbeat_at=NOW, state_since=NOW,
                wal_budget_bytes=6 * GB, protect="record")  # fmt: skip
    health = slot_health(slot, idle_for(0, idle_since=None), None, NOW)

    assert health.level == Level.NOW
    assert health.title == "ours will be lost in about 50\xa0min."


def test_the_steps_win_time_from_the_limit_that_comes_first() -> None:
    def steps(source: Source) -> str:
        server = server_slot(watched(90, source))
        reading = reading_of(server, SlotRates(growth=1.024 * MB), NOW)
        cause = cause_of(server, SourceState(None, NOW), NOW)
        return "\n".join(step.run for step in steps_of(server, None, reading, cause, NOW))

    assert "idle_replication_slot_timeout = '0'" in steps(make_source())
    assert "max_slot_wal_keep_size" not in steps(make_source())
    assert "max_slot_wal_keep_size = '20GB'" in steps(make_source(idle_slot_timeout_seconds=0))


def test_alerts_and_their_trial_have_the_same_estimate() -> None:
    source = make_source(max_slot_wal_keep_bytes=-1)
    row = watched(90, source)
    unlimited = make_source(max_slot_wal_keep_bytes=-1, idle_slot_timeout_seconds=0)
    assert TimeToLoss().concerns(row, own_rule=False)
    assert not TimeToLoss().concerns(watched(90, unlimited), own_rule=False)

    def ends_in(row: WatchedSlot, **facts: Any) -> float | None:
        return seconds_to_loss(row, Observation(at=NOW, facts=row.facts | facts))

    assert ends_in(row) == 0
    assert ends_in(row, inactive_since=(NOW - timedelta(seconds=45)).isoformat()) == 15
    assert ends_in(row, active=True, inactive_since=None) == math.inf
    copy = watched(90, make_source(max_slot_wal_keep_bytes=-1, in_recovery=True), synced=True)
    # Past samples lack the columns that say whose copy the slot is.
    told = {"active": False, "retained_wal_bytes": GB,
            "inactive_since": copy.facts["inactive_since"]}  # fmt: skip
    assert seconds_to_loss(copy, Observation(at=NOW, facts=told)) == math.inf


@pytest.mark.parametrize(
    ("age", "level", "words"),
    [
        (999_000_000, None, ""),
        (
            1_100_000_000,
            Level.LOOK,
            "After about 1,044 million more the source takes",
        ),
        (1_700_000_000, Level.NOW, "After about 444 million more the source takes"),
    ],
)
def test_a_slot_that_keeps_old_rows_says_how_many_transactions_are_left(
    age: int, level: Level | None, words: str
) -> None:
    source = make_source(idle_slot_timeout_seconds=0)
    health = health_of(watched(10, source, catalog_xmin_age=age, retained_wal_bytes=MB), pace=0)

    if level is None:
        assert "holds vacuum back by" not in health.title
        return
    assert health.level == level
    assert "holds vacuum back by" in health.title
    assert words in health.cause


def test_a_logical_slot_on_a_standby_without_feedback_is_at_risk_at_any_moment() -> None:
    def title(feedback: bool | None, **values: Any) -> str:
        source = make_source(in_recovery=True, hot_standby_feedback=feedback)
        row = watched(1, source, active=True, inactive_since=None, unconfirmed_wal_bytes=0,
                      retained_wal_bytes=MB, **values)  # fmt: skip
        return health_of(row).title

    told = "theirs can be lost at any moment: rows_removed."
    assert title(False) == told
    assert title(True) != told
    assert title(None) != told
    assert title(False, synced=True) != told

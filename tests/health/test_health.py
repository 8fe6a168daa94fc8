"""The five words, rule by rule."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from decoder.scalars import LSN
from replview.health.findings_received import slot_health, source_health
from replview.health.states import Level, OldestPrepared, SlotReading
from replview.store.models import Slot, Source

NOW = datetime(2026, 11, 20, 7, 57, 12, tzinfo=UTC)
GB = 1 << 30
CALM = SlotReading(sampled_at=NOW, retained_wal_bytes=16 << 20, wal_status="reserved")


def make_slot(**values) -> Slot:
    source = Source(name="shop", max_slot_wal_keep_bytes=values.pop("limit", 64 * GB))
    known = {"name": "replview", "state": "streaming", "heartbeat_at": NOW, "state_since": NOW,
             "last_stored_at": NOW, "checkpoint_lsn": LSN(100), "server_lsn": LSN(100)}  # fmt: skip
    return Slot(source=source, **(known | values))


def level(slot: Slot, reading: SlotReading = CALM, prepared: OldestPrepared | None = None) -> Level:
    return slot_health(slot, reading, prepared, NOW).level


def test_a_slot_that_streams_is_caught_up() -> None:
    assert level(make_slot()) == Level.OK


def test_a_slot_without_commits_for_a_minute_is_idle() -> None:
    assert level(make_slot(last_stored_at=NOW - timedelta(minutes=2))) == Level.IDLE
    assert level(make_slot(last_stored_at=None)) == Level.IDLE


@pytest.mark.parametrize(("seconds", "expected"), [(14, Level.OK), (16, Level.UNKNOWN)])
def test_a_receiver_silent_for_15_s_makes_the_slot_unknown(seconds: int, expected: Level) -> None:
    assert level(make_slot(heartbeat_at=NOW - timedelta(seconds=seconds))) == expected


def test_a_slot_nobody_took_yet_is_unknown() -> None:
    assert level(make_slot(heartbeat_at=None, state="starting")) == Level.UNKNOWN


def test_a_slot_that_waits_says_how_many_a_worker_takes() -> None:
    waits = make_slot(heartbeat_at=None, state="stopped", state_since=NOW - timedelta(minutes=1))
    health = slot_health(waits, CALM, None, NOW)
    assert health.level == Level.UNKNOWN
    assert health.cause == "It waits for a worker to take it; one takes 8 slots at most."
    assert health.next_step == "check that a worker for slots runs: replview up."


def test_where_no_worker_has_room_the_limit_and_the_remedy_are_named() -> None:
    never = make_slot(heartbeat_at=None, state="stopped")
    left = make_slot(heartbeat_at=NOW - timedelta(minutes=3))
    for slot in (never, left):
        health = slot_health(slot, CALM, None, NOW, full_workers=2)
        assert health.level == Level.LOOK
        assert health.title == "replview is not received: every worker has its 8 slots."
        assert health.cause.startswith("2 workers for slots run, and one takes 8 at most.")
        assert health.next_step.startswith("add a worker: replview up --receivers 3, or")
    for slot in (make_slot(), make_slot(desired="stopped", heartbeat_at=None)):
        assert "8 slots" not in slot_health(slot, CALM, None, NOW, full_workers=2).title


def test_a_slot_without_a_worker_near_its_limit_is_told_to_get_one() -> None:
    near = replace(CALM, retained_wal_bytes=60 * GB)
    health = slot_health(make_slot(heartbeat_at=None), near, None, NOW, full_workers=1)
    assert health.title == "replview retains 60\xa0GB of 64\xa0GB."
    assert health.next_step.startswith("add a worker: replview up --receivers 2")


def test_a_lapse_of_publication_is_told_for_ten_minutes() -> None:
    lapse = "public.t was not published from 07:55 to 07:56."
    slot = make_slot(lapse_text=lapse, lapse_noted_at=NOW - timedelta(minutes=9))
    health = slot_health(slot, CALM, None, NOW)
    assert (health.level, health.cause) == (Level.LOOK, lapse)
    assert health.title == "The published tables of replview have changed."
    later = NOW + timedelta(minutes=2)
    again = replace(CALM, sampled_at=later)
    slot.heartbeat_at = slot.last_stored_at = later
    assert slot_health(slot, again, None, later).level == Level.OK


def test_a_slot_that_is_sent_no_table_says_by_which_publications() -> None:
    silent = {"last_stored_at": NOW - timedelta(minutes=2), "published_tables": 0}
    health = slot_health(make_slot(publications=["p", "q"], **silent), CALM, None, NOW)
    assert health.level == Level.LOOK
    assert health.title == "replview receives no table."
    assert health.cause == "Nothing is published by p or q."
    assert level(make_slot(plugin="wal2json", **silent)) == Level.IDLE


def test_a_source_that_does_not_answer_is_unknown_with_the_reason() -> None:
    health = slot_health(
        make_slot(state="reconnecting", problem_code="unreachable",
                  state_since=NOW - timedelta(seconds=41), retry_at=NOW + timedelta(seconds=12),
                  problem_cause="no server answers at shop.example"), SlotReading(), None, NOW,
    )  # fmt: skip

    assert health.level == Level.UNKNOWN
    assert health.title == "Unknown for 41\xa0s: no server answers at shop.example."
    assert "Next attempt in 12\xa0s." in health.cause


def test_a_trouble_that_stays_needs_you_now_and_says_the_remedy() -> None:
    health = slot_health(
        make_slot(state="failed", problem_code="no_login", problem_cause="role x may not log in",
                  problem_remedy="ALTER ROLE x LOGIN"), CALM, None, NOW,
    )  # fmt: skip

    assert health.level == Level.NOW
    assert health.title == "replview does not receive: role x may not log in."
    assert health.next_step == "ALTER ROLE x LOGIN"


def test_a_stopped_slot_needs_a_look_because_it_holds_wal() -> None:
    assert level(make_slot(desired="stopped", state="stopped")) == Level.LOOK


def test_a_lost_slot_needs_you_now() -> None:
    assert level(make_slot(), replace(CALM, wal_status="lost")) == Level.NOW


def test_wal_that_grows_towards_the_limit_says_how_long_there_is() -> None:
    growing = replace(
        CALM, retained_wal_bytes=int(32.2 * GB), growth_bytes_per_second=5.2 * (1 << 20)
    )
    health = slot_health(make_slot(), growing, None, NOW)

    assert health.level == Level.NOW
    assert health.title == "replview will be lost in about 1\xa0h\xa044\xa0min."


def test_old_samples_foretell_nothing() -> None:
    old = replace(CALM, sampled_at=NOW - timedelta(minutes=5), retained_wal_bytes=60 * GB,
                  growth_bytes_per_second=1e9)  # fmt: skip

    assert level(make_slot(), old) == Level.OK


def test_much_wal_without_a_limit_needs_a_look() -> None:
    much = replace(CALM, retained_wal_bytes=20 * GB)

    assert level(make_slot(limit=-1), much) == Level.LOOK
    assert level(make_slot(limit=-1)) == Level.OK


@pytest.mark.parametrize(("minutes", "expected"), [(4, Level.OK), (6, Level.LOOK)])
def test_a_transaction_prepared_for_5_min_needs_a_look(minutes: int, expected: Level) -> None:
    prepared = OldestPrepared(gid="batch", prepared_at=NOW - timedelta(minutes=minutes))

    assert level(make_slot(), CALM, prepared) == expected


def test_a_source_is_as_its_worst_slot() -> None:
    slots = [slot_health(make_slot(desired=desired), CALM, None, NOW)
             for desired in ("running", "stopped", "running")]  # fmt: skip

    assert source_health(Source(name="shop"), slots, NOW).level == Level.LOOK
    assert source_health(Source(name="shop"), [], NOW).title == "No slots yet."

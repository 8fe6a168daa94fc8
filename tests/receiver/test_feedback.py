"""The receiver confirms positions that are stored, and only moves forward."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder.scalars import LSN
from replview.catalog.problems import SourceProblem
from replview.receiver.plugins import choose
from replview.receiver.sessions.pacing import ALIVE_SECONDS, Feedback, WalEnd, idle_position

LSNS = st.integers(min_value=0, max_value=2**64 - 1)


@given(start=LSNS, stored=st.lists(LSNS))
def test_positions_only_move_forward(start: int, stored: list[int]) -> None:
    feedback, seen = Feedback(stored_lsn=start), [start]
    for lsn in stored:
        feedback.stored(lsn)
        feedback.reported(0.0)
        seen.append(feedback.confirmed_lsn)
    assert seen == sorted(seen)
    assert feedback.confirmed_lsn <= max([start, *stored])


def test_the_server_hears_of_us_even_when_nothing_happens() -> None:
    feedback = Feedback(stored_lsn=5)
    feedback.reported(100.0)
    assert not feedback.is_due(100.0 + ALIVE_SECONDS / 2, reply_requested=False)
    assert feedback.is_due(100.0 + ALIVE_SECONDS, reply_requested=False)
    assert feedback.is_due(100.0, reply_requested=True)


def test_nothing_is_confirmed_past_what_is_unstored() -> None:
    assert idle_position(9, 5, pending=True) is None
    assert idle_position(9, 5, pending=False) == 9
    assert idle_position(4, 5, pending=False) is None


def test_a_position_is_held_against_the_wal_where_the_catalog_tells() -> None:
    answers: list[LSN | None] = [None, None, LSN(1 << 40)]
    end = WalEnd(1000, lambda: answers.pop(0))
    end.check(1000)
    # While it does not tell, it is not asked for every batch.
    for lsn in (1001, 1002, 1 << 20):
        end.check(lsn)
    assert len(answers) == 2
    # Unless it is much.
    with pytest.raises(SourceProblem, match="when it was last read"):
        end.check(1 << 31)
    end.check(1 << 31)
    assert (answers, end.known_lsn) == ([], 1 << 40)


def test_options_follow_the_servers_version() -> None:
    chosen = {
        version: choose(version * 10000, ["p"], {}, slot_two_phase=True, owned=True)
        for version in (18, 16, 15, 14, 13)
    }
    assert [c.proto_version for c in chosen.values()] == [4, 4, 3, 2, 1]
    assert [c.streaming for c in chosen.values()] == ["parallel", "parallel", "on", "on", "off"]
    assert [c.two_phase for c in chosen.values()] == [True, True, True, False, False]
    assert chosen[15].origin is None


def test_two_phase_is_never_given_for_a_slot_that_is_not_ours() -> None:
    adopted = choose(180000, ["p"], {}, slot_two_phase=True, owned=False)
    assert "two_phase" not in adopted.as_arguments()


def test_publication_names_are_quoted() -> None:
    options = choose(180000, ['a"b', "c,d"], {}, slot_two_phase=False, owned=True)
    assert options.as_arguments()["publication_names"] == '"a""b","c,d"'

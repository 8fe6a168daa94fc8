"""A life is told in order, though its moments are of two clocks."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from replview.web.life import life_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def moment(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def step(state: str, *, ours: float, theirs: float | None = None) -> SimpleNamespace:
    source_time = None if theirs is None else moment(theirs)
    return SimpleNamespace(
        state=state, source_time=source_time, recorded_at=moment(ours), lsn="0/1"
    )


def row(state: str) -> SimpleNamespace:
    return SimpleNamespace(
        streamed=True,
        received_at=moment(0.04),
        first_lsn="0/1",
        prepared_at=moment(0),
        prepare_lsn="0/2",
        state=state,
    )


def test_what_we_heard_of_late_is_not_told_after_what_came_next() -> None:
    steps = [step("streaming", ours=0.04), step("prepared", ours=0.05, theirs=0)]

    life = life_of(row("prepared"), steps, moment(10))

    assert life is not None
    assert [one.at for one in life.steps] == [NOON, NOON]
    assert life.steps[0].clock.startswith("at the latest")
    assert life.steps[1].clock == "the source's clock"


def test_moments_in_order_stay_as_they_are() -> None:
    steps = [step("streaming", ours=-5), step("prepared", ours=0.05, theirs=0)]

    life = life_of(row("prepared"), steps, moment(10))

    assert life is not None
    assert [one.at for one in life.steps] == [moment(-5), NOON]
    assert not life.steps[0].heard_late

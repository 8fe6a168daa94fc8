"""Draw the lifecycle of a streamed or two-phase transaction, with its states in order.

The states come from its transitions, or else from the transaction's own columns. Each
state is entered at most once: streaming, prepared, then one end.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from replview.text.formats import short_words

WIDTH, HEIGHT = 176, 16
#: The x coordinates of the line's begin and end; the symbol of the end follows.
_LEFT, _RIGHT = 5.0, 160.0
#: Least width of a state, so that a short one is visible.
_LEAST_WIDTH = 14.0

_OPEN_STATES = ("streaming", "prepared")
_END_STATES = ("committed", "aborted", "rolled back", "skipped", "unknown")


@dataclass(frozen=True, slots=True)
class Stage:
    """A state of a transaction, and when and where it began."""

    state: str
    #: The source's time of its begin; None where the stream did not contain it.
    source_time: datetime | None = None
    #: The time of storing, by replview's clock.
    recorded_at: datetime | None = None
    #: The WAL position in PostgreSQL's form, or a value whose ``str()`` is.
    lsn: Any = None
    #: True when replview received it after the next state had begun by the source's clock.
    heard_late: bool = False

    @property
    def at(self) -> datetime | None:
        """Return the best known time of the state's begin."""
        return self.source_time or self.recorded_at

    @property
    def clock(self) -> str:
        """Return which clock gave ``at``, in words."""
        if self.heard_late:
            return "at the latest: replview received it after the next state had begun"
        return "the source's clock" if self.source_time else "replview's clock, when first stored"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpan:
    """The part of the line for one state, from its begin to the next state."""

    state: str
    #: Seconds in the state; None where unknown.
    seconds: float | None
    left: float
    right: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleDrawing:
    """The states of a transaction and their drawing."""

    steps: list[Stage]
    spans: list[StateSpan]
    #: The last state if the transaction has ended, else empty.
    end: str = ""
    width: int = WIDTH
    height: int = HEIGHT
    #: The x coordinate of the end's symbol.
    end_left: float = _RIGHT + 1

    @property
    def words(self) -> str:
        """Return the time in each state: ``prepared 22 s``; for two ``1 min 42 s + 1 min 28 s``."""
        spans = self.spans
        if len(spans) == 2:
            return " + ".join(_duration_text(span.seconds) for span in spans)
        return ", ".join(f"{span.state} {_duration_text(span.seconds)}" for span in spans)

    @property
    def summary(self) -> str:
        """Return all states in a sentence, for a tooltip and for screen readers."""
        parts = [_step_words(step) for step in self.steps]
        return "; ".join(parts) + ("" if self.end else "; still open")


def lifecycle_of(row: Any, transitions: Iterable[Any], now: datetime) -> LifecycleDrawing | None:
    """Return the lifecycle of a ``Transaction`` or its history row; None for a plain one."""
    steps = _steps(row, transitions)
    if not any(step.state in _OPEN_STATES for step in steps):
        return None
    end = steps[-1].state if steps[-1].state in _END_STATES else ""
    durations = [
        (step.state, _seconds(step, following, now))
        for step, following in zip(steps, [*steps[1:], None], strict=True)
        if step.state not in _END_STATES
    ]
    return LifecycleDrawing(steps=_in_order(steps), spans=_spans(durations), end=end)


def _steps(row: Any, transitions: Iterable[Any]) -> list[Stage]:
    by_state = {step.state: step for step in _from_columns(row)} | {
        step.state: Stage(step.state, step.source_time, step.recorded_at, step.lsn)
        for step in transitions
    }
    order = (*_OPEN_STATES, row.state) if row.state in _END_STATES else _OPEN_STATES
    return [by_state[state] for state in order if state in by_state]


def _in_order(steps: list[Stage]) -> list[Stage]:
    """Correct states that seem later than the next: the source's clock overrides replview's."""
    ordered = list(steps)
    for number in range(len(ordered) - 2, -1, -1):
        step, following = ordered[number], ordered[number + 1].at
        if step.source_time is None and step.at and following and step.at > following:
            ordered[number] = replace(step, recorded_at=following, heard_late=True)
    return ordered


def _from_columns(row: Any) -> Iterable[Stage]:
    if row.streamed:
        yield Stage(state="streaming", recorded_at=row.received_at, lsn=row.first_lsn)
    if row.prepared_at is not None:
        lsn = getattr(row, "prepare_lsn", None)
        yield Stage(state="prepared", source_time=row.prepared_at, lsn=lsn)
    if row.state in _END_STATES:
        ended_at, lsn = row.commit_time or row.ended_at, row.commit_lsn or row.end_lsn
        yield Stage(row.state, ended_at, row.stored_at, lsn)


def _seconds(step: Stage, following: Stage | None, now: datetime) -> float | None:
    """Return how long a state lasted, by one clock where both ends have it."""
    if following is None:
        return None if step.at is None else max((now - step.at).total_seconds(), 0.0)
    for begin, end in (
        (step.source_time, following.source_time),
        (step.recorded_at, following.recorded_at),
        (step.at, following.at),
    ):
        if begin is not None and end is not None:
            return max((end - begin).total_seconds(), 0.0)
    return None


def _spans(durations: list[tuple[str, float | None]]) -> list[StateSpan]:
    """Return adjacent parts, as wide as their time; an unknown time is as wide as the rest."""
    known_seconds = sum(seconds or 0.0 for _, seconds in durations)
    weights = [known_seconds or 1.0 if seconds is None else seconds for _, seconds in durations]
    room, total = _RIGHT - _LEFT, sum(weights) or 1.0
    widths = [min(max(room * weight / total, _LEAST_WIDTH), room) for weight in weights]
    if len(widths) == 2:
        widths[0] = min(widths[0], room - _LEAST_WIDTH)
        widths[1] = room - widths[0]
    left, spans = _LEFT, []
    for (state, seconds), width in zip(durations, widths, strict=True):
        right = round(left + width, 1)
        spans.append(StateSpan(state=state, seconds=seconds, left=round(left, 1), right=right))
        left = right
    return spans


def _duration_text(seconds: float | None) -> str:
    return "unknown" if seconds is None else short_words(seconds * 1e6)


def _step_words(step: Stage) -> str:
    time_text = "at an unknown time" if step.at is None else f"{step.at:%H:%M:%S} UTC"
    where = f" at {step.lsn}" if step.lsn else ""
    return f"{step.state} {time_text}{where}"

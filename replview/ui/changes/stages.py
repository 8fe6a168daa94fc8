"""The lifecycle of a streamed or two-phase transaction: its states in order, and a drawing.

Drawn from its transitions; what they do not tell comes from the transaction's own columns. Each
state is entered at most once: streaming, prepared, then one end.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from replview.text.formats import age_words, short_words

WIDTH, HEIGHT = 176, 16
#: Where the line begins and ends; the end's symbol stands behind.
_LEFT, _RIGHT = 5.0, 160.0
#: A state that lasted a moment can still be seen.
_LEAST = 14.0

_BEFORE = ("streaming", "prepared")
_ENDS = ("committed", "aborted", "rolled back", "skipped", "unknown")


@dataclass(frozen=True, slots=True)
class Stage:
    state: str
    #: By the source's clock; None where the stream did not say.
    source_time: datetime | None = None
    #: By our clock, when it was stored.
    recorded_at: datetime | None = None
    #: As PostgreSQL writes it, or a value that prints so.
    lsn: Any = None
    #: We heard of it only after the next state had begun by the source's clock.
    heard_late: bool = False

    @property
    def at(self) -> datetime | None:
        return self.source_time or self.recorded_at

    @property
    def clock(self) -> str:
        """Whose clock ``at`` is of."""
        if self.heard_late:
            return "at the latest: replview heard of it after the next state had begun"
        return "the source's clock" if self.source_time else "replview's clock, when first stored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of the line: one state, from its beginning to the next."""

    state: str
    #: None: not known.
    seconds: float | None
    left: float
    right: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    steps: list[Stage]
    spans: list[Span]
    #: Its last state, if it has ended.
    end: str = ""
    width: int = WIDTH
    height: int = HEIGHT
    #: Where the end's symbol stands.
    end_left: float = _RIGHT + 1

    @property
    def words(self) -> str:
        """Time in each state: ``prepared 22 s``; of two, ``1 min 42 s + 1 min 28 s``."""
        spans = self.spans
        if len(spans) == 2:
            return " + ".join(_lasted(span.seconds) for span in spans)
        return ", ".join(f"{span.state} {_lasted(span.seconds)}" for span in spans)

    @property
    def summary(self) -> str:
        """The whole of it in a sentence, for a tooltip and for screen readers."""
        parts = [_step_words(step) for step in self.steps]
        return "; ".join(parts) + ("" if self.end else "; still open")


def lifecycle_of(row: Any, transitions: Iterable[Any], now: datetime) -> Lifecycle | None:
    """The lifecycle of a ``Transaction`` (or its history row); None for a plain one."""
    steps = _steps(row, transitions)
    if not any(step.state in _BEFORE for step in steps):
        return None
    end = steps[-1].state if steps[-1].state in _ENDS else ""
    lasted = [
        (step.state, _seconds(step, following, now))
        for step, following in zip(steps, [*steps[1:], None], strict=True)
        if step.state not in _ENDS
    ]
    return Lifecycle(steps=_in_order(steps), spans=_spans(lasted), end=end)


def _steps(row: Any, transitions: Iterable[Any]) -> list[Stage]:
    known = {step.state: step for step in _from_columns(row)} | {
        step.state: Stage(step.state, step.source_time, step.recorded_at, step.lsn)
        for step in transitions
    }
    order = (*_BEFORE, row.state) if row.state in _ENDS else _BEFORE
    return [known[state] for state in order if state in known]


def _in_order(steps: list[Stage]) -> list[Stage]:
    """No state later than the one after it: of two clocks the source's own decides."""
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
    if row.state in _ENDS:
        ended_at, lsn = row.commit_time or row.ended_at, row.commit_lsn or row.end_lsn
        yield Stage(row.state, ended_at, row.stored_at, lsn)


def _seconds(step: Stage, following: Stage | None, now: datetime) -> float | None:
    """How long a state lasted, by one clock where both ends tell it."""
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


def _spans(lasted: list[tuple[str, float | None]]) -> list[Span]:
    """Side by side, as wide as they lasted; unknown ones as wide as the others together."""
    known = sum(seconds or 0.0 for _, seconds in lasted)
    weights = [known or 1.0 if seconds is None else seconds for _, seconds in lasted]
    room, total = _RIGHT - _LEFT, sum(weights) or 1.0
    widths = [min(max(room * weight / total, _LEAST), room) for weight in weights]
    if len(widths) == 2:
        widths[0] = min(widths[0], room - _LEAST)
        widths[1] = room - widths[0]
    left, spans = _LEFT, []
    for (state, seconds), width in zip(lasted, widths, strict=True):
        right = round(left + width, 1)
        spans.append(Span(state=state, seconds=seconds, left=round(left, 1), right=right))
        left = right
    return spans


def _lasted(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return age_words(seconds) if seconds >= 1 else short_words(seconds * 1e6)


def _step_words(step: Stage) -> str:
    when = "at an unknown time" if step.at is None else f"{step.at:%H:%M:%S} UTC"
    where = f" at {step.lsn}" if step.lsn else ""
    return f"{step.state} {when}{where}"

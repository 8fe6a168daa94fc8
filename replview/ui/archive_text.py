"""Say how much of the record is in the archive."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.text import capfirst

from replview.store.retention.archive import Choice
from replview.store.retention.archived import ArchiveState
from replview.text.formats import bytes_words, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLine:
    """The archive's state for one incarnation of a slot."""

    #: ``shop/replview``, with the incarnation's number where it is not the first.
    name: str
    #: Time of the last commit that is there with all before it; None where unknown or empty.
    until: dt.datetime | None
    since: dt.datetime | None
    changes: int
    size: str
    waiting: int
    #: A summary in one line, for a terminal.
    state: str
    #: The first time that the store still has; None where it has nothing left.
    stored_since: dt.datetime | None
    #: The times of the last write to the archive and of the last try; None for never.
    moved_at: dt.datetime | None
    tried_at: dt.datetime | None
    #: Why nothing more is archived, with a remedy; empty without a problem.
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveView:
    """The archive as shown on the store's page and by the command."""

    target: str | None
    #: A sentence: what is archived, and when.
    rhythm: str
    lines: list[ArchiveLine]
    #: The time of a request to archive everything, while that is not done; else None.
    asked_at: dt.datetime | None = None


def archive_view(choice: Choice, states: Sequence[ArchiveState]) -> ArchiveView:
    """Return the archive's choice and the state of each incarnation, in words."""
    return ArchiveView(
        target=choice.target,
        rhythm=_schedule_text(choice),
        lines=[_line(state) for state in states] if choice.target else [],
        asked_at=choice.asked_at if _waits_for_first_write(choice, states) else None,
    )


def _waits_for_first_write(choice: Choice, states: Sequence[ArchiveState]) -> bool:
    """Return whether an incarnation still waits for its first write since the request."""
    asked_at = choice.asked_at
    return asked_at is not None and any(
        state.waiting
        and (state.mark is None or state.mark.moved_at is None or state.mark.moved_at < asked_at)
        and (state.mark is None or not state.mark.problem)
        for state in states
    )


def _schedule_text(choice: Choice) -> str:
    age = f"longer than {choice.after_hours:g} h ago" if choice.after_hours else "a moment ago"
    often = f"every {choice.every_seconds / 3600:.3g} h" if choice.every_seconds else "at once"
    return (
        f"History {age} is archived: whole days once they are over, the rest {often}. "
        "A day is deleted from the store only after the archive contains all of it."
    )


def _line(progress: ArchiveState) -> ArchiveLine:
    mark = progress.mark
    name = progress.slot
    if progress.number != 1:
        name += f" (incarnation {progress.number})"
    waiting = f"{progress.waiting:,} {'transaction' if progress.waiting == 1 else 'transactions'}"
    rest = f"{waiting} not archived yet" if progress.waiting else "everything is archived"
    if mark is None or not mark.through_seq:
        state = f"nothing is archived yet; {rest}"
    else:
        last = mark.through_time
        until = f"up to {last.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC" if last else "begun"
        state = f"{until}, {plural(mark.changes, 'change')}, {bytes_words(mark.size_bytes)}; {rest}"
    problem = ""
    if mark is not None and mark.problem:
        remedy = capfirst(mark.remedy)
        problem = f"Archiving fails: {mark.problem}. {remedy}"
    return ArchiveLine(
        name=name,
        stored_since=progress.stored_since,
        moved_at=mark.moved_at if mark else None,
        tried_at=mark.checked_at if mark else None,
        until=mark.through_time if mark else None,
        since=mark.since_time if mark else None,
        changes=mark.changes if mark else 0,
        size=bytes_words(mark.size_bytes) if mark else "",
        waiting=progress.waiting,
        state=state,
        problem=problem,
    )

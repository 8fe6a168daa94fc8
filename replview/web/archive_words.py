"""How far the record is in the archive, in words."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from replview.store.archive import Choice
from replview.store.archived import Standing
from replview.web.words import bytes_words, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLine:
    """One life of a slot."""

    #: ``shop/replview``, with the life's number where it is not the first.
    name: str
    #: A commit that is there with all before it; None: unknown, or nothing is there.
    until: dt.datetime | None
    since: dt.datetime | None
    changes: int
    size: str
    waiting: int
    #: In one line, for a terminal.
    state: str
    #: Why nothing more goes there, with what mends it.
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveView:
    """What the store's page and command tell."""

    target: str | None
    #: When what goes there.
    rhythm: str
    lines: list[ArchiveLine]

    @property
    def has_problem(self) -> bool:
        """Somewhere nothing more goes there."""
        return any(line.problem for line in self.lines)


def archive_view(choice: Choice, standings: Sequence[Standing]) -> ArchiveView:
    """All of it."""
    return ArchiveView(
        target=choice.target,
        rhythm=_rhythm(choice),
        lines=[_line(standing) for standing in standings] if choice.target else [],
    )


def _rhythm(choice: Choice) -> str:
    age = f"longer than {choice.after_hours:g} h ago" if choice.after_hours else "a moment ago"
    often = f"every {choice.every_seconds / 3600:.3g} h" if choice.every_seconds else "at once"
    return (
        f"What was stored {age} goes there: whole days once they are over, the rest {often}. "
        "A day is deleted here only after all of it is there and was counted."
    )


def _line(standing: Standing) -> ArchiveLine:
    mark = standing.mark
    name = standing.slot if standing.life == 1 else f"{standing.slot} (life {standing.life})"
    waiting = f"{standing.waiting:,} {'transaction' if standing.waiting == 1 else 'transactions'}"
    rest = f"{waiting} not there yet" if standing.waiting else "all of it is there"
    if mark is None or not mark.through_seq:
        state = f"nothing is there yet; {rest}"
    else:
        at = mark.through_time
        until = f"up to {at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC" if at else "begun"
        state = f"{until}, {plural(mark.changes, 'change')}, {bytes_words(mark.size_bytes)}; {rest}"
    problem = ""
    if mark is not None and mark.problem:
        remedy = f"{mark.remedy[:1].upper()}{mark.remedy[1:]}"
        problem = f"Nothing more goes there: {mark.problem}. {remedy}"
    return ArchiveLine(
        name=name,
        until=mark.through_time if mark else None,
        since=mark.since_time if mark else None,
        changes=mark.changes if mark else 0,
        size=bytes_words(mark.size_bytes) if mark else "",
        waiting=standing.waiting,
        state=state,
        problem=problem,
    )

"""Format how much of the record is in the archive, and read the archive's form."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from replview.store.retention.archive import MOST, Choice, chosen
from replview.store.retention.archived import ArchiveState, former_target
from replview.text.formats import bytes_words, plural
from replview.ui.params import Params


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


@dataclass(slots=True, kw_only=True)
class ArchiveForm:
    """The fields of the archive's form, as text."""

    target: str
    after_hours: str
    every_hours: str
    error: str = ""

    @classmethod
    def of(cls, words: Mapping[str, str]) -> Self:
        """Read the fields from a form."""
        asked = Params(words)
        return cls(
            target=asked.text("target", 2000),
            after_hours=asked.text("after_hours", 12),
            every_hours=asked.text("every_hours", 12),
        )

    @classmethod
    def now(cls) -> Self:
        """Return the fields of the current choice."""
        choice = chosen()
        return cls(
            target=choice.target or former_target(),
            after_hours=f"{choice.after_hours:g}",
            every_hours=f"{choice.every_seconds / 3600:.4g}",
        )

    def numbers(self) -> tuple[float, float]:
        """Return ``after_hours`` and ``every_seconds``. Raises ``ValueError`` with a remedy."""
        after = _hours(self.after_hours, "what goes there", MOST["after_hours"])
        every = _hours(self.every_hours, "how often", MOST["every_seconds"] / 3600)
        return after, every * 3600


def _hours(text: str, what: str, most: float) -> float:
    if not re.fullmatch(r"[0-9]{1,6}([.][0-9]{1,6})?", text, re.ASCII) or float(text) > most:
        raise ValueError(f"{what}: write hours, from 0 to {most:g}")
    return float(text)


def archive_view(choice: Choice, standings: Sequence[ArchiveState]) -> ArchiveView:
    """Return the archive's choice and the state of each incarnation, in words."""
    return ArchiveView(
        target=choice.target,
        rhythm=_rhythm(choice),
        lines=[_line(standing) for standing in standings] if choice.target else [],
        asked_at=choice.asked_at if _not_there_yet(choice, standings) else None,
    )


def _not_there_yet(choice: Choice, standings: Sequence[ArchiveState]) -> bool:
    """Return whether an incarnation still waits for its first write since the request."""
    asked = choice.asked_at
    return asked is not None and any(
        one.waiting
        and (one.mark is None or one.mark.moved_at is None or one.mark.moved_at < asked)
        and (one.mark is None or not one.mark.problem)
        for one in standings
    )


def _rhythm(choice: Choice) -> str:
    age = f"longer than {choice.after_hours:g} h ago" if choice.after_hours else "a moment ago"
    often = f"every {choice.every_seconds / 3600:.3g} h" if choice.every_seconds else "at once"
    return (
        f"History {age} is archived: whole days once they are over, the rest {often}. "
        "A day is deleted here only after all of it is there and was counted."
    )


def _line(standing: ArchiveState) -> ArchiveLine:
    mark = standing.mark
    name = standing.slot
    if standing.number != 1:
        name += f" (incarnation {standing.number})"
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
        stored_since=standing.stored_since,
        moved_at=mark.moved_at if mark else None,
        tried_at=mark.checked_at if mark else None,
        until=mark.through_time if mark else None,
        since=mark.since_time if mark else None,
        changes=mark.changes if mark else 0,
        size=bytes_words(mark.size_bytes) if mark else "",
        waiting=standing.waiting,
        state=state,
        problem=problem,
    )

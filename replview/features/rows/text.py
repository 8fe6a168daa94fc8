"""A row's changes as one line each: ``status: pending → paid, +3 more``."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replview.store.read.changes.values import ALTERED, same_value
from replview.store.read.coverage import Coverage, Gap
from replview.store.read.row_history.as_of import RowState
from replview.store.read.row_history.finding import RowFinder
from replview.store.read.row_history.history import RowHistory, changed_columns
from replview.store.read.row_history.replay import HistoryEntry
from replview.store.read.row_history.shapes import Version
from replview.text.formats import age_words, plural
from replview.ui.changes.cells import Cell, cell
from replview.ui.row_start import Start

#: Characters of a value in a line at most.
_VALUE_CHARACTERS = 40
#: Columns that describe an insert at most.
_MOST_PARTS = 3
#: Column names that describe a row's state, the most informative first.
_DESCRIPTIVE_COLUMNS = ("status", "state", "stage", "phase")
#: Column names that change with every update, and say nothing about it.
_ROUTINE_COLUMNS = (
    "updated_at",
    "modified_at",
    "updated",
    "modified",
    "changed_at",
    "version",
    "xmin",
)

UNKNOWN_WHY = {
    "gap": "the gap",
    "left out": "a transaction was left out",
    "keyless": "the table was changed while its rows had no key, or another one",
    "limited": "earlier changes of the table were not searched",
    "unpublished": "the table was not published for a time, or not all of it",
    "table": "the table was created again",
    "": "no earlier change is recorded",
}


@dataclass(frozen=True, slots=True)
class LineColumn:
    """One column in a line; a side that is None is not shown."""

    name: str
    before: Cell | None
    after: Cell | None

    @property
    def is_null(self) -> bool:
        """Return whether the column is NULL after the change."""
        return self.after is not None and self.after.kind == "null"


@dataclass(slots=True)
class ChangeLine:
    """The text of one change."""

    words: str = ""
    parts: list[LineColumn] = field(default_factory=list)
    more: int = 0
    #: The reason why the before image is unknown; empty: it is known, or there is none.
    unknown_why: str = ""
    key_changed: bool = False


def line_of(entry: HistoryEntry, version: Version | None) -> ChangeLine:
    """Return the text of a change."""
    step = entry.step
    types = (
        {column["name"]: str(column.get("type") or "") for column in version.columns}
        if version
        else {}
    )
    key_columns = version.key_columns if version else []
    if step.op == "T":
        return ChangeLine("truncated with the whole table")
    if step.op in ("I", "S"):
        words = "created with" if step.op == "I" else "a baseline read"
        return _described_line(words, step.new, key_columns, types)
    if step.op == "D":
        before_known = entry.before_kind in ("sent", "derived")
        line = _described_line(
            "deleted; it was", entry.before.values if before_known else {}, key_columns, types
        )
        line.words = line.words if line.parts else "deleted"
        line.unknown_why = "" if before_known else UNKNOWN_WHY.get(entry.before.why, "")
        return line
    return _update_line(entry, key_columns, types)


def _update_line(
    entry: HistoryEntry, key_columns: Sequence[str], types: Mapping[str, str]
) -> ChangeLine:
    line, before, new = ChangeLine(), entry.before.values, entry.step.new or {}
    changed = changed_columns(entry, key_columns)
    if entry.before_kind in ("key", "unknown"):
        line.unknown_why = UNKNOWN_WHY.get(entry.before.why, "")
    changed_keys = [name for name in changed if name in key_columns and name in before]
    line.key_changed = bool(changed_keys)
    altered = [name for name in changed if name in entry.before.altered]
    if altered:
        line.unknown_why = f"{', '.join(altered)}, {ALTERED}"
    candidates = [name for name in changed if name not in altered] or changed
    shown = changed_keys or (
        [descriptive] if (descriptive := most_descriptive(candidates, types)) else []
    )
    for name in shown:
        before_cell = short(before[name]) if name in before else Cell("unknown", "unknown")
        line.parts.append(LineColumn(name, before_cell, short(new[name])))
    line.more = len(changed) - len(shown)
    if not changed:
        line.words = "no column differs among those sent"
    return line


def _described_line(
    words: str, image: Mapping[str, Any] | None, keys: Sequence[str], types: Mapping[str, str]
) -> ChangeLine:
    """Return a text that describes a row by its most informative columns."""
    image = image or {}
    remaining = [column for column in image if column not in keys and image[column] is not None]
    line = ChangeLine(words)
    while remaining and len(line.parts) < _MOST_PARTS:
        name = most_descriptive(remaining, types)
        remaining.remove(name)
        line.parts.append(LineColumn(name, None, short(image[name])))
    line.more = len(remaining)
    if not line.parts:
        line.words = words.removesuffix(" with").removesuffix("; it was")
    return line


def most_descriptive(names: Iterable[str], types: Mapping[str, str]) -> str:
    """Return the column that best describes a change; empty without any."""

    def rank(name: str) -> int:
        if name in _DESCRIPTIVE_COLUMNS:
            return _DESCRIPTIVE_COLUMNS.index(name)
        if any(
            name.endswith(f"_{word}") or word in types.get(name, "")
            for word in _DESCRIPTIVE_COLUMNS
        ):
            return len(_DESCRIPTIVE_COLUMNS)
        return 99 if name in _ROUTINE_COLUMNS else 50

    return min(names, key=rank, default="")


def obvious_state(version: Version | None, values: Mapping[str, object]) -> str:
    """Return the row's state, such as ``paid``, if a column plainly holds it; else empty."""
    states = (values.get(name) for name in _DESCRIPTIVE_COLUMNS if version is not None)
    return next(
        (
            state
            for state in states
            if isinstance(state, str) and 0 < len(state) <= _VALUE_CHARACTERS
        ),
        "",
    )


def short(value: object) -> Cell:
    """Return a cell with a value cut to the length of a line."""
    if isinstance(value, str) and len(value) > _VALUE_CHARACTERS:
        return Cell(f"{value[:_VALUE_CHARACTERS]}…", length=len(value))
    return cell(value, "new")


def differs(value: object, other: object) -> bool | None:
    """Return whether two values differ; None: unknown."""
    same = same_value(value, other)
    return None if same is None else not same


@dataclass(slots=True)
class RowSentence:
    """The sentence about a row; the template inserts times between its parts."""

    level: str
    title: str
    #: Words such as ``6 changes by 4 actors and 1 unknown``; empty without changes.
    changes: str = ""
    since: dt.datetime | None = None
    last: HistoryEntry | None = None
    #: True if coverage proves that there was no change, from ``since`` to ``until`` if known.
    no_change: bool = False
    until: dt.datetime | None = None
    why: str = ""
    gaps: str = ""
    more: list[str] = field(default_factory=list)


def sentence_of(
    start: Start, history: RowHistory, now: RowState, coverage: Coverage
) -> RowSentence:
    """Return the sentence about the row's state now, its changes and the gaps."""
    level, state_words = _state_words(start, now)
    sentence = RowSentence(level, f"{start.short_name} {state_words}")
    entries = history.entries
    gaps = [gap for gap in coverage.gaps if gap.is_time]
    sentence.gaps = _gap_words(gaps)
    if entries:
        sentence.changes = _change_words(history)
        sentence.since, sentence.last = entries[-1].step.commit_time, entries[0]
    elif history.older is None and history.searched_back_to is None:
        finder = history.finder
        proved = coverage.says_no_change() and not finder.is_keyless
        sentence.why = _other_spellings(finder, coverage) if proved else _missing_proof(coverage)
        sentence.no_change = not sentence.why
        sentence.since, sentence.until = coverage.vouched_since, coverage.end
        if sentence.no_change and gaps:
            sentence.gaps = f"Before that, {sentence.gaps.replace('One', 'one')}"
    return sentence


def _state_words(start: Start, now: RowState) -> tuple[str, str]:
    if now.beyond and now.last is not None:
        state = obvious_state(now.version, now.values)
        past = (f"was {state}" if state else "was there") if now.exists else "was gone"
        past = "was unknown" if now.exists is None else past
        return "look", f"{past} when last known; it is unknown now."
    if now.exists:
        state = obvious_state(now.version, now.values)
        return "ok", f"is {state}." if state else "exists."
    if now.exists is False:
        return "idle", "is truncated." if now.why == "truncated" else "is deleted."
    if now.why in ("gap", "left out", "keyless", "unpublished", "table", "lost", "limited"):
        return "look", "is unknown now."
    return "idle", "has no recorded change."


def _change_words(history: RowHistory) -> str:
    actors = [entry.step.actor for entry in history.entries]
    named, unknown = {*filter(None, actors)}, sum(not actor for actor in actors)
    actor_words = [plural(len(named), "actor")] if named else []
    if unknown:
        actor_words.append(f"{unknown} unknown" if named else "unknown actors")
    scope = "" if history.complete else " on this page"
    return f"{plural(len(actors), 'change')}{scope} by {' and '.join(actor_words)}"


def _gap_words(gaps: list[Gap]) -> str:
    match gaps:
        case []:
            return ""
        case [Gap(from_time=dt.datetime() as begun, to_time=ended)]:
            return f"One gap of {age_words(ended - begun)}."
        case [_]:
            return "One gap."
    return f"{len(gaps)} gaps."


def _other_spellings(finder: RowFinder, coverage: Coverage) -> str:
    """Return why the row may have changes under another spelling of the key; empty: it has none."""
    if type_name := finder.table.type_by_text(finder.session):
        return f"A key of type {type_name} is found only as its server writes it."
    if coverage.table is not None and coverage.table.loose_key:
        return "Its server counts other spellings of a key as equal; only this one was looked up."
    return ""


def _missing_proof(coverage: Coverage) -> str:
    """Return the reason why "no change" is not proved."""
    if coverage.origin_filtered:
        return "Changes replicated into the source are not received."
    if coverage.table is not None and coverage.table.published is False:
        return "The table is not published."
    if coverage.table is not None and coverage.table.published is None:
        return "Whether the table was published throughout is unknown."
    return "It is unknown whether there was none: history does not cover this time."

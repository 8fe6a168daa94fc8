"""Page through every change of one row, newest first, under all its keys and table shapes."""

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replview.store.read.changes.values import same_value
from replview.store.read.row_history.breaks import Lapse
from replview.store.read.row_history.events import RowEvent, RowPeriod, change_name
from replview.store.read.row_history.finding import RowFinder, TracedRow
from replview.store.read.row_history.keys import table_of
from replview.store.read.row_history.replay import LAST, HistoryEntry, KnownRow
from replview.store.read.row_history.shapes import Version
from replview.store.read.row_history.sought_row import IncarnationFacts
from replview.store.read.rows import QueriedSlot, RowStep
from replview.store.read.session import ReadSession
from replview.text.problem import CodedProblem


class CursorProblem(CodedProblem, ValueError):
    """A cursor cannot be read, or is not of this row."""

    code_of_all = "bad_cursor"
    status = 400


def _row_before(finder: RowFinder, cursor: str) -> TracedRow:
    """Return the row up to the change that a cursor names. Raises ``CursorProblem``."""
    name = change_name(cursor)
    if name is None:
        raise CursorProblem("not understood as a cursor", "give it back as it came")
    row = finder.before(name)
    if not row.periods:
        raise CursorProblem("the change that the cursor names is not there any more")
    return row


#: Changes read beyond a page, from which the rows before its oldest changes are derived.
LOOK_BACK = 20
#: Changes read together for a filtered page, and as many before them: at first, and at most.
_SEARCHED_FIRST, _SEARCHED = 100, 2000


@dataclass(frozen=True, slots=True)
class HistoryMark:
    """An item of a row's history that is no change of the row."""

    #: One of ``schema``, ``gap``, ``failover``, ``lapse``.
    kind: str
    incarnation: IncarnationFacts | None = None
    #: The time for which the table was not, or not wholly, published.
    lapse: Lapse | None = None
    #: The shapes before and after a schema change.
    former: Version | None = None
    version: Version | None = None


@dataclass(slots=True)
class RowHistory:
    """A page of a row's history."""

    finder: RowFinder
    row: TracedRow
    #: The row's changes, newest first.
    entries: list[HistoryEntry] = field(default_factory=list)
    #: The changes with the marks between them.
    items: list[HistoryEntry | HistoryMark] = field(default_factory=list)
    #: The cursor of older changes; None where there are none.
    older: str | None = None
    #: True when the whole history is on this page.
    complete: bool = False
    #: Commit time of the oldest change read, where a filter is set.
    searched_back_to: dt.datetime | None = None

    @property
    def others(self) -> list[RowPeriod]:
        """Return the periods of other rows that had the key, the newest first."""
        mine = {event.name for period in self.row.periods for event in period.events}
        return [period for period in self.finder.periods if period.events[-1].name not in mine]


def row_history(
    session: ReadSession,
    slot: QueriedSlot,
    relation_id: int,
    key: Mapping[str, str | None],
    *,
    change: tuple[int, int] | None = None,
    cursor: str | None = None,
    limit: int = 50,
    actor: str | None = None,
    column: str | None = None,
    budget_seconds: float = 1.0,
) -> RowHistory:
    """Return one page of the history of the row that has the key, or had it last.

    ``change``: the row that this change (transaction, seq) under the key is of. ``actor`` empty:
    changes without an actor.

    Raises ``LookupError`` where the slot has no such table, ``CursorProblem`` where ``cursor`` is
    not valid.
    """
    table = table_of(session, slot, relation_id)
    if table is None:
        raise LookupError(f"relation {relation_id} is not of slot {slot}")
    return history_of(
        RowFinder(session, slot, table, table.recorded(session, key)), change=change, cursor=cursor,
        limit=limit, actor=actor, column=column, budget_seconds=budget_seconds,
    )  # fmt: skip


def history_of(
    finder: RowFinder,
    *,
    change: tuple[int, int] | None = None,
    cursor: str | None = None,
    limit: int = 50,
    actor: str | None = None,
    column: str | None = None,
    budget_seconds: float = 1.0,
) -> RowHistory:
    """Return a page of one of the finder's rows; see ``row_history``."""
    row = _row_before(finder, cursor) if cursor else finder.row(change)
    filtered = actor is not None or column is not None
    deadline = time.monotonic() + budget_seconds
    page = RowHistory(finder, row)
    size, back = (_SEARCHED_FIRST, _SEARCHED_FIRST) if filtered else (limit, LOOK_BACK)
    end = len(row.events)
    while end > 0 and len(page.entries) < limit:
        begin = max(end - size, 0)
        entries = _entries(finder, row.events[max(begin - back, 0) : end])
        mine = {event.name: n for n, event in enumerate(row.events[begin:end], start=begin)}
        end = begin
        for entry in entries:
            place = mine.get((entry.step.transaction_id, entry.step.seq), -1)
            if place >= 0 and _matches(entry, actor, column, finder.table.key_columns):
                page.entries.append(entry)
            if len(page.entries) == limit:
                end = place
                break
        if filtered and time.monotonic() > deadline:
            break
        size = min(size * 2, _SEARCHED) if filtered else limit
    if end > 0 or row.limited:
        last = row.events[end] if end < len(row.events) else row.events[-1]
        page.older = last.text
        page.searched_back_to = last.commit_time if filtered else None
    page.complete = not cursor and page.older is None and not filtered
    _arrange(page, first=not cursor, filtered=filtered)
    return page


def _entries(finder: RowFinder, events: Sequence[RowEvent]) -> list[HistoryEntry]:
    """Return these changes with the row before and after each, newest first."""
    entries = finder.replay(finder.breaks(events)).apply_all(finder.steps(events))
    return entries[::-1]


def _matches(
    entry: HistoryEntry, actor: str | None, column: str | None, key_columns: Sequence[str]
) -> bool:
    if actor is not None and (entry.step.actor or "") != actor:
        return False
    return column is None or column in changed_columns(entry, key_columns)


def changed_columns(entry: HistoryEntry, key_columns: Sequence[str] = ()) -> list[str]:
    """Return the columns that a change set to another value, or may have, if the old is unknown."""
    step = entry.step
    if step.op in ("D", "T"):
        return list(entry.before.values)
    sent = step.new or {}
    if step.op in ("I", "S"):
        return [name for name, value in sent.items() if value is not None]
    before = entry.before.values
    # The server would have sent the old key if it had changed.
    same = () if entry.before_kind in ("sent", "derived") else key_columns
    return [
        name
        for name, value in sent.items()
        if (same_value(before[name], value) is not True if name in before else name not in same)
    ]


def _arrange(page: RowHistory, *, first: bool, filtered: bool) -> None:
    """Insert the truncation that ended the row, schema changes and gaps in their places."""
    if first and not filtered:
        _add_truncation(page)
    items: list[HistoryEntry | HistoryMark] = []
    finder = page.finder
    newer: RowStep | None = None
    for entry in page.entries:
        if newer is not None or (first and page.row.ended in ("", "table")):
            items += _marks_between(finder, entry.step, newer)
        items.append(entry)
        newer = entry.step
    if page.older is None and newer is not None and page.entries[-1].step.op != "I":
        number = finder.numbers.get(newer.incarnation_id, 1)
        items += _gaps(finder, 0, number)
    page.items = items


def _marks_between(finder: RowFinder, older: RowStep, newer: RowStep | None) -> list[HistoryMark]:
    """Return the marks between two changes, newest first. ``newer`` None: up to now."""
    numbers = finder.numbers
    to_number = finder.incarnations[0].number if newer is None else numbers[newer.incarnation_id]
    versions = finder.table.shapes.versions
    former = versions.get(older.version_id)
    version = finder.table.version if newer is None else versions.get(newer.version_id)
    marks = _gaps(finder, numbers.get(older.incarnation_id, 0), to_number)
    marks += _lapses(finder, older, newer)
    if (
        former is not None
        and version is not None
        and former.relation_id == version.relation_id
        and former.id != version.id
    ):
        marks.insert(0, HistoryMark("schema", former=former, version=version))
    return marks


def _gaps(finder: RowFinder, after: int, up_to: int) -> list[HistoryMark]:
    """Return marks where incarnations of the slot began, except the first one."""
    return [
        HistoryMark("failover" if each.seamless else "gap", incarnation=each)
        for each in finder.incarnations
        if max(after, 1) < each.number <= up_to
    ]


def _lapses(finder: RowFinder, older: RowStep, newer: RowStep | None) -> list[HistoryMark]:
    """Return marks where the table was not published for a time after a change, newest first."""
    is_next = newer is not None and newer.incarnation_id == older.incarnation_id
    before = newer.place if newer is not None and is_next else LAST
    table = older.relation_id, older.incarnation_id
    lapses = [
        lapse
        for lapse in finder.breaks(()).lapses
        if (lapse.relation_id, lapse.incarnation_id) == table
        and lapse.lies_between(older.place, before)
    ]
    return [
        HistoryMark("lapse", lapse=lapse) for lapse in sorted(lapses, key=lambda one: -one.from_lsn)
    ]


def _add_truncation(page: RowHistory) -> None:
    """Insert the truncation that ended the row as its last change."""
    place = page.row.truncated_at
    if place is None or not page.entries:
        return
    cut, last = page.finder.truncation(place), page.entries[0]
    for step in page.finder.steps_named([(cut.transaction_id, cut.seq)]):
        after = KnownRow(False, last=step, why="truncated")
        page.entries.insert(
            0, HistoryEntry(step, last.after, after, "derived", last.key_after, None)
        )

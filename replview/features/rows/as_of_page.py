"""The row as of a moment, compared with the row now, column by column."""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from replview.access.visibility import reading_session
from replview.features.rows.text import differs, short
from replview.store.read.changes.values import mark_of
from replview.store.read.coverage import Coverage
from replview.store.read.row_history.as_of import RowState, bounded, position_of, row_as_of
from replview.store.read.row_history.events import change_name
from replview.store.read.row_history.finding import RowFinder, TracedRow
from replview.store.read.row_history.history import RowHistory
from replview.store.read.sql_text import comment, identifier, literal, table_name
from replview.text.formats import some_of
from replview.text.parsing import clean_text
from replview.ui.changes.cells import Cell
from replview.ui.row_start import Start

_LSN = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")

#: Reasons why a row, or a column of it, is unknown or does not exist.
WHY = {
    "before the record": "the record begins later",
    "gap": "history has a gap, and no later change shows it",
    "left out": "a skipped transaction may have changed the row",
    "keyless": "the table was changed while its rows had no key, or another one",
    "unpublished": "not every operation of the table is published: it may have changed",
    "table": "another table took the name of its table",
    "limited": "it has more changes under its keys than are searched",
    "lost": "changes of the row under its last key are not recorded",
    "no change": "no change of it is recorded",
    "not sent": "unchanged TOAST, not sent by any stored change",
    "no earlier change": "no earlier change of the row is recorded",
    "altered": "ALTER TABLE changed it, or may have, before the next recorded change",
    "deleted": "it was deleted",
    "truncated": "its table was truncated",
    "not created": "it was not created yet",
}


#: Reasons why the record does not cover the moment.
BEYOND = {
    "not stored": "what was committed until then is not stored yet",
    "gap": "it lies in a gap of the record",
}


@dataclass(frozen=True, slots=True)
class AsOfColumn:
    """One column at the moment and now; if a cell is None, words say why."""

    name: str
    type: str
    then: Cell | None
    then_words: str
    #: The comparison: ``same``, ``differs`` or ``unknown``.
    now_kind: str
    now: Cell | None
    now_words: str
    reason: str = ""


@dataclass(slots=True)
class AsOf:
    """The content of the page's right column."""

    now: RowState
    then: RowState | None = None
    #: The requested moment, if it has a time, and in ``words`` its description if it was given
    #: otherwise.
    at: dt.datetime | None = None
    words: str = ""
    problem: str = ""
    #: The text that was typed.
    typed: str = ""
    lines: list[AsOfColumn] = field(default_factory=list)
    #: Names of unknown columns, each group with its reason.
    reasons: list[tuple[str, str]] = field(default_factory=list)
    known: str = ""
    known_words: str = ""
    json: str = ""
    sql: str = ""
    before_last: str = ""
    yesterday: str = ""
    key_words: str = ""

    @property
    def state(self) -> RowState:
        """Return the state that is shown: that of the moment, or that of now."""
        return self.then or self.now


def read_as_of(
    finder: RowFinder,
    row: TracedRow,
    start: Start,
    params: Mapping[str, object],
    history: RowHistory,
    coverage: Coverage,
) -> AsOf:
    """Return the row as of the moment that the address names (``as_of``, ``before``)."""

    def state_at(**moment: Any) -> RowState:
        relation, key = finder.table.relation.pk, start.key or {}
        row_state = row_as_of(
            reading_session(), finder.slot, relation, key, finder=finder, row=row, **moment
        )
        return row_state if "before" in moment else bounded(row_state, coverage, **moment)

    as_of = AsOf(now=state_at(), typed=clean_text(params.get("as_of"), 64))
    _read_moment(as_of, state_at, clean_text(params.get("before"), strip=False))
    last_step = next((entry.step for entry in history.entries), None)
    as_of.before_last = f"{last_step.transaction_id}-{last_step.seq}" if last_step else ""
    as_of.yesterday = f"{timezone.now() - dt.timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    _add_columns(as_of)
    _describe_known_columns(as_of)
    _group_reasons(as_of)
    if as_of.state.exists and start.table is not None:
        document = orjson.dumps(dict(as_of.state.values), option=orjson.OPT_INDENT_2)
        as_of.json = document.decode()
        as_of.sql = _insert_statement(as_of.state, start)
    key_columns = finder.table.key_columns
    if as_of.state.key and as_of.state.key not in [tuple(key.values()) for _, key in finder.keys]:
        pairs = zip(key_columns, as_of.state.key, strict=False)
        as_of.key_words = ", ".join(f"{name} = {value}" for name, value in pairs)
    return as_of


def _read_moment(as_of: AsOf, state_at: Callable[..., RowState], before: str) -> None:
    if change := change_name(before):
        try:
            as_of.then = state_at(before=change)
        except LookupError:
            as_of.problem = "That change was deleted."
            return
        as_of.words = "before the change"
    elif _LSN.fullmatch(as_of.typed):
        as_of.then = state_at(lsn=position_of(as_of.typed))
        as_of.words = as_of.typed.upper()
    elif as_of.typed:
        as_of.at = _parse_moment(as_of.typed)
        if as_of.at is None:
            as_of.problem = "Not a time or an LSN: write 2026-11-19 12:00:00 or 0/1B2C3D8."
            return
        as_of.then = state_at(moment=as_of.at)
    if as_of.then is not None and as_of.at is None:
        as_of.at = as_of.then.last.commit_time if as_of.then.last else None


def _parse_moment(text: str) -> dt.datetime | None:
    """Return the time in a text (without a zone: UTC); None: the text is none, or not plausible."""
    try:
        moment = parse_datetime(text)
    except ValueError:
        return None
    if moment is None or moment.year < 1900 or moment.year > 9000:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _add_columns(as_of: AsOf) -> None:
    then, now = as_of.state, as_of.now
    column_types: dict[str, str] = {}
    for state in (then, now):
        for column in state.version.columns if state.version else ():
            column_types.setdefault(column["name"], str(column.get("type") or ""))
    for name, type_name in column_types.items():
        then_cell, then_words = _cell_or_words(then, name)
        now_cell, now_words = _cell_or_words(now, name)
        kind = "differs"
        if as_of.then is None:
            kind = "same"
        elif then_cell is not None and now_cell is not None:
            differing = differs(then.values[name], now.values[name])
            kind = {True: "differs", False: "same", None: "unknown"}[differing]
        elif then_words == now_words and then_cell is None and now_cell is None:
            kind = "unknown" if then_words == "unknown" else "same"
        as_of.lines.append(
            AsOfColumn(name, type_name, then_cell, then_words, kind, now_cell, now_words,
                       WHY.get(then.unknown.get(name, ""), ""))
        )  # fmt: skip


def _cell_or_words(state: RowState, name: str) -> tuple[Cell | None, str]:
    """Return a column's cell in a state, or the words in its place."""
    if state.exists and name in state.values:
        return short(state.values[name]), ""
    if state.exists is False:
        return None, {"deleted": "deleted", "truncated": "truncated"}.get(state.why, "no row")
    if state.version is not None and name not in {**state.version.kinds(), **state.unknown}:
        return None, f"not in v{state.version.number}"
    return None, "unknown"


def _describe_known_columns(as_of: AsOf) -> None:
    state = as_of.state
    if state.beyond:
        as_of.known = "Unknown"
        as_of.known_words = BEYOND[state.beyond]
    elif not state.exists:
        as_of.known = "Unknown" if state.exists is None else "No row"
        as_of.known_words = WHY.get(state.why, "")
    elif not state.unknown:
        as_of.known = "Known"
    else:
        known_count = len(state.values)
        as_of.known = "Known in part" if known_count else "It exists"
        total = known_count + len(state.unknown)
        as_of.known_words = f"{known_count} of {total} columns"


def _group_reasons(as_of: AsOf) -> None:
    by_reason: dict[str, list[str]] = {}
    for name, reason in as_of.state.unknown.items():
        by_reason.setdefault(WHY.get(reason, reason), []).append(name)
    for reason, names in by_reason.items():
        as_of.reasons.append((some_of(names, 6), reason))


def _insert_statement(state: RowState, start: Start) -> str:
    """Return an INSERT of the row as far as it is known; a comment names what is left out."""
    assert start.table is not None
    types = (
        {column["name"]: column.get("type") for column in state.version.columns}
        if state.version
        else {}
    )
    complete = {
        column_name: known_value
        for column_name, known_value in state.values.items()
        if not mark_of(known_value) and not isinstance(known_value, Mapping)
    }
    omitted = [
        column_name
        for column_name in (*state.values, *state.unknown)
        if column_name not in complete
    ]
    relation = start.table.relation
    note = comment(f"Omitted, because unknown or too long: {', '.join(omitted)}") if omitted else ""
    names = ", ".join(identifier(name) for name in complete)
    values = ", ".join(literal(value, types.get(name)) for name, value in complete.items())
    table = table_name(relation.schema, relation.table)
    return f"{note}INSERT INTO {table} ({names})\nVALUES ({values});"

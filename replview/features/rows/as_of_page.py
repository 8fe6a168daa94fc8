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
    words: Mapping[str, object],
    history: RowHistory,
    coverage: Coverage,
) -> AsOf:
    """Return the row as of the moment that the address names (``as_of``, ``before``)."""

    def state(**moment: Any) -> RowState:
        relation, key = finder.table.relation.pk, start.key or {}
        known = row_as_of(
            reading_session(), finder.slot, relation, key, finder=finder, row=row, **moment
        )
        return known if "before" in moment else bounded(known, coverage, **moment)

    found = AsOf(now=state(), typed=clean_text(words.get("as_of"), 64))
    _read_moment(found, state, clean_text(words.get("before"), strip=False))
    last = next((e.step for e in history.entries), None)
    found.before_last = f"{last.transaction_id}-{last.seq}" if last else ""
    found.yesterday = f"{timezone.now() - dt.timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    _compare(found)
    _say_known(found)
    _say_reasons(found)
    if found.state.exists and start.table is not None:
        document = orjson.dumps(dict(found.state.values), option=orjson.OPT_INDENT_2)
        found.json = document.decode()
        found.sql = _as_sql(found.state, start)
    keys = finder.table.key_columns
    if found.state.key and found.state.key not in [tuple(key.values()) for _, key in finder.keys]:
        pairs = zip(keys, found.state.key, strict=False)
        found.key_words = ", ".join(f"{name} = {value}" for name, value in pairs)
    return found


def _read_moment(found: AsOf, state: Callable[..., RowState], before: str) -> None:
    if name := change_name(before):
        try:
            found.then = state(before=name)
        except LookupError:
            found.problem = "That change was deleted."
            return
        found.words = "before the change"
    elif _LSN.fullmatch(found.typed):
        found.then = state(lsn=position_of(found.typed))
        found.words = found.typed.upper()
    elif found.typed:
        found.at = _moment(found.typed)
        if found.at is None:
            found.problem = "Not a time or an LSN: write 2026-11-19 12:00:00 or 0/1B2C3D8."
            return
        found.then = state(moment=found.at)
    if found.then is not None and found.at is None:
        found.at = found.then.last.commit_time if found.then.last else None


def _moment(text: str) -> dt.datetime | None:
    """Return the time in a text (without a zone: UTC); None: the text is none, or not plausible."""
    try:
        moment = parse_datetime(text)
    except ValueError:
        return None
    if moment is None or moment.year < 1900 or moment.year > 9000:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _compare(found: AsOf) -> None:
    then, now = found.state, found.now
    names: dict[str, str] = {}
    for state in (then, now):
        for column in state.version.columns if state.version else ():
            names.setdefault(column["name"], str(column.get("type") or ""))
    for name, type_name in names.items():
        cell, words = _side(then, name)
        now_cell, now_words = _side(now, name)
        kind = "differs"
        if found.then is None:
            kind = "same"
        elif cell is not None and now_cell is not None:
            differing = differs(then.values[name], now.values[name])
            kind = {True: "differs", False: "same", None: "unknown"}[differing]
        elif words == now_words and cell is None and now_cell is None:
            kind = "unknown" if words == "unknown" else "same"
        found.lines.append(
            AsOfColumn(name, type_name, cell, words, kind, now_cell, now_words,
                       WHY.get(then.unknown.get(name, ""), ""))
        )  # fmt: skip


def _side(state: RowState, name: str) -> tuple[Cell | None, str]:
    """Return a column's cell in a state, or the words in its place."""
    if state.exists and name in state.values:
        return short(state.values[name]), ""
    if state.exists is False:
        return None, {"deleted": "deleted", "truncated": "truncated"}.get(state.why, "no row")
    if state.version is not None and name not in {**state.version.kinds(), **state.unknown}:
        return None, f"not in v{state.version.number}"
    return None, "unknown"


def _say_known(found: AsOf) -> None:
    state = found.state
    if state.beyond:
        found.known = "Unknown"
        found.known_words = BEYOND[state.beyond]
    elif not state.exists:
        found.known = "Unknown" if state.exists is None else "No row"
        found.known_words = WHY.get(state.why, "")
    elif not state.unknown:
        found.known = "Known"
    else:
        known = len(state.values)
        found.known = "Known in part" if known else "It exists"
        total = known + len(state.unknown)
        found.known_words = f"{known} of {total} columns"


def _say_reasons(found: AsOf) -> None:
    by_reason: dict[str, list[str]] = {}
    for name, reason in found.state.unknown.items():
        by_reason.setdefault(WHY.get(reason, reason), []).append(name)
    for reason, names in by_reason.items():
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        found.reasons.append((shown, reason))


def _as_sql(state: RowState, start: Start) -> str:
    """Return an INSERT of the row as far as it is known; a comment names what is left out."""
    assert start.table is not None
    types = {c["name"]: c.get("type") for c in state.version.columns} if state.version else {}
    whole = {n: v for n, v in state.values.items() if not mark_of(v) and not isinstance(v, Mapping)}
    left = [n for n in (*state.values, *state.unknown) if n not in whole]
    relation = start.table.relation
    note = comment(f"Omitted, because unknown or too long: {', '.join(left)}") if left else ""
    names = ", ".join(identifier(name) for name in whole)
    values = ", ".join(literal(value, types.get(name)) for name, value in whole.items())
    table = table_name(relation.schema, relation.table)
    return f"{note}INSERT INTO {table} ({names})\nVALUES ({values});"

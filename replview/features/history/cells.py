"""The cells of a history job's rows: what stands in each, and which page tells more of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from replview.access.withheld import Withheld
from replview.store.models import HistoryJob, Slot
from replview.store.read.transactions.transaction_filter import UNKNOWN_ACTOR
from replview.store.read.visibility import NO_RIGHT
from replview.text.addresses import actor_url, row_url, transactions_url
from replview.text.formats import count_words

#: The job whose rows count changes by table and column.
COUNTS = "who-changed-what"
_LONGEST = 160
_LETTERS = {"insert": "I", "update": "U", "delete": "D"}
#: Spark writes times in another form than the server: such a key would not be found.
_TIME = re.compile(r"-?\d+-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Cell:
    """One value."""

    text: str
    #: Nothing is there, or nobody said.
    unknown: bool = False
    number: bool = False
    url: str = ""


def cells_of(
    row: HistoryJob, result: Mapping[str, Any], slot: Slot | None, of: Withheld
) -> list[list[Cell]]:
    """Rows as they are shown, with links where the slot is still there."""
    columns = [str(name) for name in result.get("columns") or []]
    rows: Sequence[Sequence[Any]] = result.get("rows") or []
    numbers = {n for n in range(len(columns)) if _are_numbers([cells[n] for cells in rows])}
    found = [[_cell(value, n in numbers) for n, value in enumerate(cells)] for cells in rows]
    if row.job == COUNTS:
        words = {name: str(row.words.get(name) or "") for name in _SPAN}
        return [_counted(columns, *both, slot, words) for both in zip(rows, found, strict=True)]
    table = str(row.words.get("table") or "")
    key = [str(name) for name in (result.get("told") or {}).get("key") or []]
    if slot is None or not table or not key or of.hides(table) or of.columns(table, key) & {*key}:
        return found
    return [_linked(columns, *both, slot, table, key) for both in zip(rows, found, strict=True)]


def text_of(value: Any) -> str | None:
    """A value as text, cut where it is long."""
    if value is None:
        return None
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_SPAN = ("since", "until", "from_lsn", "to_lsn")


def _are_numbers(values: Sequence[Any]) -> bool:
    there = [value for value in values if value is not None]
    return bool(there) and all(type(value) in (int, float) for value in there)


def _cell(value: Any, number: bool) -> Cell:
    text = text_of(value)
    return Cell("null", unknown=True, number=number) if text is None else Cell(text, number=number)


def _counted(
    columns: Sequence[str], values: Sequence[Any], cells: list[Cell], slot: Slot | None,
    span: Mapping[str, str],
) -> list[Cell]:  # fmt: skip
    """Who, and what of it: in words, and the number leads to those transactions."""
    told, at = dict(zip(columns, values, strict=True)), columns.index
    found = list(cells)
    actor, operation, count = told["actor"], str(told["operation"]), told.get("changes")
    if actor is None:
        found[at("actor")] = Cell("nobody named", unknown=True)
    elif slot is not None:
        found[at("actor")] = replace(cells[at("actor")], url=actor_url(slot, str(actor)))
    if told["column"] is None:
        whole = operation in ("insert", "delete")
        found[at("column")] = Cell("the whole row" if whole else "unknown", unknown=not whole)
    if count is None:
        found[at("changes")] = Cell("withheld", unknown=True, number=True)
    elif slot is not None and told["column"] != NO_RIGHT:
        letter = _LETTERS.get(operation.partition(",")[0], "")
        wanted = {"tables": str(told["table"]), "ops": letter, **span}
        by = UNKNOWN_ACTOR if actor is None else str(actor)
        address = transactions_url(slot, actor=by, **{k: v for k, v in wanted.items() if v})
        found[at("changes")] = Cell(count_words(int(count)), number=True, url=address)
    return found


def _linked(
    columns: Sequence[str], values: Sequence[Any], cells: list[Cell], slot: Slot, table: str,
    key: Sequence[str],
) -> list[Cell]:  # fmt: skip
    """The row's key leads to its history, where it is what the record has."""
    told = dict(zip(columns, values, strict=True))
    parts = {name: told.get(name) for name in key}
    if not all(type(part) is int or _is_plain(part) for part in parts.values()):
        return cells
    schema, _, name = table.partition(".")
    url = row_url(slot, schema, name, {one: str(part) for one, part in parts.items()})
    return [
        replace(cell, url=url) if column == key[0] else cell
        for column, cell in zip(columns, cells, strict=True)
    ]


def _is_plain(part: Any) -> bool:
    return isinstance(part, str) and not _TIME.match(part) and len(part) <= _LONGEST

"""Narrow what is read by the filters that Spark pushes down.

Spark applies its filters again. What is read may therefore have more rows than satisfy them, and
must never have fewer.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.slice_tables import named_once
from replview.parquet.slice_schemas import PARTITION, SliceColumn
from replview.parquet.slices import OPERATIONS, Slice, SliceTable
from replview.store.read.rows import signed_hash
from replview.store.read.transactions.filter_values import UNKNOWN_ACTOR

_LSN = "_commit_version"
#: Column of untyped records with their place in history.
_PLACE = "commit_seq"
_MOST = (1 << 63) - 1
#: Operations that produce rows of a ``_change_type``.
_OPERATIONS = {
    "insert": ("insert", "snapshot"), "update_preimage": ("update",),
    "update_postimage": ("update",), "delete": ("delete",), "truncate": ("truncate",),
}  # fmt: skip
#: The most keys that are looked for.
_MOST_KEYS = 1_000


def narrowed(part: Slice, filters: Iterable[Filter], *, typed: bool) -> Slice:
    """Return a slice with every row that satisfies all filters."""
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        if len(attribute) == 1:
            part = _narrowed(part, each, str(attribute[0]).lower(), typed=typed)
    return part


def _narrowed(part: Slice, each: Filter, name: str, *, typed: bool) -> Slice:
    value = getattr(each, "value", None)
    if name == _LSN and isinstance(value, int):
        return _by_lsn(part, each, value)
    if name in (PARTITION, "_commit_timestamp" if typed else "commit_time"):
        return _by_time(part, each, value)
    if name == _PLACE and isinstance(value, int) and not typed:
        return _by_place(part, each, value)
    if name == ("_xid" if typed else "xid") and isinstance(each, EqualTo):
        # Only one filter fits; transactions with such a gid are included.
        free = isinstance(value, int) and not part.narrowed.filter.id
        return _narrowed_by(part, id=str(value)) if free else part
    if name == ("_actor" if typed else "actor") and isinstance(each, IsNull):
        return _narrowed_by(part, actor=UNKNOWN_ACTOR)
    values = value if isinstance(each, In) else (value,) if isinstance(each, EqualTo) else ()
    texts = [text for text in values or () if isinstance(text, str)]
    if not texts:
        return part
    if name == ("_actor" if typed else "actor"):
        if UNKNOWN_ACTOR in texts:
            # Here it is a name; in a slice it stands for no name.
            return part
        chosen = [text for text in texts if not part.actors or text in part.actors]
        return replace(part, actors=tuple(chosen)) if chosen else part
    if name == ("_change_type" if typed else "op"):
        known = _OPERATIONS if typed else {word: (word,) for word in OPERATIONS}
        wanted = {word for text in texts for word in known.get(text, ())}
        of = [word for word in part.operations or OPERATIONS if word in wanted]
        return replace(part, operations=tuple(of)) if of else part
    return part


def _narrowed_by(part: Slice, **more: Any) -> Slice:
    filter_ = replace(part.narrowed.filter, **more)
    return replace(part, narrowed=replace(part.narrowed, filter=filter_))


def _by_place(part: Slice, each: Filter, value: int) -> Slice:
    after, through = part.after_seq, part.through_seq
    if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        after = max(after, min(value - (not isinstance(each, GreaterThan)), through))
    if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
        through = max(after, min(through, value - isinstance(each, LessThan)))
    return replace(part, after_seq=after, through_seq=through)


def _by_lsn(part: Slice, each: Filter, value: int) -> Slice:
    low, high = part.from_lsn, part.to_lsn
    if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        least = value + isinstance(each, GreaterThan)
        low = least if low is None else max(low, least)
    if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
        most = value - isinstance(each, LessThan)
        high = most if high is None else min(high, most)
    low, high = (None if each is None else min(max(each, 0), _MOST) for each in (low, high))
    return replace(part, from_lsn=low, to_lsn=high)


def _by_time(part: Slice, each: Filter, value: object) -> Slice:
    if (span := _span(value)) is None:
        return part
    (start, end), since, until = span, part.since, part.until
    if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        first = end if isinstance(each, GreaterThan) else start
        since = first if since is None else max(since, first)
    if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
        after = start if isinstance(each, LessThan) else end
        until = after if until is None else min(until, after)
    return replace(part, since=since, until=until)


def _span(value: object) -> tuple[dt.datetime, dt.datetime] | None:
    """Return when a time or a day begins and ends; None if it is neither, or beyond Python's."""
    if isinstance(value, dt.datetime):
        start, length = value, dt.timedelta(microseconds=1)
    elif isinstance(value, dt.date):
        start = dt.datetime.combine(value, dt.time(), tzinfo=dt.UTC)
        length = dt.timedelta(days=1)
    else:
        return None
    try:
        return None if start.tzinfo is None else (start, start + length)
    except OverflowError:
        return None


def of_tables(connection: StoreConnection, part: Slice, filters: Iterable[Filter]) -> Slice:
    """Return a slice of untyped records with every table that the filters may choose."""
    found = [_values(filters, name) for name in ("schema", "table")]
    schemas, tables = ([each for each in some if isinstance(each, str)] for some in found)
    if not schemas and not tables:
        return part
    # A table has the records of its former names, too.
    names = named_once(connection, part, schemas, tables)
    chosen = tuple(name for name in names if not part.tables or name in part.tables)
    return replace(part, tables=chosen) if chosen else part


def keyed(table: SliceTable, part: Slice, filters: Sequence[Filter]) -> SliceTable:
    """Return a table whose rows are of the keys that the filters choose, if they choose keys."""
    keys = {version.key_columns for version in table.versions}
    names = keys.pop()
    columns = {column.source_name: column for column in table.columns}
    hidden = part.masked_of(table.name)
    if keys or not names or any(name in hidden or name not in columns for name in names):
        return table
    texts = [_texts(columns[name], filters) for name in names]
    found = list(islice(product(*texts), _MOST_KEYS + 1))
    if not found or len(found) > _MOST_KEYS:
        return table
    return replace(table, key_hashes=tuple(map(signed_hash, found)))


def _texts(column: SliceColumn, filters: Iterable[Filter]) -> list[str]:
    """Return the texts of the column that a filter chooses; empty: it may be any."""
    values = [value for value in _values(filters, column.name) if value is not None]
    # Of other types one value may have several texts.
    kind = int if pa.types.is_integer(column.arrow) else str
    fits = kind is int or column.arrow == pa.string()
    return [str(value) for value in values if fits] if {*map(type, values)} == {kind} else []


def _values(filters: Iterable[Filter], name: str) -> Sequence[object]:
    """Return the values that the column must have; empty: it may have any."""
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        if [part.casefold() for part in attribute] != [name.casefold()]:
            continue
        if isinstance(each, EqualTo):
            return [each.value]
        if isinstance(each, In):
            return list(each.value)
    return []

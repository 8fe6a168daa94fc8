"""What is read of the record: a slice of transactions, the tables in it, the ranges it is cut into.

All of it is plain data: a job's description, a Spark partition and a manifest carry it as JSON. The
words of a ``Narrowing`` are those of a page's filter and mean the same; the store decides them,
wherever a file is written, so that this process and Spark's executors write the same files.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, get_args

import pyarrow as pa

from replview.parquet.slice_schemas import Column, slice_columns, table_schema
from replview.text.parsing import table_text

#: The states of ``Narrowing.states``: those that have a place in history and something in it.
STATES = ("committed", "snapshot", "message")
_LISTS = ("states", "searched")
OPERATIONS = ("insert", "update", "delete", "truncate", "message", "snapshot")
Before = Literal["sent", "derived", "full"]
BEFORE: tuple[Before, ...] = get_args(Before)
#: A place in history: commit_seq, and the change's seq within that transaction.
Place = tuple[int, int]
#: Tables and their masked columns, both in order; a table under every name it has had.
Masked = tuple[tuple[str, tuple[str, ...]], ...]
#: After every change of a transaction (``change.seq`` is a 32-bit integer).
LAST_SEQ = (1 << 31) - 1


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dt.date):
        return value.isoformat()
    return dict(value) if isinstance(value, Mapping) else value


def _document(item: "Narrowing | Slice | TableVersion | SliceTable | Range") -> dict[str, Any]:
    return {each.name: _plain(getattr(item, each.name)) for each in fields(item)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What a slice asks of whole transactions beyond their place, tables, operations and actors.

    With nothing set every transaction passes.
    """

    #: Some of ``STATES``; empty: all.
    states: tuple[str, ...] = ()
    #: Only transactions of which nobody said whose they are.
    no_actor: bool = False
    #: Exactly, or ``-``: written on the source itself.
    origin: str = ""
    #: Exactly this gid or xid.
    id: str = ""
    #: What aborted subtransactions took away is not counted.
    min_changes: int = 0
    min_bytes: int = 0
    #: Seconds for which a two-phase transaction was prepared.
    prepared_min: int = 0
    #: In gid, xid, actor, origin, commit LSN, table names, and in the values of the first changes.
    text: str = ""
    #: ``schema.table`` of those whose values the text may be found in; None: all tables.
    searched: tuple[str, ...] | None = None
    #: Whether it may be found in logical messages, and what they told of a transaction is read.
    in_messages: bool = True

    def __bool__(self) -> bool:
        return bool(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the conditions that are set, as plain values."""
        unset = _document(NOT_NARROWED)
        return {name: value for name, value in _document(self).items() if value != unset[name]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        values: dict[str, Any] = dict(document)
        return cls(**values | {name: tuple(values[name]) for name in _LISTS if name in values})


NOT_NARROWED = Narrowing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The transactions of one slot incarnation with ``after_seq < commit_seq <= through_seq``, and
    of their changes those that the predicates let through.

    Its ends are fixed: what is stored later is not in it.
    """

    source: str
    slot: str
    #: The incarnation's identifier in the store, and its number (1 for the slot's first).
    incarnation_id: int
    incarnation: int
    after_seq: int
    through_seq: int
    #: Commit times: from ``since`` (included) to ``until`` (not).
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    #: Commit LSNs, both included.
    from_lsn: int | None = None
    to_lsn: int | None = None
    #: ``schema.table`` as last seen; empty: all.
    tables: tuple[str, ...] = ()
    #: Some of ``OPERATIONS``; empty: all.
    operations: tuple[str, ...] = ()
    #: Exactly these actors; empty: all, and nobody.
    actors: tuple[str, ...] = ()
    #: Rows before an update: only those the server sent, or from the record too (slower), or these
    #: and whole rows: what was not sent of a row after an update, or deleted, is from the record.
    before: Before = "sent"
    #: numeric without a precision is a decimal of 38 digits, so many of them behind the point; a
    #: value that does not fit is null, its text in ``_pg_raw``. None: it is text.
    numeric_scale: int | None = None
    #: Of these the values are left out, with a mark in their place.
    masked: Masked = ()
    #: What else is asked of its transactions.
    narrowed: Narrowing = field(default_factory=Narrowing)

    @property
    def whose(self) -> tuple[str, ...]:
        """The actors whose changes it holds (an empty one: nobody's); of no actor: everybody's."""
        return ("",) if self.narrowed.no_actor else self.actors

    def masked_of(self, table: str) -> tuple[str, ...]:
        """Return the masked columns of a table, ``schema.table``."""
        return dict(self.masked).get(table, ())

    def to_json(self) -> dict[str, Any]:
        document = _document(self)
        # Absent where nothing is masked or asked: such slices are those of earlier versions.
        more = {
            "masked": dict(document.pop("masked")),
            "narrowed": document.pop("narrowed").to_json(),
        }
        if document["numeric_scale"] is None:
            del document["numeric_scale"]
        return document | {name: value for name, value in more.items() if value}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        values = dict(document)
        for name in ("since", "until"):
            if values.get(name) is not None:
                values[name] = dt.datetime.fromisoformat(values[name])
        for name in ("tables", "operations", "actors"):
            values[name] = tuple(values.get(name) or ())
        masked = values.get("masked") or {}
        values["masked"] = tuple((name, tuple(masked[name])) for name in sorted(masked))
        values["narrowed"] = Narrowing.from_json(values.get("narrowed") or {})
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """One shape of a table that changes of the slice were made under."""

    #: ``relation_version.id`` and its number (1 for the first shape seen).
    id: int
    number: int
    #: ``[{"name", "type_oid", "type", "typmod", "key"}]`` in the stream's order.
    columns: tuple[Mapping[str, Any], ...]
    #: What a row is known by; empty: rows cannot be told apart.
    key_columns: tuple[str, ...] = ()
    #: DEFAULT, NOTHING, FULL or INDEX.
    replica_identity: str = "DEFAULT"

    def to_json(self) -> dict[str, Any]:
        return _document(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """A file's shape tells no ``id``, which is 0 then."""
        lists = {name: tuple(document[name]) for name in ("columns", "key_columns")}
        return cls(**{"id": 0, **document, **lists})


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTable:
    """A table with changes in a slice; its columns are those of all its shapes there."""

    relation_id: int
    #: On the source.
    oid: int
    #: As named by the newest shape in the slice.
    schema: str
    table: str
    #: In the order of their numbers.
    versions: tuple[TableVersion, ...]
    #: Counted changes (an update that has its row before is one); None: not counted.
    rows: int | None = None
    #: Only these columns, by their name on the source; None: all.
    only: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """``schema.table``."""
        return f"{self.schema}.{self.table}"

    @property
    def columns(self) -> list[Column]:
        """The file's: those of the newest shape, then those it had before."""
        found = slice_columns([version.columns for version in reversed(self.versions)])
        return [c for c in found if self.only is None or c.source_name in self.only]

    def arrow_schema(self) -> pa.Schema:
        """Return the schema of ``read_typed``'s rows and of the table's Parquet files."""
        numbers = [version.number for version in self.versions]
        return table_schema(self.columns, table_text(self.schema, self.table), numbers)

    def to_json(self) -> dict[str, Any]:
        return {**_document(self), "versions": [version.to_json() for version in self.versions]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        versions = tuple(map(TableVersion.from_json, document["versions"]))
        only = document.get("only")
        return cls(**{**document, "versions": versions, "only": only and tuple(only)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A part of a table's changes in a slice: ``after < (commit_seq, seq) <= through``."""

    after: Place
    through: Place
    #: Counted changes.
    rows: int = 0
    #: Commit LSNs of the first and the last transaction that has some of them; None: unknown.
    first_lsn: int | None = None
    last_lsn: int | None = None
    #: With ``by_day``: only transactions committed on this day (UTC); None: of no known time.
    commit_date: dt.date | None = None
    by_day: bool = False

    def to_json(self) -> dict[str, Any]:
        return _document(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        values = {**document, **{name: tuple(document[name]) for name in ("after", "through")}}
        if values.get("commit_date") is not None:
            values["commit_date"] = dt.date.fromisoformat(values["commit_date"])
        return cls(**values)

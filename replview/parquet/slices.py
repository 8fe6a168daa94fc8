"""A slice of transactions, the tables in it, and the ranges it is cut into, as plain data.

A job's order, a Spark partition and a manifest carry them as JSON. The store evaluates the filter
of a ``Narrowing`` wherever a file is written, so that this process and Spark's executors write the
same files.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, get_args

import pyarrow as pa

from replview.parquet.slice_schemas import SliceColumn, slice_columns, table_schema
from replview.store.read.transactions.fields import FIELDS
from replview.store.read.transactions.filter_values import UNKNOWN_ACTOR
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.text.parsing import table_text

#: States that a slice's transactions can have: states with a place in history and some content.
STATES = ("committed", "snapshot", "message")
#: Fields of a filter that a slice does not have as attributes of its own.
NARROWING_FIELDS = [
    field
    for field in FIELDS
    if field.name not in ("slot", "tables", "ops", "since", "until", "from_lsn", "to_lsn")
]
#: Attributes of a ``Narrowing`` beside its filter.
_LIMITS = ("searched", "in_messages")
OPERATIONS = ("insert", "update", "delete", "truncate", "message", "snapshot")
BeforeOrigin = Literal["sent", "derived", "full"]
BEFORE: tuple[BeforeOrigin, ...] = get_args(BeforeOrigin)
#: A place in history: a commit_seq, and a change's seq within that transaction.
SlicePosition = tuple[int, int]
#: Tables with their masked columns, both sorted; a table occurs under every name it has had.
Masked = tuple[tuple[str, tuple[str, ...]], ...]
#: A seq after every change of a transaction (``change.seq`` is a 32-bit integer).
LAST_SEQ = (1 << 31) - 1


def _plain_value(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain_value(item) for item in value]
    if isinstance(value, dt.date):
        return value.isoformat()
    return dict(value) if isinstance(value, Mapping) else value


def _document(item: "Slice | TableVersion | SliceTable | SliceRange") -> dict[str, Any]:
    return {field_.name: _plain_value(getattr(item, field_.name)) for field_ in fields(item)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """Conditions of a slice on whole transactions, beyond place, tables, operations and actors.

    With nothing set every transaction matches.
    """

    #: A filter of the fields that a slice does not have itself.
    filter: TransactionFilter = field(default_factory=TransactionFilter)
    #: Tables (``schema.table``) whose values are searched for the text; None: all.
    searched: tuple[str, ...] | None = None
    #: True if logical messages are searched, and a transaction's facts from messages are read.
    in_messages: bool = True

    def __bool__(self) -> bool:
        return self != NOT_NARROWED

    @classmethod
    def of(
        cls,
        filter_: TransactionFilter,
        *,
        searched: tuple[str, ...] | None = None,
        in_messages: bool = True,
    ) -> Self:
        """Return what a filter asks beyond the attributes of a slice, with states in one order.

        A slice has known actors, but not that the actor is unknown.
        """
        values = {entry.name: getattr(filter_, entry.name) for entry in NARROWING_FIELDS}
        values["states"] = tuple(state for state in STATES if state in filter_.states)
        values["actor"] = UNKNOWN_ACTOR if filter_.actor == UNKNOWN_ACTOR else ""
        searched = searched if filter_.text else None
        return cls(filter=TransactionFilter(**values), searched=searched, in_messages=in_messages)

    @property
    def no_actor(self) -> bool:
        """Return whether only transactions with an unknown actor match."""
        return self.filter.actor == UNKNOWN_ACTOR

    def to_json(self) -> dict[str, Any]:
        """Return the conditions that are set, as plain values."""
        document = {entry.name: _plain_value(value) for entry, value in self.filter.restricting()}
        if document.pop("actor", None) is not None:
            document["no_actor"] = True
        if self.searched is not None:
            document["searched"] = list(self.searched)
        return document if self.in_messages else document | {"in_messages": False}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the conditions from the form of ``to_json``."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in document.items()
        }
        limits = {name: values.pop(name) for name in _LIMITS if name in values}
        if values.pop("no_actor", False):
            values["actor"] = UNKNOWN_ACTOR
        return cls(filter=TransactionFilter(**values), **limits)


NOT_NARROWED = Narrowing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The transactions of one slot incarnation with ``after_seq < commit_seq <= through_seq``.

    Of their changes it has those that meet the predicates. Its ends are fixed: what is stored later
    is not in it.
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
    #: Tables (``schema.table``) as last seen; empty: all.
    tables: tuple[str, ...] = ()
    #: Some of ``OPERATIONS``; empty: all.
    operations: tuple[str, ...] = ()
    #: Actors, which must be equal; empty: all, known or not.
    actors: tuple[str, ...] = ()
    #: Rows before an update: ``sent`` by the server, or ``derived`` from the record, too (slower).
    #: With ``full``, unsent values of rows after an update, or deleted, come from the record as
    #: well.
    before: BeforeOrigin = "sent"
    #: Scale of the 38-digit decimal that numeric without a precision becomes. A value that does not
    #: fit is null, with its text in ``_pg_raw``. None: such numbers are text.
    numeric_scale: int | None = None
    #: Columns whose values are replaced by a mark.
    masked: Masked = ()
    #: Further conditions on the transactions.
    narrowed: Narrowing = field(default_factory=Narrowing)

    @property
    def whose(self) -> tuple[str, ...]:
        """Return the actors whose changes the slice has (``""``: unknown); empty: all."""
        return ("",) if self.narrowed.no_actor else self.actors

    def masked_of(self, table: str) -> tuple[str, ...]:
        """Return the masked columns of a table, ``schema.table``."""
        return dict(self.masked).get(table, ())

    def to_json(self) -> dict[str, Any]:
        """Return the slice as plain values for JSON."""
        document = _document(self)
        # These are absent where nothing is set, so that such a slice equals that of earlier
        # versions.
        optional = {
            "masked": dict(document.pop("masked")),
            "narrowed": document.pop("narrowed").to_json(),
        }
        if document["numeric_scale"] is None:
            del document["numeric_scale"]
        return document | {name: value for name, value in optional.items() if value}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the slice from the form of ``to_json``."""
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
    """One shape of a table under which changes of the slice were made."""

    #: ``relation_version.id`` and its number (1 for the first shape seen).
    id: int
    number: int
    #: ``[{"name", "type_oid", "type", "typmod", "key"}]`` in the stream's order.
    columns: tuple[Mapping[str, Any], ...]
    #: Columns that identify a row; empty: rows cannot be told apart.
    key_columns: tuple[str, ...] = ()
    #: DEFAULT, NOTHING, FULL or INDEX.
    replica_identity: str = "DEFAULT"

    def to_json(self) -> dict[str, Any]:
        """Return the shape as plain values for JSON."""
        return _document(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the shape from the form of ``to_json``; a missing ``id`` becomes 0."""
        lists = {name: tuple(document[name]) for name in ("columns", "key_columns")}
        return cls(**{"id": 0, **document, **lists})


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTable:
    """A table with changes in a slice; its columns are those of all its shapes there."""

    relation_id: int
    #: The oid on the source.
    oid: int
    #: The names in the newest shape of the slice.
    schema: str
    table: str
    #: The shapes, in the order of their numbers.
    versions: tuple[TableVersion, ...]
    #: Number of changes (an update with its row before it is one); None: not counted.
    rows: int | None = None
    #: Columns to read, by their name on the source; None: all.
    only: tuple[str, ...] | None = None
    #: True to give a row for each truncation, too.
    truncations: bool = False
    #: Hashes of the keys whose rows are read, with rows of an unknown key; empty: all rows.
    key_hashes: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Return ``schema.table``."""
        return f"{self.schema}.{self.table}"

    @property
    def columns(self) -> list[SliceColumn]:
        """Return the file's columns: those of the newest shape, then former ones."""
        columns = slice_columns([version.columns for version in reversed(self.versions)])
        return [c for c in columns if self.only is None or c.source_name in self.only]

    def arrow_schema(self) -> pa.Schema:
        """Return the schema of ``read_typed``'s rows and of the table's Parquet files."""
        numbers = [version.number for version in self.versions]
        return table_schema(self.columns, table_text(self.schema, self.table), numbers)

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain values for JSON."""
        return {**_document(self), "versions": [version.to_json() for version in self.versions]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the table from the form of ``to_json``."""
        versions = tuple(map(TableVersion.from_json, document["versions"]))
        only = document.get("only")
        hashes = tuple(document.get("key_hashes", ()))
        return cls(
            **{**document, "versions": versions, "only": only and tuple(only), "key_hashes": hashes}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRange:
    """A part of a table's changes in a slice: ``after < (commit_seq, seq) <= through``."""

    after: SlicePosition
    through: SlicePosition
    #: Number of changes.
    rows: int = 0
    #: Commit LSNs of the first and the last transaction in the range; None: unknown.
    first_lsn: int | None = None
    last_lsn: int | None = None
    #: With ``by_day``, the day (UTC) on which its transactions committed; None: unknown time.
    commit_date: dt.date | None = None
    by_day: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the range as plain values for JSON."""
        return _document(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the range from the form of ``to_json``."""
        values = {**document, **{name: tuple(document[name]) for name in ("after", "through")}}
        if values.get("commit_date") is not None:
            values["commit_date"] = dt.date.fromisoformat(values["commit_date"])
        return cls(**values)

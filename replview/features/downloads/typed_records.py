"""Records of changes as typed rows: what a download has in its Parquet files, in its view's order.

One file a table, one of the transactions and one of the events (TRUNCATE, logical messages), with
an export's columns (``parquet.slice_schemas``). An ``update_preimage`` of which nothing but a move
to another key is known holds the old key alone. Where the table changed among them,
columns are those of its newest shape and then those it had before, each of a type that holds all
its values. Records wait on disk, since the types are known only at the end, and memory holds a
batch.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import orjson
import pyarrow as pa

from decoder.scalars import LSN
from replview.parquet.pg_values import convert
from replview.parquet.slice_schemas import EVENTS, TRANSACTIONS, Column, slice_columns, table_schema
from replview.text.parsing import table_text

#: Rows in memory as Python objects.
BATCH_LINES = 4096

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TypedFile:
    name: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@dataclass(slots=True)
class _Table:
    #: As last seen among them.
    schema: str
    table: str
    spool: IO[bytes]
    #: Version → its columns, in the order first seen.
    versions: dict[int, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    newest: int = 0
    rows: int = 0


class TypedRecords:
    """Takes records one by one, then gives the files that they make."""

    def __init__(self, folder: Path) -> None:
        #: Where records wait.
        self._folder = folder
        self._tables: dict[int, _Table] = {}
        self._events: list[Record] = []
        self._event_spool: IO[bytes] = self._spool()
        self._transaction_spool: IO[bytes] = self._spool()
        self._last_transaction: tuple[int, int] | None = None
        self.events = 0

    def add(
        self,
        record: Record,
        columns: Sequence[Mapping[str, Any]],
        *,
        transaction: Record | None = None,
        whole_old: bool = False,
        derived: Mapping[str, Any] | None = None,
    ) -> None:
        """One change as JSON (``store.read.changes.records``), with its table's columns.

        ``transaction`` is what the transactions file says of its transaction; ``whole_old``: the
        server sent the whole old row; ``derived``: the row before an update, from the record.
        """
        place = (record["incarnation"], record["commit_seq"])
        if place != self._last_transaction:
            self._last_transaction = place
            _spool_line(self._transaction_spool, transaction or record)
        if record["op"] in ("truncate", "message"):
            self.events += 1
            _spool_line(self._event_spool, record)
            return
        oid = record["relation_oid"]
        if oid not in self._tables:
            self._tables[oid] = _Table(record["schema"], record["table"], self._spool())
        table = self._tables[oid]
        version = record["version"] or 0
        if version >= table.newest:
            table.newest, table.schema, table.table = version, record["schema"], record["table"]
        table.versions[version] = columns
        table.rows += 1
        _spool_line(table.spool, [record, whole_old, derived])

    def files(self) -> Iterator[TypedFile]:
        """The tables' files, then those of transactions and events."""
        taken: set[str] = set()
        for oid, table in self._tables.items():
            name = f"{_encoded(table.schema)}.{_encoded(table.table)}"
            # Dropped and made anew among the records.
            name = f"{name}-{oid}" if name in taken else name
            taken.add(name)
            versions = sorted(table.versions)
            columns = slice_columns([table.versions[number] for number in reversed(versions)])
            schema = table_schema(columns, table_text(table.schema, table.table), versions)
            rows = partial(_table_batch, columns=columns, schema=schema)
            yield TypedFile(f"{name}.parquet", schema, map(rows, _batches(table.spool)))
        for name, schema, spool in (
            ("_transactions", TRANSACTIONS, self._transaction_spool),
            ("_events", EVENTS, self._event_spool),
        ):
            batches = map(partial(_plain, schema=schema), _batches(spool))
            yield TypedFile(f"{name}.parquet", schema, batches)

    @property
    def tables(self) -> int:
        return len(self._tables)

    def close(self) -> None:
        spools = (table.spool for table in self._tables.values())
        for spool in (*spools, self._event_spool, self._transaction_spool):
            spool.close()

    def _spool(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self._folder)


def _encoded(name: str) -> str:
    """A name as a part of a file's: nothing that a file system or Spark reads otherwise."""
    return quote(name, safe="").replace(".", "%2E")


def _spool_line(spool: IO[bytes], value: object) -> None:
    spool.write(orjson.dumps(value) + b"\n")


def _batches(spool: IO[bytes]) -> Iterator[list[Any]]:
    spool.seek(0)
    while lines := list(islice(spool, BATCH_LINES)):
        yield [orjson.loads(line) for line in lines]


@dataclass(slots=True)
class _Row:
    change_type: str
    values: Mapping[str, Any]
    record: Record
    derived: bool = False
    not_sent: Sequence[str] = ()


def _rows_of(line: list[Any]) -> Iterator[_Row]:
    """A change's rows: an update has one before it, where the row before is known."""
    record, whole_old, derived = line
    old, new = record["old"] or {}, record["new"] or {}
    not_sent = record["not_sent"]
    if record["op"] in ("insert", "snapshot"):
        yield _Row("insert", new, record, not_sent=not_sent)
    elif record["op"] == "delete":
        yield _Row("delete", old, record, not_sent=not_sent)
    else:
        looked_up = derived is not None and not whole_old
        # Where it moved to another key nothing else tells that the old one is gone.
        if whole_old or looked_up or any(new.get(n, value) != value for n, value in old.items()):
            before = {**derived, **old} if looked_up else old
            missing = [name for name in (*new, *not_sent) if name not in before]
            yield _Row("update_preimage", before, record, derived=looked_up, not_sent=missing)
        yield _Row("update_postimage", new, record, not_sent=not_sent)


def _table_batch(lines: list[Any], columns: Sequence[Column], schema: pa.Schema) -> pa.RecordBatch:
    rows = [row for line in lines for row in _rows_of(line)]
    raws: list[dict[str, str]] = [{} for _ in rows]
    arrays = []
    for column in columns:
        converted = convert([row.values.get(column.source_name) for row in rows], column.arrow)
        arrays.append(converted.array)
        for place, text in converted.raw.items():
            raws[place][column.source_name] = text
    own: dict[str, list[Any]] = {
        "_change_type": [row.change_type for row in rows],
        "_commit_version": [_number(row.record["commit_lsn"]) for row in rows],
        "_commit_timestamp": [row.record["commit_time"] for row in rows],
        "_relation_version": [row.record["version"] for row in rows],
        "_derived": [row.derived for row in rows],
        "_not_sent": [list(row.not_sent) for row in rows],
        "_pg_raw": [list(raw.items()) for raw in raws],
    }
    names = ("lsn", "xid", "commit_seq", "seq", "actor")
    own |= {f"_{name}": [row.record[name] for row in rows] for name in names}
    arrays += [_array(own[item.name], item) for item in list(schema)[len(columns) :]]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain(lines: list[Record], schema: pa.Schema) -> pa.RecordBatch:
    """Transactions or events: their fields by name."""
    arrays = []
    for item in schema:
        values = [line.get(item.name) for line in lines]
        if item.name == "_commit_version":
            values = [_number(line["commit_lsn"]) for line in lines]
        elif item.name == "context":
            values = [None if value is None else orjson.dumps(value).decode() for value in values]
        arrays.append(_array(values, item))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: list[Any], item: pa.Field) -> pa.Array:
    if pa.types.is_timestamp(item.type):
        return pa.array(values, pa.string()).cast(item.type)
    return pa.array(values, item.type)


def _number(lsn: str | None) -> int | None:
    return None if lsn is None else int(LSN.parse(lsn))

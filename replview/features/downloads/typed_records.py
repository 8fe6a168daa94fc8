"""Typed rows for the Parquet files of a download, in the order of its view.

There is one file for each table, one for the transactions and one for the events (TRUNCATE, logical
messages), with the columns of an export (``parquet.slice_schemas``). An ``update_preimage`` holds
only the old key if nothing else is known of the old row. If a table's shape changed, the columns
are those of its newest shape, then former ones, each of a type that holds all its values. Records
are spooled to disk, as the types are known only at the end; memory holds one batch.
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

from decoder.scalars import lsn_from_text
from replview.parquet.pg_values import convert
from replview.parquet.slice_schemas import (
    EVENTS,
    TRANSACTIONS,
    SliceColumn,
    slice_columns,
    table_schema,
)
from replview.text.parsing import table_text

#: Records in memory as Python objects at most.
BATCH_LINES = 4096

JsonRecord = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TypedFile:
    """A Parquet file to write: its name, schema and rows."""

    name: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@dataclass(slots=True)
class _DownloadedTable:
    #: The names as last seen in the records.
    schema: str
    table: str
    spool: IO[bytes]
    #: Columns of each version, in the order first seen.
    versions: dict[int, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    newest: int = 0
    rows: int = 0


class TypedRecords:
    """A collection of records, which then gives the files to write."""

    def __init__(self, folder: Path) -> None:
        #: Folder of the spool files.
        self._folder = folder
        self._tables: dict[int, _DownloadedTable] = {}
        self._events: list[JsonRecord] = []
        self._event_spool: IO[bytes] = self._spool()
        self._transaction_spool: IO[bytes] = self._spool()
        self._last_transaction: tuple[int, int] | None = None
        self.events = 0

    def add(
        self,
        record: JsonRecord,
        columns: Sequence[Mapping[str, Any]],
        *,
        transaction: JsonRecord | None = None,
        whole_old: bool = False,
        derived: Mapping[str, Any] | None = None,
    ) -> None:
        """Add one change as JSON (``store.read.changes.records``), with its table's columns.

        ``transaction`` is the record for the transactions file. ``whole_old`` says that the server
        sent the whole old row; ``derived`` is the before image of an update, from the record.
        """
        position = (record["incarnation"], record["commit_seq"])
        if position != self._last_transaction:
            self._last_transaction = position
            _spool_line(self._transaction_spool, transaction or record)
        if record["op"] in ("truncate", "message"):
            self.events += 1
            _spool_line(self._event_spool, record)
            return
        oid = record["relation_oid"]
        if oid not in self._tables:
            self._tables[oid] = _DownloadedTable(record["schema"], record["table"], self._spool())
        table = self._tables[oid]
        version = record["version"] or 0
        if version >= table.newest:
            table.newest, table.schema, table.table = version, record["schema"], record["table"]
        table.versions[version] = columns
        table.rows += 1
        _spool_line(table.spool, [record, whole_old, derived])

    def files(self) -> Iterator[TypedFile]:
        """Yield the files of the tables, then those of transactions and events."""
        names: set[str] = set()
        for oid, table in self._tables.items():
            name = f"{_encode_name(table.schema)}.{_encode_name(table.table)}"
            # The table was dropped and created again within the records.
            name = f"{name}-{oid}" if name in names else name
            names.add(name)
            versions = sorted(table.versions)
            columns = slice_columns([table.versions[number] for number in reversed(versions)])
            schema = table_schema(columns, table_text(table.schema, table.table), versions)
            rows = partial(_table_batch, columns=columns, schema=schema)
            yield TypedFile(f"{name}.parquet", schema, map(rows, _batches(table.spool)))
        for name, schema, spool in (
            ("_transactions", TRANSACTIONS, self._transaction_spool),
            ("_events", EVENTS, self._event_spool),
        ):
            batches = map(partial(_plain_batch, schema=schema), _batches(spool))
            yield TypedFile(f"{name}.parquet", schema, batches)

    @property
    def tables(self) -> int:
        """Return the number of tables."""
        return len(self._tables)

    def close(self) -> None:
        """Close and thereby delete the spool files."""
        spools = (table.spool for table in self._tables.values())
        for spool in (*spools, self._event_spool, self._transaction_spool):
            spool.close()

    def _spool(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self._folder)


def _encode_name(name: str) -> str:
    """Return the name as part of a file name, free of what file systems or Spark interpret."""
    return quote(name, safe="").replace(".", "%2E")


def _spool_line(spool: IO[bytes], value: object) -> None:
    spool.write(orjson.dumps(value) + b"\n")


def _batches(spool: IO[bytes]) -> Iterator[list[Any]]:
    spool.seek(0)
    while lines := list(islice(spool, BATCH_LINES)):
        yield [orjson.loads(line) for line in lines]


@dataclass(slots=True)
class _DownloadedRow:
    change_type: str
    values: Mapping[str, Any]
    record: JsonRecord
    derived: bool = False
    not_sent: Sequence[str] = ()


def _rows_of(line: list[Any]) -> Iterator[_DownloadedRow]:
    """Yield the rows of a change; an update has one before it if the before image is known."""
    record, whole_old, derived = line
    old, new = record["old"] or {}, record["new"] or {}
    not_sent = record["not_sent"]
    if record["op"] in ("insert", "snapshot"):
        yield _DownloadedRow("insert", new, record, not_sent=not_sent)
    elif record["op"] == "delete":
        yield _DownloadedRow("delete", old, record, not_sent=not_sent)
    else:
        looked_up = derived is not None and not whole_old
        # If the key changed, only this row says that the old key is gone.
        if whole_old or looked_up or any(new.get(n, value) != value for n, value in old.items()):
            before = {**derived, **old} if looked_up else old
            missing = [name for name in (*new, *not_sent) if name not in before]
            yield _DownloadedRow(
                "update_preimage", before, record, derived=looked_up, not_sent=missing
            )
        yield _DownloadedRow("update_postimage", new, record, not_sent=not_sent)


def _table_batch(
    lines: list[Any], columns: Sequence[SliceColumn], schema: pa.Schema
) -> pa.RecordBatch:
    rows = [row for line in lines for row in _rows_of(line)]
    raws: list[dict[str, str]] = [{} for _ in rows]
    arrays = []
    for column in columns:
        converted = convert([row.values.get(column.source_name) for row in rows], column.arrow)
        arrays.append(converted.array)
        for index, text in converted.raw.items():
            raws[index][column.source_name] = text
    metadata: dict[str, list[Any]] = {
        "_change_type": [row.change_type for row in rows],
        "_commit_version": [lsn_from_text(row.record["commit_lsn"]) for row in rows],
        "_commit_timestamp": [row.record["commit_time"] for row in rows],
        "_relation_version": [row.record["version"] for row in rows],
        "_derived": [row.derived for row in rows],
        "_not_sent": [list(row.not_sent) for row in rows],
        "_pg_raw": [list(raw.items()) for raw in raws],
    }
    names = ("lsn", "xid", "commit_seq", "seq", "actor")
    metadata |= {f"_{name}": [row.record[name] for row in rows] for name in names}
    arrays += [_array(metadata[item.name], item) for item in list(schema)[len(columns) :]]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain_batch(lines: list[JsonRecord], schema: pa.Schema) -> pa.RecordBatch:
    """Return transactions or events as a batch, their fields by name."""
    arrays = []
    for item in schema:
        values = [line.get(item.name) for line in lines]
        if item.name == "_commit_version":
            values = [lsn_from_text(line["commit_lsn"]) for line in lines]
        elif item.name == "context":
            values = [None if value is None else orjson.dumps(value).decode() for value in values]
        arrays.append(_array(values, item))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: list[Any], item: pa.Field) -> pa.Array:
    if pa.types.is_timestamp(item.type):
        return pa.array(values, pa.string()).cast(item.type)
    return pa.array(values, item.type)

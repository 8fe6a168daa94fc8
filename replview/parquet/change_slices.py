"""A slice of changes as typed Parquet files, written with pyarrow: small slices need no Spark.

One file a table, one of the slice's transactions and one of its events (TRUNCATE, logical
messages). A row is a change; beside the table's own columns stand

=====================  =====================================================================
``_change_type``       insert (also a baseline's row), update_preimage, update_postimage, delete
``_commit_version``    the commit LSN as a number
``_commit_timestamp``  by the source's clock
``_lsn``               the change's LSN, as text
``_xid, _seq, _actor`` of its transaction, and its place in it
``_relation_version``  the shape of the table it was made under
``_derived``           an update_preimage that was worked out from the record, not sent; where an
                       update moved a row and nothing more is known, it holds the old key alone
``_not_sent``          columns of which the server sent no value (null in their columns)
``_pg_raw``            the server's text of values that their column's type cannot hold
=====================  =====================================================================

Where the table changed within the slice, columns are those of its newest shape and then those it
had before, each of a type that holds all its values. Records come in the order of history; they
wait on disk, since the types are known only at the end, and memory holds a batch.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from decoder.scalars import LSN
from replview.parquet.pg_values import convert
from replview.parquet.slice_schemas import (
    EVENTS,
    TRANSACTIONS,
    Column,
    slice_columns,
    table_schema,
)

#: Rows in memory as Python objects.
_BATCH = 4096
#: Rows and bytes of a row group: an LSN range leaves whole groups out.
_GROUP_ROWS = 131_072
_GROUP_BYTES = 128 * 1024 * 1024

Record = Mapping[str, Any]


@dataclass(slots=True)
class _Table:
    """What is known of one table's part of the slice."""

    #: As last seen in the slice.
    schema: str
    table: str
    spool: IO[bytes]
    #: Version → its columns, in the order first seen.
    versions: dict[int, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    newest: int = 0
    rows: int = 0


class SliceWriter:
    """Takes the records of a slice, then writes its files into a folder."""

    def __init__(self, folder: Path) -> None:
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
        """One change as JSON (``store.read.changes.as_json``), with its table's columns.

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

    def finish(self) -> list[Path]:
        """Write the files; returns the tables', then those of transactions and events."""
        made: list[Path] = []
        for oid, table in self._tables.items():
            name = f"{_encoded(table.schema)}.{_encoded(table.table)}"
            path = self._folder / f"{name}.parquet"
            if path in made:
                # Dropped and made anew within the slice.
                path = self._folder / f"{name}-{oid}.parquet"
            self._write_table(table, path)
            made.append(path)
        for name, schema, spool in (
            ("_transactions", TRANSACTIONS, self._transaction_spool),
            ("_events", EVENTS, self._event_spool),
        ):
            path = self._folder / f"{name}.parquet"
            _write(path, schema, (_plain(lines, schema) for lines in _batches(spool)))
            made.append(path)
        return made

    @property
    def tables(self) -> int:
        """How many tables have changes in the slice."""
        return len(self._tables)

    def close(self) -> None:
        """Forget what waits on disk."""
        for table in self._tables.values():
            table.spool.close()
        self._event_spool.close()
        self._transaction_spool.close()

    def _spool(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self._folder)

    def _write_table(self, table: _Table, path: Path) -> None:
        columns = slice_columns([table.versions[n] for n in sorted(table.versions, reverse=True)])
        schema = table_schema(columns, f"{table.schema}.{table.table}", sorted(table.versions))
        batches = (_table_batch(lines, columns, schema) for lines in _batches(table.spool))
        _write(path, schema, batches)


def _encoded(name: str) -> str:
    """A name as a part of a file's: nothing that a file system or Spark reads otherwise."""
    return quote(name, safe="").replace(".", "%2E")


def _spool_line(spool: IO[bytes], value: Any) -> None:
    spool.write(orjson.dumps(value) + b"\n")


def _batches(spool: IO[bytes]) -> Iterator[list[Any]]:
    spool.seek(0)
    while lines := list(islice(spool, _BATCH)):
        yield [orjson.loads(line) for line in lines]


def _write(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Row groups of even size, whatever the batches' is."""
    with pq.ParquetWriter(path, schema, compression="zstd", version="2.6") as writer:
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting, schema), row_group_size=rows)
                waiting, rows, size = [], 0, 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting, schema), row_group_size=rows)


@dataclass(slots=True)
class _Row:
    """One row of a table's file."""

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
        if whole_old:
            missing = [name for name in (*new, *not_sent) if name not in old]
            yield _Row("update_preimage", old, record, not_sent=missing)
        elif derived is not None:
            before = {**derived, **old}
            missing = [name for name in (*new, *not_sent) if name not in before]
            yield _Row("update_preimage", before, record, derived=True, not_sent=missing)
        elif any(new.get(name, value) != value for name, value in old.items()):
            # Moved to another key: nothing else tells that the old one is gone.
            missing = [name for name in (*new, *not_sent) if name not in old]
            yield _Row("update_preimage", old, record, not_sent=missing)
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
    records = [row.record for row in rows]
    own: dict[str, list[Any]] = {
        "_change_type": [row.change_type for row in rows],
        "_commit_version": [_number(record["commit_lsn"]) for record in records],
        "_lsn": [record["lsn"] for record in records],
        "_xid": [record["xid"] for record in records],
        "_seq": [record["seq"] for record in records],
        "_actor": [record["actor"] for record in records],
        "_relation_version": [record["version"] for record in records],
        "_derived": [row.derived for row in rows],
        "_not_sent": [list(row.not_sent) for row in rows],
        "_pg_raw": [list(raw.items()) for raw in raws],
    }
    times = pa.array([record["commit_time"] for record in records], pa.string())
    for item in list(schema)[len(columns) :]:
        if item.name == "_commit_timestamp":
            arrays.append(times.cast(item.type))
        else:
            arrays.append(pa.array(own[item.name], item.type))
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
        if pa.types.is_timestamp(item.type):
            arrays.append(pa.array(values, pa.string()).cast(item.type))
        else:
            arrays.append(pa.array(values, item.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _number(lsn: str | None) -> int | None:
    return None if lsn is None else int(LSN.parse(lsn))

"""Write one Parquet file of a slice, in bounded memory, always with the same bytes.

The bytes depend on the slice alone. The footer names the slice, the kind of its rows and the range,
which distinguishes a file of this slice from any other of its name.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replview.parquet.reading import read_events, read_transactions, read_typed
from replview.parquet.reading.connecting import StoreConnection, StoreProblem
from replview.parquet.slice_schemas import EVENTS, TRANSACTIONS
from replview.parquet.slices import Slice, SliceRange, SliceTable
from replview.parquet.writing.layout import slice_name
from replview.parquet.writing.problems import Cancelled
from replview.parquet.writing.reading_ahead import read_ahead
from replview.parquet.writing.row_groups import row_groups, write_file
from replview.parquet.writing.targets import Target

#: The footer's key for the file's slice, kind and range; Spark's files do not name the range.
PART_KEY = b"replview.part"
#: The footer's key for the columns of Spark's frame: their metadata has what ``table_schema`` and
#: ``PartWriter.schema`` put into a footer of their own (``spark.planned_files``).
_SPARK_KEY = b"org.apache.spark.sql.parquet.row.metadata"
#: The footer's key for the erasures that rewrote the file.
ERASED_KEY = b"replview.erased"
_PREIMAGE = "update_preimage"
_FIXED = {"transactions": TRANSACTIONS, "events": EVENTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """One file of a slice: its range and its place below the root."""

    kind: Literal["table", "transactions", "events"]
    #: The dataset's folder and the file's path, both relative to the root.
    dataset: str
    path: str
    within: SliceRange
    #: A table's key in ``planning.ExportPlan.tables``: its relation, or that of a further stretch.
    relation_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A finished file."""

    path: str
    dataset: str
    rows: int
    #: Rows without those before updates.
    changes: int
    bytes: int
    sha256: str
    #: Rows that are not whole in the record, where whole rows were requested.
    unknown: int = 0
    #: Numbers that the requested scale cannot hold; they are in ``_pg_raw`` alone.
    unfit: int = 0


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes the files of a slice, and recognizes the files that an earlier run wrote."""

    part_of: Slice
    tables: Mapping[int, SliceTable]
    target: Target

    def write(
        self,
        connection: StoreConnection,
        part: FilePart,
        *,
        wrote: Callable[[int], None] = lambda changes: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> WrittenFile:
        """Read and write one file; ``wrote`` is called with the number of changes added to it.

        Raises ``TargetProblem``, ``StoreProblem``, ``Cancelled``; then there is no file.
        """
        if cancelled():
            raise Cancelled
        rows = rows_of(connection, self.part_of, part, self.tables)
        with read_ahead(rows) as batches:
            return self.write_rows(part, batches, wrote=wrote, cancelled=cancelled)

    def write_rows(
        self,
        part: FilePart,
        batches: Iterator[pa.RecordBatch],
        *,
        wrote: Callable[[int], None] = lambda changes: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> WrittenFile:
        """Write one file from its rows, wherever they were read."""
        rows = changes = unknown = unfit = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows, changes, unknown, unfit
            for batch in batches:
                if cancelled():
                    raise Cancelled
                more = _changes(batch) if part.kind == "table" else batch.num_rows
                rows += batch.num_rows
                changes += more
                unknown += self._unknown(part, batch)
                unfit += self._unfit(part, batch)
                wrote(more)
                yield batch
            check_rows(changes, part)

        schema = self.schema(part)
        sink = write_file(self.target, part.path, schema, row_groups(counted(), schema))
        return WrittenFile(path=part.path, dataset=part.dataset, rows=rows, changes=changes,
                           bytes=sink.bytes, sha256=sink.sha256, unknown=unknown,
                           unfit=unfit)  # fmt: skip

    def schema(self, part: FilePart) -> pa.Schema:
        """Return the schema of this file, with the slice and the range that it belongs to."""
        schema = schema_of(part, self.tables)
        ends = {"after": part.within.after, "through": part.within.through}
        whose = {"slice": slice_name(self.part_of), "kind": part.kind, **ends}
        return schema.with_metadata({**(schema.metadata or {}), PART_KEY: orjson.dumps(whose)})

    def finished(self, part: FilePart) -> WrittenFile | None:
        """Return the file as an earlier run left it; None where it is missing or not whole."""
        if self.target.size(part.path) is None or not self.is_ours(part):
            return None
        try:
            return self.measured(part, part.path)
        except (pa.ArrowException, StoreProblem):
            return None

    def measured(self, part: FilePart, path: str) -> WrittenFile:
        """Count and hash a file that is there at ``path``, by reading it.

        Raises ``StoreProblem`` where it lacks rows, and ``pa.ArrowException`` where it is broken.
        """
        changes = unknown = unfit = 0
        with self.target.open(path) as file:
            parquet = pq.ParquetFile(file)
            rows = parquet.metadata.num_rows
            if part.kind == "table":
                counted = ["_change_type", "_not_sent", "_pg_raw"]
                for batch in parquet.iter_batches(columns=counted):
                    changes += _changes(batch)
                    unknown += self._unknown(part, batch)
                    unfit += self._unfit(part, batch)
            else:
                changes = rows
            check_rows(changes, part)
            sha256, size = sha256_of(file)
        return WrittenFile(path=part.path, dataset=part.dataset, rows=rows, changes=changes,
                           bytes=size, sha256=sha256, unknown=unknown, unfit=unfit)  # fmt: skip

    def is_ours(self, part: FilePart) -> bool | None:
        """Return whether the existing file was written for this slice; None: it is broken."""
        with self.target.open(part.path) as file:
            try:
                told = footer_value(pq.ParquetFile(file).schema_arrow, PART_KEY)
            except pa.ArrowException:
                return None
        wanted = orjson.loads(self.schema(part).metadata[PART_KEY])
        return told is not None and orjson.loads(told).items() <= wanted.items()

    def _unknown(self, part: FilePart, batch: pa.RecordBatch) -> int:
        if part.kind != "table" or self.part_of.before != "full":
            return 0
        return pc.sum(pc.greater(pc.list_value_length(batch["_not_sent"]), 0)).as_py() or 0

    def _unfit(self, part: FilePart, batch: pa.RecordBatch) -> int:
        scale = self.part_of.numeric_scale
        if part.kind != "table" or scale is None:
            return 0
        raw = batch["_pg_raw"]
        first, last = raw.offsets[0].as_py(), raw.offsets[-1].as_py()
        names, texts = (each.slice(first, last - first) for each in (raw.keys, raw.items))
        assert part.relation_id is not None
        columns = self.tables[part.relation_id].columns
        chosen = [each.source_name for each in columns if each.scaled]
        of_them = pc.is_in(names, value_set=pa.array(chosen, pa.string()))
        return pc.sum(pc.and_not(of_them, pc.starts_with(texts, '{"$'))).as_py() or 0


def schema_of(part: FilePart, tables: Mapping[int, SliceTable]) -> pa.Schema:
    """Return the schema of one file's rows."""
    if part.relation_id is None:
        return _FIXED[part.kind]
    return tables[part.relation_id].arrow_schema()


def rows_of(
    connection: StoreConnection, part_of: Slice, part: FilePart, tables: Mapping[int, SliceTable]
) -> Iterator[pa.RecordBatch]:
    """Read the rows of one file from the store. Raises ``StoreProblem``."""
    if part.kind == "transactions":
        return read_transactions(connection, part_of, part.within)
    if part.relation_id is None:
        return read_events(connection, part_of, part.within)
    return read_typed(connection, part_of, tables[part.relation_id], part.within)


def _changes(batch: pa.RecordBatch) -> int:
    """Return the number of rows that are changes, without rows before updates."""
    kinds = batch.column(batch.schema.get_field_index("_change_type"))
    before = pc.sum(pc.equal(kinds, _PREIMAGE)).as_py() or 0
    return int(batch.num_rows - before)


def check_rows(changes: int, part: FilePart) -> None:
    """Raise ``StoreProblem`` where rows are missing, as when the store's retention deletes them."""
    if changes != part.within.rows:
        raise StoreProblem(
            f"the store gave {changes:,} rows where it counted {part.within.rows:,}",
            "look whether its retention deletes this time range, then export again",
        )


def owner_of(target: Target, path: str) -> str | None:
    """Return the name of the slice that a file was written for; None: none, or a broken file."""
    with target.open(path) as file:
        try:
            told = footer_value(pq.ParquetFile(file).schema_arrow, PART_KEY)
        except pa.ArrowException:
            return None
    return None if told is None else str(orjson.loads(told)["slice"])


def footer_value(schema: pa.Schema, key: bytes) -> bytes | None:
    """Return what a file's footer says under a key, whichever writer wrote it; None: nothing."""
    metadata = schema.metadata or {}
    if key in metadata or _SPARK_KEY not in metadata:
        return cast(bytes | None, metadata.get(key))
    columns = orjson.loads(metadata[_SPARK_KEY])["fields"]
    value = columns[0]["metadata"].get(key.decode()) if columns else None
    return None if value is None else str(value).encode()


def sha256_of(file: pa.NativeFile) -> tuple[str, int]:
    """Return a file's checksum, in hexadecimal, and its bytes."""
    file.seek(0)
    digest, size = hashlib.sha256(), 0
    while data := file.read(1 << 20):
        digest.update(data)
        size += len(data)
    return digest.hexdigest(), size

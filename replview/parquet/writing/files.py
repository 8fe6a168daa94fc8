"""Write one Parquet file of a slice, in bounded memory, always with the same bytes.

The bytes depend on the slice alone. The footer names the slice and the range, which distinguishes
a file of this slice from any other of its name.

Row groups end after so many rows, or sooner where rows are wide, so that a reader of a range of
LSNs can skip whole groups. The boundaries of the batches that are read do not show in the file.
"""

import hashlib
import queue
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Generic, Literal, TypeVar, cast

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replview.parquet.reading import read_events, read_transactions, read_typed
from replview.parquet.reading.connecting import StoreConnection, StoreProblem
from replview.parquet.slice_schemas import EVENTS, TRANSACTIONS
from replview.parquet.slices import Slice, SliceRange, SliceTable
from replview.parquet.writing.filesystems import Sink
from replview.parquet.writing.layout import slice_name
from replview.parquet.writing.problems import Cancelled
from replview.parquet.writing.targets import Target
from replview.runtime.failpoints import Point, failpoint

GROUP_ROWS = 131_072
GROUP_BYTES = 64 * 1024 * 1024
#: Batches that may wait in the queue.
_DEPTH = 2
_END = object()

Item = TypeVar("Item")


def write_file(target: Target, path: str, schema: pa.Schema, groups: Iterable[pa.Table]) -> Sink:
    """Write one file; the sink knows its bytes and checksum.

    Raises ``TargetProblem`` and whatever ``groups`` raises; then there is no file.
    """
    # A dictionary pays for texts, which repeat. Numbers and times mostly ascend, and are smaller
    # and faster to write without one.
    texts = [each.name for each in schema if pa.types.is_string(each.type) and each.name != "_lsn"]
    with target.create(path) as sink:
        writer = pq.ParquetWriter(sink, schema, compression="zstd", version="2.6",
                                  data_page_version="1.0", use_dictionary=texts)  # fmt: skip
        try:
            for group in groups:
                writer.write_table(group, row_group_size=max(group.num_rows, 1))
                failpoint(Point.IN_EXPORT_FILE)
        except BaseException:
            sink.abandon()
            raise
        finally:
            # An abandoned sink swallows the footer.
            writer.close()
    return sink


def row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the batches as row groups, each in one piece."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        sizes, begin, before = _sizes(batch), 0, 0
        while begin < batch.num_rows:
            full = bisect_left(
                range(batch.num_rows), GROUP_BYTES - size + before, key=lambda n: sizes[n].as_py()
            )
            end = min(begin + GROUP_ROWS - rows, full + 1, batch.num_rows)
            waiting.append(batch.slice(begin, end - begin))
            rows, size = rows + end - begin, size + sizes[end - 1].as_py() - before
            begin, before = end, sizes[end - 1].as_py()
            if rows >= GROUP_ROWS or size >= GROUP_BYTES:
                yield pa.Table.from_batches(waiting, schema).combine_chunks()
                waiting, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting, schema).combine_chunks()


def _sizes(batch: pa.RecordBatch) -> pa.Array:
    """Return the running total of the values' bytes up to each row.

    Other bytes of a batch are not counted, since they depend on how it was made.
    """
    return pc.cumulative_sum(_added(batch.columns, batch.num_rows))


def _added(columns: Iterable[pa.Array], rows: int) -> pa.Array:
    return reduce(pc.add, map(_bytes, columns), pa.repeat(pa.scalar(0, pa.int64()), rows))


def _bytes(column: pa.Array) -> pa.Array | pa.Scalar:
    """Return the bytes of each value; for a list or map, the bytes of its elements."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pc.add(pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()), 4)
    if not (pa.types.is_list(kind) or pa.types.is_map(kind)):
        return pa.scalar(-(-kind.bit_width // 8), pa.int64())
    inner = [column.keys, column.items] if pa.types.is_map(kind) else [column.values]
    if not len(inner[0]):
        return pa.scalar(4, pa.int64())
    sums = pc.cumulative_sum(_added(inner, len(inner[0])))
    ends = pa.concat_arrays([pa.array([0], pa.int64()), sums]).take(column.offsets)
    return pc.add(pc.subtract(ends[1:], ends[:-1]), 4)


class _Queue(Generic[Item]):
    """A queue of items from one thread to another, until the receiving thread stops."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[object] = queue.Queue(_DEPTH)
        self.stopped = threading.Event()

    def put(self, item: object) -> None:
        """Wait for room, and add the item; give up once the queue is stopped."""
        while not self.stopped.is_set():
            try:
                self._waiting.put(item, timeout=0.2)
            except queue.Full:
                continue
            return

    def items(self) -> Iterator[Item]:
        """Yield the items in their order, to the end."""
        while (item := self._waiting.get()) is not _END:
            yield cast(Item, item)


@contextmanager
def read_ahead(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """Yield the items, read by a separate thread, which ends (and closes them) with the context."""
    waiting: _Queue[Item] = _Queue()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            for item in items:
                waiting.put(item)
                if waiting.stopped.is_set():
                    break
        except BaseException as error:
            failed.append(error)
        try:
            # A generator that is left early ends its COPY.
            getattr(items, "close", lambda: None)()
        except BaseException as error:
            failed.append(error)
        waiting.put(_END)

    def give() -> Iterator[Item]:
        yield from waiting.items()
        if failed:
            raise failed[0]

    thread = threading.Thread(target=read, name="replview-read-ahead", daemon=True)
    thread.start()
    try:
        yield give()
    finally:
        waiting.stopped.set()
        thread.join()


#: The footer's key for the file's slice and range; Spark's files name the slice alone.
PART_KEY = b"replview.part"
#: The footer's key for the columns of Spark's frame: their metadata has what ``table_schema`` and
#: ``PartWriter.schema`` put into a footer of their own (``spark.planned_files``).
_SPARK_KEY = b"org.apache.spark.sql.parquet.row.metadata"
#: The footer's key for the erasures that rewrote the file.
ERASED_KEY = b"replview.erased"
_PREIMAGE = "update_preimage"


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
        whose = {"slice": slice_name(self.part_of), **ends}
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


_FIXED = {"transactions": TRANSACTIONS, "events": EVENTS}


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

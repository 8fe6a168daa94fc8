"""One Parquet file of a slice: read from the store, written in bounded memory, always the same.

Its bytes depend on the slice alone. Row groups end after so many rows, or sooner where rows are
wide, so that an LSN range leaves whole groups out; the footer names the slice and the range, which
tells a file of ours from any other of its name.
"""

import hashlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, TypeVar, cast

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replview.parquet.reading import read_events, read_transactions, read_typed
from replview.parquet.reading.connecting import Connection, StoreProblem
from replview.parquet.slice_schemas import EVENTS, TRANSACTIONS
from replview.parquet.slices import Range, Slice, SliceTable
from replview.parquet.writing.layout import slice_name
from replview.parquet.writing.problems import Cancelled
from replview.parquet.writing.targets import Target

_GROUP_ROWS = 131_072
_GROUP_BYTES = 64 * 1024 * 1024
#: The footer's key for whose file it is.
_PART_KEY = b"replview.part"
_PREIMAGE = "update_preimage"
_LSNS = {"_lsn", "lsn", "first_lsn", "commit_lsn", "end_lsn"}
Item = TypeVar("Item")
#: Batches that may wait.
_DEPTH = 2
_END = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file that a slice asks for."""

    kind: Literal["table", "transactions", "events"]
    #: Its dataset's folder and its own path, both seen from the root.
    dataset: str
    path: str
    within: Range
    #: Of a table's.
    relation_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file that is there."""

    path: str
    dataset: str
    rows: int
    #: Without the rows before updates.
    changes: int
    bytes: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """The file that ``to_json`` told of."""
        return cls(**told)


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes parts of one slice."""

    part_of: Slice
    tables: Mapping[int, SliceTable]
    target: Target

    def write(
        self,
        connection: Connection,
        part: Part,
        *,
        wrote: Callable[[int], None] = lambda changes: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Written:
        """Write one file; ``wrote`` is told how many more changes are in it.

        Raises ``TargetProblem``, ``StoreProblem``, ``Cancelled``; then there is no file.
        """
        if cancelled():
            raise Cancelled
        rows = changes = 0
        with (
            self.target.create(part.path) as sink,
            read_ahead(self._batches(connection, part)) as batches,
        ):
            schema = self.schema(part)
            writer = pq.ParquetWriter(
                sink, schema, compression="zstd", version="2.6", data_page_version="1.0",
                use_dictionary=_repeated(schema),
            )  # fmt: skip
            try:
                for group, counted in self._groups(batches, part, wrote, cancelled):
                    rows += group.num_rows
                    changes += counted
                    writer.write_table(group, row_group_size=group.num_rows)
                _check(changes, part)
            except BaseException:
                sink.abandon()
                raise
            finally:
                # An abandoned sink swallows the footer.
                writer.close()
        return Written(
            path=part.path, dataset=part.dataset, rows=rows, changes=changes,
            bytes=sink.bytes, sha256=sink.sha256,
        )  # fmt: skip

    def schema(self, part: Part) -> pa.Schema:
        """Of this file, with whose it is."""
        schema = self._table(part).arrow_schema() if part.kind == "table" else _FIXED[part.kind]
        whose = {
            "slice": slice_name(self.part_of),
            "after": part.within.after,
            "through": part.within.through,
        }
        return schema.with_metadata({**(schema.metadata or {}), _PART_KEY: orjson.dumps(whose)})

    def finished(self, part: Part) -> Written | None:
        """The file as an earlier run left it; None where it is not there, or not wholly ours."""
        if self.target.size(part.path) is None:
            return None
        with self.target.open(part.path) as file:
            try:
                parquet = pq.ParquetFile(file)
                if not self._is_ours(parquet, part):
                    return None
                changes = rows = parquet.metadata.num_rows
                if part.kind == "table":
                    groups = parquet.iter_batches(columns=["_change_type"])
                    changes = sum(_changes(batch) for batch in groups)
            except pa.ArrowException:
                return None
            if changes != part.within.rows:
                return None
            digest = sha256_of(file)
        return Written(
            path=part.path, dataset=part.dataset, rows=rows, changes=changes,
            bytes=digest[1], sha256=digest[0],
        )  # fmt: skip

    def is_ours(self, part: Part) -> bool | None:
        """Whether the file that is there was written for this slice; None: it is broken."""
        with self.target.open(part.path) as file:
            try:
                return self._is_ours(pq.ParquetFile(file), part)
            except pa.ArrowException:
                return None

    def _is_ours(self, parquet: pq.ParquetFile, part: Part) -> bool:
        found = (parquet.schema_arrow.metadata or {}).get(_PART_KEY)
        return bool(found == self.schema(part).metadata[_PART_KEY])

    def _table(self, part: Part) -> SliceTable:
        assert part.relation_id is not None
        return self.tables[part.relation_id]

    def _batches(self, connection: Connection, part: Part) -> Iterator[pa.RecordBatch]:
        if part.kind == "transactions":
            return read_transactions(connection, self.part_of, part.within)
        if part.kind == "events":
            return read_events(connection, self.part_of, part.within)
        return read_typed(connection, self.part_of, self._table(part), part.within)

    def _groups(
        self,
        batches: Iterator[pa.RecordBatch],
        part: Part,
        wrote: Callable[[int], None],
        cancelled: Callable[[], bool],
    ) -> Iterator[tuple[pa.Table, int]]:
        """Row groups, each in one piece: where batches end must not show in the file."""
        schema = self.schema(part)
        waiting: list[pa.RecordBatch] = []
        rows = size = counted = 0
        for batch in batches:
            if cancelled():
                raise Cancelled
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            changes = _changes(batch) if part.kind == "table" else batch.num_rows
            counted += changes
            wrote(changes)
            while rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
                table = pa.Table.from_batches(waiting, schema)
                yield table.slice(0, _GROUP_ROWS).combine_chunks(), counted
                rest = table.slice(_GROUP_ROWS)
                waiting, rows, size, counted = rest.to_batches(), rest.num_rows, rest.nbytes, 0
        if rows:
            yield pa.Table.from_batches(waiting, schema).combine_chunks(), counted


_FIXED = {"transactions": TRANSACTIONS, "events": EVENTS}


def _repeated(schema: pa.Schema) -> list[str]:
    """Columns that are worth a dictionary: texts, which repeat. Numbers and times mostly ascend,
    and are smaller, and sooner written, without.
    """
    return [each.name for each in schema if pa.types.is_string(each.type) and each.name != "_lsn"]


def _changes(batch: pa.RecordBatch) -> int:
    """Rows that are changes, not what was before one."""
    kinds = batch.column(batch.schema.get_field_index("_change_type"))
    before = pc.sum(pc.equal(kinds, _PREIMAGE)).as_py() or 0
    return int(batch.num_rows - before)


def _check(changes: int, part: Part) -> None:
    """Nothing may be lost on the way, as where the store's retention deletes what is read."""
    if changes != part.within.rows:
        raise StoreProblem(
            f"the store gave {changes:,} rows where it counted {part.within.rows:,}",
            "look whether its retention deletes this time range, then export again",
        )


def sha256_of(file: pa.NativeFile) -> tuple[str, int]:
    """A file's checksum, in hexadecimal, and its bytes."""
    file.seek(0)
    digest, size = hashlib.sha256(), 0
    while data := file.read(1 << 20):
        digest.update(data)
        size += len(data)
    return digest.hexdigest(), size


@contextmanager
def read_ahead(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """The items, read by a thread of its own, which ends (and closes them) with the context."""
    waiting: queue.Queue[object] = queue.Queue(_DEPTH)
    failed: list[BaseException] = []
    stopped = threading.Event()

    def read() -> None:
        try:
            for item in items:
                while not stopped.is_set():
                    try:
                        waiting.put(item, timeout=0.2)
                        break
                    except queue.Full:
                        continue
                if stopped.is_set():
                    break
        except BaseException as error:
            failed.append(error)
        finally:
            _close(items, failed)
            while not stopped.is_set():
                try:
                    waiting.put(_END, timeout=0.2)
                    break
                except queue.Full:
                    continue

    def give() -> Iterator[Item]:
        while (item := waiting.get()) is not _END:
            yield cast(Item, item)
        if failed:
            raise failed[0]

    thread = threading.Thread(target=read, name="replview-read-ahead", daemon=True)
    thread.start()
    try:
        yield give()
    finally:
        stopped.set()
        thread.join()


def _close(items: Iterator[object], failed: list[BaseException]) -> None:
    """A generator that is left early ends its COPY."""
    close = getattr(items, "close", None)
    if close is not None:
        try:
            close()
        except BaseException as error:
            failed.append(error)

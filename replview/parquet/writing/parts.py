"""One Parquet file of a slice: read from the store, written in bounded memory, always the same.

Its bytes depend on the slice alone. The footer names the slice and the range, which tells a file of
ours from any other of its name.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replview.parquet.reading import read_events, read_transactions, read_typed
from replview.parquet.reading.connecting import Connection, StoreProblem
from replview.parquet.slice_schemas import EVENTS, TRANSACTIONS
from replview.parquet.slices import Range, Slice, SliceTable
from replview.parquet.writing.files import read_ahead, row_groups, write_file
from replview.parquet.writing.layout import slice_name
from replview.parquet.writing.problems import Cancelled
from replview.parquet.writing.targets import Target

#: The footer's key for whose file it is.
_PART_KEY = b"replview.part"
_PREIMAGE = "update_preimage"


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
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The file that ``to_json`` told of."""
        return cls(**document)


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

        def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            nonlocal rows, changes
            for batch in batches:
                if cancelled():
                    raise Cancelled
                more = _changes(batch) if part.kind == "table" else batch.num_rows
                rows += batch.num_rows
                changes += more
                wrote(more)
                yield batch
            _check(changes, part)

        schema = self.schema(part)
        with read_ahead(self._batches(connection, part)) as batches:
            groups = row_groups(counted(batches), schema)
            sink = write_file(self.target, part.path, schema, groups)
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


_FIXED = {"transactions": TRANSACTIONS, "events": EVENTS}


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

"""Read and write the files of an export in Spark's executors."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Self

import orjson
import psycopg
import pyarrow as pa

from replview.parquet.reading import connect
from replview.parquet.reading.connecting import StoreProblem
from replview.parquet.slices import Slice, SliceRange, SliceTable
from replview.parquet.writing.exporting import lost_store
from replview.parquet.writing.files import FilePart, PartWriter, WrittenFile, rows_of, schema_of
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target

_PROBLEM_TEXT = re.compile(r"replview tells (\[.*\])")


@dataclass(frozen=True, slots=True)
class PlannedFiles:
    """The planned files of one dataset.

    In Spark the rows begin with the file's number. Columns have generated names, because Spark
    reads the dot in ``a.b`` as a field.
    """

    part_of: Slice
    table: SliceTable | None
    parts: tuple[FilePart, ...]

    def to_json(self) -> str:
        """Return the plan as JSON."""
        parts = [
            {"kind": e.kind, "dataset": e.dataset, "path": e.path, "relation_id": e.relation_id,
             "within": e.within.to_json()}
            for e in self.parts
        ]  # fmt: skip
        table = None if self.table is None else self.table.to_json()
        return orjson.dumps([self.part_of.to_json(), table, parts]).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a plan from JSON."""
        part_of, table, parts = orjson.loads(text)
        found = (
            FilePart(**{**each, "within": SliceRange.from_json(each["within"])}) for each in parts
        )
        return cls(Slice.from_json(part_of), table and SliceTable.from_json(table), tuple(found))

    @property
    def _tables(self) -> Mapping[int, SliceTable]:
        relation = self.parts[0].relation_id
        return {} if self.table is None or relation is None else {relation: self.table}

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows as Spark has them."""
        types = schema_of(self.parts[0], self._tables).types
        fields = [pa.field(f"c{n}", kind) for n, kind in enumerate(types)]
        return pa.schema([pa.field("file", pa.int32()), *fields])

    def read(self, dsn: str, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, in order."""
        schema = self.schema
        with raise_for_driver(), connect(dsn) as connection:
            for batch in rows_of(connection, self.part_of, self.parts[number], self._tables):
                numbers = pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)
                yield pa.RecordBatch.from_arrays([numbers, *batch.columns], schema=schema)

    def write(self, url: str, batches: Iterator[pa.RecordBatch]) -> Iterator[WrittenFile]:
        """Write the file that these rows belong to, over an existing one."""
        first = next(batches, None)
        if first is None:
            return
        part = self.parts[first.column(0)[0].as_py()]
        writer = PartWriter(self.part_of, self._tables, Target.of(url))
        schema = writer.schema(part)

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in chain([first], batches):
                yield in_schema(batch.columns[1:], schema)

        with raise_for_driver():
            yield writer.write_rows(part, rows())


def in_schema(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns as a batch in a schema that may name fields in lists otherwise."""
    arrays = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextmanager
def raise_for_driver() -> Iterator[None]:
    """Re-raise problems in a form that the driver finds in Spark's error message."""
    try:
        yield
    except (StoreProblem, TargetProblem, psycopg.Error) as error:
        # Do not pass on a server's text, which may hold values.
        known = lost_store(error) if isinstance(error, psycopg.Error) else error
        of = "store" if isinstance(known, StoreProblem) else "target"
        told = orjson.dumps([of, known.cause, known.remedy]).decode()
        raise RuntimeError(f"replview tells {told}") from None


def problem_in(text: str) -> StoreProblem | TargetProblem | None:
    """Return the problem that a task reported, from Spark's error message; None if none."""
    if (told := _PROBLEM_TEXT.search(text)) is None:
        return None
    of, cause, remedy = orjson.loads(told[1])
    return StoreProblem(cause, remedy) if of == "store" else TargetProblem(cause, remedy)

"""The planned files of one dataset of an export, as partitions that Spark reads from the store."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import orjson
import psycopg
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from replview.parquet.reading import connect
from replview.parquet.reading.connecting import StoreProblem
from replview.parquet.slice_schemas import PARTITION
from replview.parquet.slices import Slice, SliceRange, SliceTable
from replview.parquet.writing.exporting import lost_store
from replview.parquet.writing.files import PART_KEY, FilePart, rows_of, schema_of
from replview.parquet.writing.layout import slice_name
from replview.parquet.writing.problems import TargetProblem

_PROBLEM_TEXT = re.compile(r"replview tells (\[.*\])")


@dataclass(frozen=True, slots=True)
class PlannedFiles:
    """The planned files of one dataset: each is a partition of one frame."""

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
    def tables(self) -> Mapping[int, SliceTable]:
        """Return the table by the key that the files name; empty for a dataset without one."""
        relation = self.parts[0].relation_id
        return {} if self.table is None or relation is None else {relation: self.table}

    def schema(self) -> StructType:
        """Return the columns of the files, and the day that their folders are named by.

        The first column's metadata has what the footers of other writers say of the table and the
        slice: Spark keeps the metadata of columns in its files (``files.footer_value``).
        """
        columns = schema_of(self.parts[0], self.tables)
        frame = from_arrow_schema(
            columns.remove_metadata().append(pa.field(PARTITION, pa.date32())),
            prefer_timestamp_ntz=True,
        )
        whose = {"slice": slice_name(self.part_of), "kind": self.parts[0].kind}
        told = {**(columns.metadata or {}), PART_KEY: orjson.dumps(whose)}
        frame.fields[0].metadata = {key.decode(): text.decode() for key, text in told.items()}
        return frame

    def read(self, dsn: str, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file and their day, in the order of history."""
        part = self.parts[number]
        day = pa.scalar(part.within.commit_date, pa.date32())
        with raise_for_driver(), connect(dsn) as connection:
            for batch in rows_of(connection, self.part_of, part, self.tables):
                yield batch.append_column(PARTITION, pa.repeat(day, batch.num_rows))


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

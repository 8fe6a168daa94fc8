"""The engines that answer jobs: DuckDB in this process, or Spark.

A job is written once, as Spark's SQL. ``sql(text, name=rows)`` of a session returns the rows of a
query, in which ``{name}`` is the table of other rows. ``duckdb_session`` has the same for DuckDB.
"""

import datetime as dt
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from replview.parquet.slice_schemas import DAY, PARTITION
from replview.parquet.writing.row_groups import row_groups, write_file
from replview.parquet.writing.targets import Target
from replview.spark.history.duckdb_session import DuckSession, Query
from replview.spark.quoting import spark_address
from replview.spark.sessions import SparkProblem
from replview.text.parsing import whole_number

if TYPE_CHECKING:
    import pyarrow.dataset as pads


#: Types of either engine: pyspark's, or their counterparts in ``duckdb_session``.
Session: TypeAlias = Any
DataFrame: TypeAlias = Any
Row: TypeAlias = Any
#: Function of rows, such as the replay.
ArrowFunction = Callable[[pa.Table], pa.Table]
#: Default of the most rows that DuckDB reads for one job.
MOST_FOR_DUCKDB = 10_000_000
#: Environment variable that sets this limit; 0 uses Spark for everything.
VARIABLE = "REPLVIEW_SPARK_ABOVE"


def most_for_duckdb() -> int:
    """Return the limit from the environment; 0 disables DuckDB. Raises ``SparkProblem``."""
    most = whole_number(os.environ.get(VARIABLE) or MOST_FOR_DUCKDB)
    if most is None:
        raise SparkProblem(f"{VARIABLE} is no number of rows", f"set it to {MOST_FOR_DUCKDB}")
    # A cluster's Python may lack DuckDB.
    return most if find_spec("duckdb") else 0


def by_duckdb(rows: int, most: int | None = None) -> bool:
    """Return whether DuckDB answers a job of so many rows. Raises ``SparkProblem``.

    ``most`` is the limit; None takes that of the environment.
    """
    most = most_for_duckdb() if most is None else most
    return rows <= most > 0


@contextmanager
def duckdb(folder: str, root: Target) -> Iterator[DuckSession]:
    """Open a session of DuckDB that reads files below a root.

    ``folder`` is for data that does not fit into memory.
    """
    with DuckSession.open(folder, root.address.path if root.is_local else None) as session:
        yield session


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files below a folder that is partitioned by days, all of them or some."""

    target: Target
    #: Relative to the target, as are ``paths``; without paths all files of the folder count.
    folder: str
    schema: pa.Schema
    paths: tuple[str, ...] = ()

    def frame(self, session: Session) -> DataFrame:
        """Return the rows with ``commit_date`` and the schema's columns; missing ones are null."""
        if not isinstance(session, DuckSession):
            root = spark_url(self.target)
            wanted = _spark_types(self.schema).add(PARTITION, "date")
            reader = session.read.option("basePath", f"{root}/{self.folder}")
            return reader.schema(wanted).parquet(
                *(f"{root}/{each}" for each in self.paths or (self.folder,))
            )
        files = self._files
        if not files:
            return session.empty(self.schema.append(DAY))
        full = [f"{self.target.address.path}/{each}" for each in files]
        # DuckDB would expand these characters as a pattern.
        if self.target.is_local and not any(mark in each for each in full for mark in "*?["):
            return session.parquet(full, self.schema.append(DAY))
        return session.rows(self._dataset(full))

    def rows(self, until: dt.date | None) -> int:
        """Return the number of rows up to a day, from the files' footers."""
        return sum(footer.num_rows for footer in self._footers(until))

    def size_bytes(self) -> int:
        """Return the size of all rows before compression, from the files' footers."""
        return sum(
            footer.row_group(number).total_byte_size
            for footer in self._footers(None)
            for number in range(footer.num_row_groups)
        )

    def _footers(self, until: dt.date | None) -> Iterator[pq.FileMetaData]:
        last = "9999" if until is None else until.isoformat()
        for path in self._files:
            if _day_of(path) <= last:
                yield pq.ParquetFile(self.target.open(path)).metadata

    @cached_property
    def _files(self) -> list[str]:
        if self.paths:
            return list(self.paths)
        found = (each.path for each in self.target.files(self.folder, deep=True))
        return [path for path in found if path.endswith(".parquet") and _day_of(path)]

    def _dataset(self, files: Sequence[str]) -> "pads.Dataset":
        # Import here, since it is slow.
        import pyarrow.dataset as pads

        return pads.dataset(
            files, schema=self.schema.append(DAY), format="parquet",
            partition_base_dir=f"{self.target.address.path}/{self.folder}",
            filesystem=self.target.address.filesystem,
            partitioning=pads.partitioning(pa.schema([DAY]), flavor="hive"),
        )  # fmt: skip


def _day_of(path: str) -> str:
    """Return the day of a file's folder, such as ``2026-11-20``; empty if it is in none."""
    return path.rpartition("/")[0].rpartition(f"/{PARTITION}=")[2] if PARTITION in path else ""


def made(session: Session, rows: Sequence[Sequence[Any]], schema: pa.Schema) -> DataFrame:
    """Return a frame of these rows."""
    if not isinstance(session, DuckSession):
        return session.createDataFrame(list(rows), _spark_types(schema))
    if not rows:
        return session.empty(schema)
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return session.rows(pa.Table.from_pylist(named, schema))


def by_piece(
    session: Session, frame: DataFrame, function: ArrowFunction, schema: pa.Schema
) -> DataFrame:
    """Apply a function to the rows of each ``piece``; without that column all rows are one piece.

    The function's tables have the columns of ``schema``, in any order.
    """

    # Spark infers the kind of function from these annotations.
    def apply(rows: pa.Table) -> pa.Table:
        return function(rows).select(schema.names).cast(schema)

    if isinstance(session, DuckSession):
        return session.by_piece(frame, apply)
    if "piece" not in frame.columns:
        frame = session.sql("SELECT *, 0 AS piece FROM {rows}", rows=frame)
    return frame.groupBy("piece").applyInArrow(apply, _spark_types(schema))


def by_batch(
    frame: DataFrame, function: ArrowFunction, schema: pa.Schema | None = None
) -> DataFrame:
    """Apply a function to the rows, some at a time; without a schema it leaves their types."""
    if isinstance(frame, Query):
        return frame.by_batch(function)
    names = frame.columns

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch]).rename_columns(names)
            yield from function(rows).to_batches()

    types = frame.schema if schema is None else _spark_types(schema)
    # PySpark does not quote the names of the columns that it passes.
    return frame.toDF(*(f"c{n}" for n in range(len(names)))).mapInArrow(apply, types)


def _spark_types(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def write_parquet(frame: DataFrame, target: Target) -> str:
    """Write all rows to a folder; return its address as Spark spells it."""
    address = spark_url(target)
    if not isinstance(frame, Query):
        frame.write.mode("append").parquet(address)
        return address
    rows = frame.batches()
    write_file(target, "part-00000.zstd.parquet", rows.schema, row_groups(rows, rows.schema))
    return address


def spark_url(target: Target) -> str:
    """Return a target's address as Spark spells it."""
    return spark_address(target.url)

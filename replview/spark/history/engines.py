"""The engines that answer jobs: DuckDB in this process, or Spark.

Jobs use PySpark's API; ``F`` and ``Window`` belong to the engine in use.
"""

import datetime as dt
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from replview.parquet.pg_values import pg_text
from replview.parquet.slice_schemas import DAY, PARTITION
from replview.parquet.writing.row_groups import row_groups, write_file
from replview.parquet.writing.targets import Target
from replview.spark.quoting import spark_address
from replview.spark.sessions import SparkProblem
from replview.text.parsing import whole_number

if TYPE_CHECKING:
    import pyarrow.dataset as pads

    from replview.spark.history.duckdb_frames import DuckSession


#: Types of either engine: pyspark's, or their counterparts in ``duckdb_frames``.
Session: TypeAlias = Any
DataFrame: TypeAlias = Any
Expression: TypeAlias = Any
Row: TypeAlias = Any
#: Default of the most rows that DuckDB reads for one job.
MOST_FOR_DUCKDB = 10_000_000
#: Environment variable that sets this limit; 0 uses Spark for everything.
VARIABLE = "REPLVIEW_SPARK_ABOVE"

_duckdb: ContextVar["DuckSession | None"] = ContextVar("duckdb", default=None)


class _InForce:
    """A part of ``pyspark.sql``, or within ``duckdb`` its counterpart."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        where = "pyspark.sql" if _duckdb.get() is None else f"{__package__}.duckdb_columns"
        return getattr(getattr(import_module(where), self._name), name)


F: Any = _InForce("functions")
Window: Any = _InForce("Window")


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
def duckdb(folder: str, root: Target) -> Iterator["DuckSession"]:
    """Answer jobs within the block with DuckDB, from files below a root.

    ``folder`` is for data that does not fit into memory.
    """
    from replview.spark.history.duckdb_frames import DuckSession

    readable = root.address.path if root.is_local else None
    with DuckSession.open(folder, readable) as session:
        token = _duckdb.set(session)
        try:
            yield session
        finally:
            _duckdb.reset(token)


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
        if _is_spark(session):
            from pyspark.sql.pandas.types import from_arrow_schema

            root = spark_url(self.target)
            wanted = from_arrow_schema(self.schema, prefer_timestamp_ntz=True)
            wanted = wanted.add(PARTITION, "date")
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
        return session.frame(self._dataset(full))

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
    if _is_spark(session):
        from pyspark.sql.pandas.types import from_arrow_schema

        types = from_arrow_schema(schema, prefer_timestamp_ntz=True)
        return session.createDataFrame(list(rows), types)
    if not rows:
        return session.empty(schema)
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return session.frame(pa.Table.from_pylist(named, schema))


def text_of(session: Session, kind: pa.DataType) -> Callable[[Any], Any]:
    """Return a function that converts a column of this type to the server's text."""

    # Spark infers the kind of function from these annotations.
    def texts(values: pa.Array) -> pa.Array:
        found = [pg_text(value, kind) for value in values.to_pylist()]
        return pa.array(found, pa.string())

    if not _is_spark(session):
        of_duckdb: Callable[[Any], Any] = session.function(texts, kind)
        return of_duckdb
    from pyspark.sql.pandas.functions import arrow_udf

    make: Any = arrow_udf
    of_spark: Callable[[Any], Any] = make(texts, "string")
    return of_spark


def by_piece(
    session: Session, frame: DataFrame, function: Callable[[pa.Table], pa.Table], schema: pa.Schema
) -> DataFrame:
    """Apply a function to the rows of each ``piece``; without that column all rows are one piece.

    The function's tables have the columns of ``schema``, in any order.
    """

    # Spark infers the kind of function from these annotations.
    def apply(rows: pa.Table) -> pa.Table:
        return function(rows).select(schema.names).cast(schema)

    if not _is_spark(session):
        return session.by_piece(frame, apply)
    from pyspark.sql.pandas.types import from_arrow_schema

    if "piece" not in frame.columns:
        frame = frame.withColumn("piece", F.lit(0))
    types = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return frame.groupBy("piece").applyInArrow(apply, types)


def collected(session: Session, frame: DataFrame, schema: pa.Schema) -> pa.Table:
    """Return all rows of a frame, which must be few, as an Arrow table."""
    rows = frame.toArrow() if _is_spark(session) else frame.batches().read_all()
    return rows.select(schema.names).cast(schema)


def arrow_type(session: Session, kind: pa.DataType) -> Any:
    """Return an Arrow type in the form that the engine's ``cast`` takes."""
    if not _is_spark(session):
        from replview.spark.history.duckdb_frames import type_of

        return type_of(kind)
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind)


def write_parquet(frame: DataFrame, target: Target) -> str:
    """Write all rows to a folder; return its address as Spark spells it."""
    address = spark_url(target)
    if _duckdb.get() is None:
        frame.write.mode("append").parquet(address)
        return address
    rows = frame.batches()
    write_file(target, "part-00000.zstd.parquet", rows.schema, row_groups(rows, rows.schema))
    return address


def _is_spark(session: object) -> bool:
    return session is not _duckdb.get()


def spark_url(target: Target) -> str:
    """Return a target's address as Spark spells it."""
    return spark_address(target.url)

"""What answers a question: DuckDB, in the process itself, or Spark. Each job is written once, in
PySpark's words; ``F`` and ``Window`` are those of the engine that answers.
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
from replview.parquet.slice_schemas import PARTITION
from replview.parquet.writing.files import row_groups, write_file
from replview.parquet.writing.targets import Target
from replview.spark.quoting import spark_address
from replview.spark.sessions import SparkProblem
from replview.text.parsing import whole_number

if TYPE_CHECKING:
    import pyarrow.dataset as pads

    from replview.spark.history.duckdb_frames import DuckSession

_DAY = pa.field(PARTITION, pa.date32())

#: Of either engine: pyspark's, or what stands for them in ``duckdb_frames``.
Session: TypeAlias = Any
DataFrame: TypeAlias = Any
Expression: TypeAlias = Any
Row: TypeAlias = Any
#: How many rows DuckDB reads for one question, where nothing else is set.
MOST_FOR_DUCKDB = 10_000_000
#: What sets it in the environment; 0: Spark answers everything.
VARIABLE = "REPLVIEW_SPARK_ABOVE"

_duckdb: ContextVar["DuckSession | None"] = ContextVar("duckdb", default=None)


class _InForce:
    """A part of ``pyspark.sql``; within ``duckdb`` what stands for it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        where = "pyspark.sql" if _duckdb.get() is None else f"{__package__}.duckdb_columns"
        return getattr(getattr(import_module(where), self._name), name)


F: Any = _InForce("functions")
Window: Any = _InForce("Window")


def most_for_duckdb() -> int:
    """As the environment sets it; 0: DuckDB answers nothing. Raises ``SparkProblem``."""
    most = whole_number(os.environ.get(VARIABLE) or MOST_FOR_DUCKDB)
    if most is None:
        raise SparkProblem(f"{VARIABLE} is no number of rows", f"set it to {MOST_FOR_DUCKDB}")
    # A cluster's Python may have none.
    return most if find_spec("duckdb") else 0


def by_duckdb(rows: int, most: int | None = None) -> bool:
    """Whether DuckDB answers a question that reads so many rows; ``most``: else as the environment
    sets it. Raises ``SparkProblem``.
    """
    most = most_for_duckdb() if most is None else most
    return rows <= most > 0


@contextmanager
def duckdb(folder: str, root: Target) -> Iterator["DuckSession"]:
    """Have DuckDB answer what is asked within, of files below a root; ``folder``: where it keeps
    what memory does not hold.
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
    """Parquet below a folder that is parted by days, all of it or some files."""

    target: Target
    #: Seen from the target's, as are ``paths``; none of these: all that stands there.
    folder: str
    schema: pa.Schema
    paths: tuple[str, ...] = ()

    def frame(self, session: Session) -> DataFrame:
        """Its rows with ``commit_date``, columns by the schema: one that a file lacks is null."""
        if _is_spark(session):
            from pyspark.sql.pandas.types import from_arrow_schema

            root = spark_url(self.target)
            wanted = from_arrow_schema(self.schema).add(PARTITION, "date")
            reader = session.read.option("basePath", f"{root}/{self.folder}")
            return reader.schema(wanted).parquet(
                *(f"{root}/{each}" for each in self.paths or (self.folder,))
            )
        files = self._files
        if not files:
            return session.empty(self.schema.append(_DAY))
        full = [f"{self.target.address.path}/{each}" for each in files]
        # DuckDB takes such a path for several.
        if self.target.is_local and not any(mark in each for each in full for mark in "*?["):
            return session.parquet(full, self.schema.append(_DAY))
        return session.frame(self._dataset(full))

    def rows(self, until: dt.date | None) -> int:
        """How many there are to a day; the files' ends tell."""
        last = "9999" if until is None else until.isoformat()
        days = [each for each in self._files if _day_of(each) <= last]
        return sum(pq.ParquetFile(self.target.open(each)).metadata.num_rows for each in days)

    @cached_property
    def _files(self) -> list[str]:
        if self.paths:
            return list(self.paths)
        found = (each.path for each in self.target.files(self.folder, deep=True))
        return [path for path in found if path.endswith(".parquet") and _day_of(path)]

    def _dataset(self, files: Sequence[str]) -> "pads.Dataset":
        # Late: it takes its time to import.
        import pyarrow.dataset as pads

        return pads.dataset(
            files, schema=self.schema.append(_DAY), format="parquet",
            partition_base_dir=f"{self.target.address.path}/{self.folder}",
            filesystem=self.target.address.filesystem,
            partitioning=pads.partitioning(pa.schema([_DAY]), flavor="hive"),
        )  # fmt: skip


def _day_of(path: str) -> str:
    """``2026-11-20``; empty: the file stands in no folder of a day."""
    return path.rpartition("/")[0].rpartition(f"/{PARTITION}=")[2] if PARTITION in path else ""


def made(session: Session, rows: Sequence[Sequence[Any]], schema: pa.Schema) -> DataFrame:
    """A frame of these rows."""
    if _is_spark(session):
        from pyspark.sql.pandas.types import from_arrow_schema

        return session.createDataFrame(list(rows), from_arrow_schema(schema))
    if not rows:
        return session.empty(schema)
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return session.frame(pa.Table.from_pylist(named, schema))


def text_of(session: Session, kind: pa.DataType) -> Callable[[Any], Any]:
    """A function of a column of this type: its values in the server's text."""

    # What kind of function it is, Spark works out from these types.
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


def arrow_type(session: Session, kind: pa.DataType) -> Any:
    """An Arrow type as the engine's ``cast`` takes it."""
    if not _is_spark(session):
        from replview.spark.history.duckdb_frames import type_of

        return type_of(kind)
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind)


def write_parquet(frame: DataFrame, target: Target) -> str:
    """All rows of a frame, into a folder; gives its address as Spark spells it."""
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
    """A target's address as Spark spells it."""
    return spark_address(target.url)

"""The part of PySpark's DataFrame API that history jobs use, on DuckDB.

Each job is written once, and DuckDB answers it as Spark does. A frame is a query, which runs when
its rows are read. Columns have internal names (``c0``, ``c1``), because DuckDB ignores the case of
names. Nulls come first in ascending order, as with Spark.

No library serves yet: sqlframe 4.10 merges two columns whose names differ in case only, ignores
nulls in ``max_by``, and produces SQL that DuckDB refuses for ``last`` without nulls over a window.
It has one session per process, and its ``persist`` does nothing.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa

from replview.spark.history.duckdb_columns import DuckdbColumn, col, columns_of, function, functions
from replview.spark.quoting import double, literal

#: Memory limit of a query; more is spilled to its folder on disk.
_MEMORY = "1GiB"
_MOST_THREADS = 4
_BATCH_ROWS = 65_536
_ARROW_TYPES = {
    pa.bool_(): "BOOLEAN", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR", pa.binary(): "BLOB",
    pa.date32(): "DATE",
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    """A column's name and type."""

    name: str
    #: DuckDB's name of the type.
    dataType: str


class Row(tuple[Any, ...]):
    """A row like ``pyspark.sql.Row``, with values by position and by name."""

    names: Sequence[str]

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[Any]) -> "Row":
        """Return a row of these values."""
        found = cls(values)
        found.names = names
        return found

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)


class DataFrame:
    """A query like ``pyspark.sql.DataFrame``."""

    def __init__(
        self, session: "DuckSession", source: str, columns: Sequence[str],
        order: Sequence[DuckdbColumn] = (),
    ) -> None:  # fmt: skip
        self._session = session
        #: SQL of the rows, with columns c0, c1 …
        self._source = source
        self._name = session.new_name()
        self.columns = list(columns)
        self._order = order

    def _scope(self, name: str) -> str:
        return f"{self._name}.c{self.columns.index(name)}"

    @property
    def _from(self) -> str:
        return f"{self._source} AS {self._name}"

    @property
    def _sql(self) -> str:
        order = ", ".join(column.sql(self._scope) for column in self._order)
        return f"FROM {self._from}{f' ORDER BY {order}' if order else ''}"

    def _queried(
        self, sql: str, columns: Sequence[str], order: Sequence[DuckdbColumn] = ()
    ) -> "DataFrame":
        return DataFrame(self._session, f"({sql})", columns, order)

    def select(self, *values: Any) -> "DataFrame":
        """Return a frame of these columns."""
        given = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        columns = columns_of(given)
        chosen = ", ".join(f"{each.sql(self._scope)} AS c{n}" for n, each in enumerate(columns))
        return self._queried(f"SELECT {chosen} {self._sql}", [each.name for each in columns])

    def withColumns(self, values: Mapping[str, DuckdbColumn]) -> "DataFrame":
        """Return the frame with columns added or replaced."""
        names = list(dict.fromkeys([*self.columns, *values]))
        return self.select([values.get(name, _as_it_is(name)).alias(name) for name in names])

    def withColumn(self, name: str, value: DuckdbColumn) -> "DataFrame":
        """Return the frame with a column added or replaced."""
        return self.withColumns({name: value})

    def drop(self, *names: str) -> "DataFrame":
        """Return the frame without these columns."""
        return self.select([_as_it_is(name) for name in self.columns if name not in names])

    def where(self, condition: DuckdbColumn) -> "DataFrame":
        """Return the rows that satisfy a condition."""
        sql = f"FROM {self._from} WHERE {condition.sql(self._scope)}"
        return self._queried(sql, self.columns, self._order)

    def orderBy(self, *names: object) -> "DataFrame":
        """Return the rows in this order."""
        return DataFrame(self._session, self._source, self.columns, columns_of(names))

    def limit(self, most: int) -> "DataFrame":
        """Return at most so many rows."""
        return self._queried(f"{self._sql} LIMIT {most}", self.columns, self._order)

    def distinct(self) -> "DataFrame":
        """Return each different row once."""
        return self._queried(f"SELECT DISTINCT * FROM {self._from}", self.columns)  # noqa: S608

    def groupBy(self, *names: object) -> "Grouped":
        """Return the rows in groups."""
        return Grouped(self, columns_of(names))

    def agg(self, *values: DuckdbColumn) -> "DataFrame":
        """Return aggregates over all rows."""
        return Grouped(self, []).agg(*values)

    def unionByName(self, other: "DataFrame") -> "DataFrame":
        """Return the rows of both frames, with columns matched by name."""
        mine = ", ".join(f"c{n}" for n in range(len(self.columns)))
        theirs = ", ".join(f"c{other.columns.index(name)}" for name in self.columns)
        # All SQL is generated: a name is a number, a value a quoted literal.
        sql = f"SELECT {mine} FROM {self._from} UNION ALL SELECT {theirs} FROM {other._from}"  # noqa: S608
        return self._queried(sql, self.columns)

    def join(self, other: "DataFrame", on: str | list[str], how: str = "inner") -> "DataFrame":
        """Return the join; columns named in ``on`` appear once."""
        named = [on] if isinstance(on, str) else on
        both = " AND ".join(f"{self._scope(n)} = {other._scope(n)}" for n in named)
        kept = [name for name in other.columns if name not in named]
        found = [self._scope(name) for name in self.columns] + [other._scope(n) for n in kept]
        chosen = ", ".join(f"{each} AS c{n}" for n, each in enumerate(found))
        sql = f"SELECT {chosen} FROM {self._from} {how} JOIN {other._from} ON {both}"  # noqa: S608
        return self._queried(sql, [*self.columns, *kept])

    @property
    def schema(self) -> list[Field]:
        """Return the columns with their types."""
        kinds = self._session.types(self._sql)
        return [Field(name, kind) for name, kind in zip(self.columns, kinds, strict=True)]

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """Return name and type of each column."""
        return [(field.name, field.dataType) for field in self.schema]

    def repartitionByRange(self, *_names: str) -> "DataFrame":
        """Return the frame itself, since DuckDB has no partitions."""
        return self

    def localCheckpoint(self) -> "DataFrame":
        """Return a frame with the rows as they are now, kept until the session ends."""
        return DataFrame(self._session, self._session.kept(self._sql), self.columns, self._order)

    def persist(self) -> "DataFrame":
        """Keep the rows as they are now until the session ends."""
        self._source = self._session.kept(self._sql)
        return self

    def isEmpty(self) -> bool:
        """Return whether there is no row."""
        return not self.limit(1).collect()

    def count(self) -> int:
        """Return the number of rows."""
        [(found,)] = self.agg(functions.count("*")).collect()
        return int(found)

    def collect(self) -> list[Row]:
        """Return all rows."""
        return [
            Row.of(self.columns, values)
            for batch in self.batches()
            for values in zip(*map(_values, batch.columns), strict=True)
        ]

    def batches(self) -> pa.RecordBatchReader:
        """Return the rows as Arrow batches, under the frame's own names."""
        return self._session.read(self._sql, self.columns)


def _as_it_is(name: str) -> DuckdbColumn:
    return DuckdbColumn(lambda scope: scope(name), name)


@dataclass(frozen=True)
class Grouped:
    """A frame in groups."""

    frame: DataFrame
    by: Sequence[DuckdbColumn]

    def agg(self, *values: DuckdbColumn) -> DataFrame:
        """Return aggregates by group."""
        frame, columns = self.frame, [*self.by, *values]
        chosen = ", ".join(f"{each.sql(frame._scope)} AS c{n}" for n, each in enumerate(columns))
        groups = ", ".join(each.sql(frame._scope) for each in self.by)
        grouped = f" GROUP BY {groups}" if groups else ""
        sql = f"SELECT {chosen} FROM {frame._from}{grouped}"  # noqa: S608
        return frame._queried(sql, [each.name for each in columns])


def _values(column: pa.Array) -> list[Any]:
    """Return values as PySpark does: structs as rows, maps as dicts, UTC times without zone."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        parts = zip(*(_values(column.field(n)) for n in range(len(names))), strict=True)
        there = column.is_valid().to_pylist()
        return [
            Row.of(names, each) if real else None for each, real in zip(parts, there, strict=True)
        ]
    if pa.types.is_map(kind):
        return [None if value is None else dict(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us"))
    return list(column.to_pylist())


def _numbered(given: str, rows: Any) -> str:
    """Return SQL of registered rows, whose columns are named by position."""
    # DuckDB would rename one of two names that differ in case only.
    columns = ", ".join(f"c{n}" for n in range(len(rows.schema.names)))
    return f"FROM {given} AS r({columns})"


def type_of(kind: pa.DataType) -> str:
    """Return DuckDB's name of an Arrow type of the files."""
    if pa.types.is_list(kind):
        return f"{type_of(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({type_of(kind.key_type)}, {type_of(kind.item_type)})"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"
    return _ARROW_TYPES[kind]


class DuckSession:
    """A DuckDB connection without network, extensions, and files other than the given ones."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._numbers = count()

    @classmethod
    @contextmanager
    def open(cls, folder: str, readable: str | None) -> Iterator["DuckSession"]:
        """Open a session.

        ``folder`` is for data that does not fit into memory; ``readable`` is the folder that may be
        read.
        """
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY, "temp_directory": folder,
            "threads": min(_MOST_THREADS, os.cpu_count() or 1),
            "autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
        }  # fmt: skip
        with duckdb.connect(config=settings) as connection:
            for setting in (
                "TimeZone = 'UTC'", "default_null_order = 'nulls_first_on_asc_last_on_desc'",
                f"allowed_directories = [{literal(f'{readable}/') if readable else ''}]",
                "enable_progress_bar = false", "enable_external_access = false",
                "lock_configuration = true",
            ):  # fmt: skip
                connection.execute(f"SET {setting}")
            yield cls(connection)

    def interrupt(self) -> None:
        """Interrupt the running query from another thread; it fails there."""
        with suppress(duckdb.Error):
            self.connection.interrupt()

    def new_name(self) -> str:
        """Return an unused name."""
        return f"q{next(self._numbers)}"

    def kept(self, sql: str) -> str:
        """Store a query's rows in a temporary table; return its name."""
        name = self.new_name()
        self.connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")
        return name

    def types(self, sql: str) -> list[str]:
        """Return the types of a query's columns."""
        return [str(kind) for kind in self.connection.sql(sql).types]

    def parquet(self, paths: Sequence[str], schema: pa.Schema) -> DataFrame:
        """Return the rows of local files; missing columns are null, the last one is in the path."""
        files = ", ".join(map(literal, paths))
        *own, day = schema
        read = ", ".join(
            f"{literal(each.name)}: {{name: {literal(each.name)},"
            f" type: {literal(type_of(each.type))}, default_value: NULL}}"
            for each in own
        )
        chosen = ", ".join(f"{double(each.name)} AS c{n}" for n, each in enumerate(schema))
        source = (
            f"read_parquet([{files}], schema = MAP {{{read}}}, hive_partitioning = true,"
            f" hive_types = {{{day.name}: {type_of(day.type)}}})"
        )
        return DataFrame(self, f"(SELECT {chosen} FROM {source})", schema.names)  # noqa: S608

    def read(self, sql: str, names: Sequence[str]) -> pa.RecordBatchReader:
        """Return a query's rows under these names."""
        found: Any = self.connection.sql(sql).to_arrow_reader(_BATCH_ROWS)
        schema = pa.schema(
            [field.with_name(n) for field, n in zip(found.schema, names, strict=True)]
        )
        renamed = (pa.RecordBatch.from_arrays(each.columns, schema=schema) for each in found)
        return pa.RecordBatchReader.from_batches(schema, renamed)

    def empty(self, schema: pa.Schema) -> DataFrame:
        """Return a frame without rows; a pyarrow table would need more imports."""
        chosen = (f"CAST(NULL AS {type_of(each.type)}) AS c{n}" for n, each in enumerate(schema))
        return DataFrame(self, f"(SELECT {', '.join(chosen)} WHERE false)", schema.names)

    def frame(self, rows: Any) -> DataFrame:
        """Return a frame of a pyarrow table or dataset."""
        given = self.new_name()
        self.connection.register(given, rows)
        return DataFrame(self, f"({_numbered(given, rows)})", rows.schema.names)

    def by_piece(self, frame: DataFrame, function: Callable[[pa.Table], pa.Table]) -> DataFrame:
        """Return the rows that a function makes of each piece of a frame."""
        if "piece" not in frame.columns:
            return self.frame(function(frame.batches().read_all()))
        # Sorted, so that each piece is in a part of the table.
        frame = frame.orderBy("piece").localCheckpoint()
        found, given = self.new_name(), self.new_name()
        # Replay no row at least, for the columns.
        pieces = [piece for (piece,) in frame.select("piece").distinct().collect()] or [0]
        for number, piece in enumerate(pieces):
            rows = function(frame.where(col("piece") == piece).batches().read_all())
            into = f"INSERT INTO {found}" if number else f"CREATE TEMP TABLE {found} AS"
            self.connection.register(given, rows)
            self.connection.execute(f"{into} {_numbered(given, rows)}")
            self.connection.unregister(given)
        return DataFrame(self, found, rows.schema.names)

    def function(
        self, texts: Callable[[pa.Array], pa.Array], kind: pa.DataType
    ) -> Callable[[object], DuckdbColumn]:
        """Return an SQL function from a column of a type to text."""
        name = self.new_name()
        create: Any = self.connection.create_function
        create(name, texts, [type_of(kind)], "VARCHAR", type="arrow")
        return function(f"{name}({{}})")

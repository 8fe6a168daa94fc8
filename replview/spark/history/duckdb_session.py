"""A DuckDB session that runs the SQL of history jobs, which is Spark's.

Spark's functions that DuckDB lacks are macros here. As with Spark, nulls come first in ascending
order, times are in UTC, and a query runs when its rows are read.

No library serves: sqlglot 30.30 turns Spark's ``max_by`` into one that ignores nulls, and leaves
``explode_outer``, ``xxhash64`` and ``spark_partition_id``, which DuckDB does not know.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import count, islice
from typing import Any

import pyarrow as pa

from replview.spark.quoting import double, literal

#: Spark's functions that DuckDB lacks, or has with another meaning.
_FUNCTIONS = (
    "array_remove(list, value) AS list_filter(list, lambda one: one <> value)",
    "explode_outer(list) AS unnest(CASE WHEN len(list) > 0 THEN list ELSE [NULL] END)",
    "max_by(value, place) AS arg_max_null(value, place)",
    # DuckDB has no partitions, so all rows are in one.
    "spark_partition_id() AS 0",
    "try_element_at(map, key) AS map[key]",
    "unix_micros(time) AS epoch_us(time)",
    # Any hash serves the purpose.
    "xxhash64(value) AS CAST(hash(value) >> 1 AS BIGINT)",
)
#: Memory limit of a query; more is spilled to its folder on disk.
_MEMORY = "1GiB"
_MOST_THREADS = 4
_BATCH_ROWS = 65_536
_ARROW_TYPES = {
    pa.bool_(): "BOOLEAN", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR", pa.binary(): "BLOB",
    pa.date32(): "DATE",
}  # fmt: skip


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


class Query:
    """A query whose rows are read as those of ``pyspark.sql.DataFrame`` are."""

    def __init__(self, session: "DuckSession", sql: str, names: Sequence[str] = ()) -> None:
        self._session = session
        self._sql = sql
        self._names = list(names)

    @cached_property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return self._names or self._session.connection.sql(self._sql).columns

    def __format__(self, _: str) -> str:
        """Return the query as the table of another one."""
        if not self._names:
            return f"({self._sql})"
        # DuckDB would rename one of two names that differ in case only.
        return f"(FROM ({self._sql}) AS _({', '.join(map(double, self._names))}))"

    def toDF(self, *names: str) -> "Query":
        """Return the rows with these names of columns."""
        return Query(self._session, self._sql, names)

    def localCheckpoint(self) -> "Query":
        """Return the rows as they are now, kept until the session ends."""
        return Query(self._session, self._session.kept(self._sql, self.columns), self.columns)

    def by_batch(self, function: Callable[[pa.Table], pa.Table]) -> "Query":
        """Return the rows that a function makes of these, some at a time."""
        kept = self.localCheckpoint()
        batches = (
            f"{kept._sql} WHERE rowid >= {first} AND rowid < {first + _BATCH_ROWS}"
            for first in range(0, kept.count() or 1, _BATCH_ROWS)
        )
        rows = (Query(self._session, sql, self.columns).toArrow() for sql in batches)
        return self._session.all_of(map(function, rows))

    def persist(self) -> "Query":
        """Keep the rows as they are now until the session ends."""
        self._names = self.columns
        self._sql = self._session.kept(self._sql, self.columns)
        return self

    def count(self) -> int:
        """Return the number of rows."""
        [(found,)] = self._session.sql("SELECT count(*) FROM {rows}", rows=self).collect()
        return int(found)

    def collect(self) -> list[Row]:
        """Return all rows."""
        return [*self._rows()]

    def take(self, most: int) -> list[Row]:
        """Return the first rows."""
        return [*islice(self._rows(), most)]

    def _rows(self) -> Iterator[Row]:
        for batch in self.batches():
            for values in zip(*map(_values, batch.columns), strict=True):
                yield Row.of(self.columns, values)

    def toArrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        return self._session.connection.sql(self._sql).to_arrow_table().rename_columns(self.columns)

    def batches(self) -> pa.RecordBatchReader:
        """Return the rows as Arrow batches."""
        found: Any = self._session.connection.sql(self._sql).to_arrow_reader(_BATCH_ROWS)
        names = zip(found.schema, self.columns, strict=True)
        schema = pa.schema([field.with_name(name) for field, name in names])
        renamed = (pa.RecordBatch.from_arrays(each.columns, schema=schema) for each in found)
        return pa.RecordBatchReader.from_batches(schema, renamed)


def _values(column: pa.Array) -> list[Any]:
    """Return values as PySpark does: maps as dicts, UTC times without zone."""
    kind = column.type
    if pa.types.is_map(kind):
        return [None if value is None else dict(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us"))
    return list(column.to_pylist())


def _by_position(columns: Sequence[str]) -> str:
    """Return the names of a stored table's columns, which are told apart by their position."""
    return ", ".join(f"c{n}" for n in range(len(columns)))


def _type_of(kind: pa.DataType) -> str:
    """Return DuckDB's name of an Arrow type of the files."""
    if pa.types.is_list(kind):
        return f"{_type_of(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({_type_of(kind.key_type)}, {_type_of(kind.item_type)})"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"
    return _ARROW_TYPES[kind]


class DuckSession:
    """A DuckDB connection without network, extensions, and files other than the given ones."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._numbers = count()
        self._interrupted = threading.Event()

    @classmethod
    @contextmanager
    def open(cls, folder: str, readable: str | None) -> Iterator["DuckSession"]:
        """Open a session.

        ``folder`` is for data that does not fit into memory; ``readable`` is the folder that may be
        read.
        """
        import duckdb

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
            for function in _FUNCTIONS:
                connection.execute(f"CREATE TEMP MACRO {function}")
            yield cls(connection)

    def interrupt(self) -> None:
        """Interrupt the running query, or replay, from another thread; it fails there."""
        import duckdb

        self._interrupted.set()
        with suppress(duckdb.Error):
            self.connection.interrupt()

    def is_interrupted(self) -> bool:
        """Return whether the session was interrupted."""
        return self._interrupted.is_set()

    def sql(self, text: str, **queries: Query) -> Query:
        """Return a query; ``{name}`` in its text is another one, as in ``SparkSession.sql``."""
        return Query(self, text.format(**queries))

    def kept(self, sql: str, columns: Sequence[str]) -> str:
        """Store a query's rows in a temporary table; return the query for it."""
        name = self._new_name()
        rows = f"FROM ({sql}) AS _({_by_position(columns)})"
        self.connection.execute(f"CREATE TEMP TABLE {name} AS {rows}")
        return f"FROM {name}"

    def parquet(self, paths: Sequence[str], schema: pa.Schema) -> Query:
        """Return the rows of local files; missing columns are null, the last one is in the path."""
        files = ", ".join(map(literal, paths))
        *own, day = schema
        read = ", ".join(
            f"{literal(each.name)}: {{name: {literal(each.name)},"
            f" type: {literal(_type_of(each.type))}, default_value: NULL}}"
            for each in own
        )
        chosen = ", ".join(double(each.name) for each in schema)
        source = (
            f"read_parquet([{files}], schema = MAP {{{read}}}, hive_partitioning = true,"
            f" hive_types = {{{day.name}: {_type_of(day.type)}}})"
        )
        # All SQL is generated: names are quoted, and values are literals.
        return Query(self, f"SELECT {chosen} FROM {source}", schema.names)  # noqa: S608

    def empty(self, schema: pa.Schema) -> Query:
        """Return no rows; a pyarrow table would need more imports."""
        chosen = ", ".join(f"CAST(NULL AS {_type_of(each.type)})" for each in schema)
        return Query(self, f"SELECT {chosen} WHERE false", schema.names)

    def rows(self, given: Any) -> Query:
        """Return the rows of a pyarrow table or dataset."""
        name = self._new_name()
        self.connection.register(name, given)
        return Query(self, f"FROM {name}", given.schema.names)

    def by_piece(self, rows: Query, function: Callable[[pa.Table], pa.Table]) -> Query:
        """Return the rows that a function makes of each piece of the given ones."""
        if "piece" not in rows.columns:
            return self.rows(function(rows.toArrow()))
        # Sorted, so that each piece is in a part of the table.
        kept = self.sql("FROM {rows} ORDER BY piece", rows=rows).localCheckpoint()
        pieces = self.sql("SELECT DISTINCT piece FROM {rows}", rows=kept).collect()
        # Call the function without rows at least once, for the columns.
        return self.all_of(
            function(self.sql(f"FROM {{rows}} WHERE piece = {piece}", rows=kept).toArrow())
            for piece in [row[0] for row in pieces] or [0]
        )

    def all_of(self, tables: Iterable[pa.Table]) -> Query:
        """Return the rows of Arrow tables of one schema, at least one, stored one by one."""
        name, given = self._new_name(), self._new_name()
        for number, rows in enumerate(tables):
            columns = rows.schema.names
            into = f"INSERT INTO {name}" if number else f"CREATE TEMP TABLE {name} AS"
            self.connection.register(given, rows)
            # DuckDB would rename one of two names that differ in case only.
            self.connection.execute(f"{into} FROM {given} AS _({_by_position(columns)})")
            self.connection.unregister(given)
        return Query(self, f"FROM {name}", columns)

    def _new_name(self) -> str:
        return f"q{next(self._numbers)}"

"""PySpark's column expressions and functions, as far as history jobs need them, as DuckDB's SQL.

They behave like PySpark with ANSI mode and UTC: ``max_by`` may return a null, and a string in place
of a column is a column's name.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replview.spark.quoting import double, literal

#: DuckDB's name of a type, by Spark's name.
_TYPES = {
    "string": "VARCHAR", "bigint": "BIGINT", "int": "INTEGER", "timestamp": "TIMESTAMPTZ",
    "map<string,string>": "MAP(VARCHAR, VARCHAR)",
}  # fmt: skip
#: Function from a column's name in a frame to its SQL.
ColumnLookup = Callable[[str], str]


class DuckdbColumn:
    """An expression like ``pyspark.sql.Column``: SQL once its frame is known."""

    def __init__(self, sql: Callable[[ColumnLookup], str], name: str = "") -> None:
        self.sql = sql
        self.name = name

    def alias(self, name: str) -> "DuckdbColumn":
        """Return the expression under another name."""
        return DuckdbColumn(self.sql, name)

    def cast(self, kind: str) -> "DuckdbColumn":
        """Return a cast; ``kind`` is Spark's name of a type, or one of ``DataFrame.schema``."""
        return _made(f"CAST({{}} AS {_type(kind)})", self)

    def isNull(self) -> "DuckdbColumn":
        """Return the test for null."""
        return _made("({} IS NULL)", self)

    def isNotNull(self) -> "DuckdbColumn":
        """Return the test for not null."""
        return _made("({} IS NOT NULL)", self)

    def eqNullSafe(self, other: object) -> "DuckdbColumn":
        """Return the comparison in which nulls are equal."""
        return _made("({} IS NOT DISTINCT FROM {})", self, other)

    def isin(self, *values: Any) -> "DuckdbColumn":
        """Return the test for being one of the values."""
        given = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        return _made("({} IN ({}))", self, _listed(map(_of, given))) if given else _of(False)

    def startswith(self, text: str) -> "DuckdbColumn":
        """Return the test for a prefix."""
        return _made("starts_with({}, {})", self, text)

    def desc(self) -> "DuckdbColumn":
        """Return the expression for descending order."""
        return _made("{} DESC", self)

    def over(self, window: "Window") -> "DuckdbColumn":
        """Return the expression as a window function."""
        return DuckdbColumn(lambda scope: f"({self.sql(scope)} OVER ({window.sql(scope)}))")

    def __getitem__(self, key: object) -> "DuckdbColumn":
        if isinstance(key, str):
            return _made("struct_extract({}, {})", self, key).alias(key)
        return _made("{}[{} + 1]", self, key)

    def __eq__(self, other: object) -> "DuckdbColumn":  # type: ignore[override]
        return _made("({} = {})", self, other)

    def __ne__(self, other: object) -> "DuckdbColumn":  # type: ignore[override]
        return _made("({} <> {})", self, other)

    def __lt__(self, other: object) -> "DuckdbColumn":
        return _made("({} < {})", self, other)

    def __le__(self, other: object) -> "DuckdbColumn":
        return _made("({} <= {})", self, other)

    def __gt__(self, other: object) -> "DuckdbColumn":
        return _made("({} > {})", self, other)

    def __ge__(self, other: object) -> "DuckdbColumn":
        return _made("({} >= {})", self, other)

    def __add__(self, other: object) -> "DuckdbColumn":
        return _made("({} + {})", self, other)

    def __sub__(self, other: object) -> "DuckdbColumn":
        return _made("({} - {})", self, other)

    def __and__(self, other: object) -> "DuckdbColumn":
        return _made("({} AND {})", self, other)

    def __or__(self, other: object) -> "DuckdbColumn":
        return _made("({} OR {})", self, other)

    def __invert__(self) -> "DuckdbColumn":
        return _made("(NOT {})", self)


class _Case(DuckdbColumn):
    """The expression ``when(…).when(…).otherwise(…)``; without ``otherwise`` the rest is null."""

    def __init__(
        self, branches: Sequence[tuple[DuckdbColumn, DuckdbColumn]], last: DuckdbColumn
    ) -> None:
        self._branches = branches
        self._last = last

        def sql(scope: ColumnLookup) -> str:
            whens = (f"WHEN {one.sql(scope)} THEN {two.sql(scope)}" for one, two in branches)
            return f"(CASE {' '.join(whens)} ELSE {last.sql(scope)} END)"

        super().__init__(sql)

    def when(self, condition: DuckdbColumn, value: object) -> "_Case":
        """Add a branch."""
        return _Case([*self._branches, (condition, _of(value))], self._last)

    def otherwise(self, value: object) -> "_Case":
        """Set the value of the remaining rows."""
        return _Case(self._branches, _of(value))


def _made(template: str, *parts: object) -> DuckdbColumn:
    columns = [_of(part) for part in parts]
    return DuckdbColumn(lambda scope: template.format(*(column.sql(scope) for column in columns)))


def _listed(columns: Iterator[DuckdbColumn] | Sequence[DuckdbColumn]) -> DuckdbColumn:
    found = list(columns)
    return DuckdbColumn(lambda scope: ", ".join(column.sql(scope) for column in found))


def _of(value: object) -> DuckdbColumn:
    """Return a column unchanged, and another value as a literal."""
    if isinstance(value, DuckdbColumn):
        return value
    match value:
        case None:
            text = "NULL"
        case bool() | int() | float():
            text = str(value)
        case dt.datetime():
            text = f"TIMESTAMPTZ '{value.isoformat()}'"
        case dt.date():
            text = f"DATE '{value.isoformat()}'"
        case _:
            text = literal(str(value))
    return DuckdbColumn(lambda _: text)


def columns_of(values: Sequence[object]) -> list[DuckdbColumn]:
    """Return columns for values; a string is a column's name, as in PySpark."""
    return [col(value) if isinstance(value, str) else _of(value) for value in values]


def _type(kind: str) -> str:
    if kind.startswith("array<"):
        return f"{_type(kind[6:-1])}[]"
    if kind.startswith("struct<"):
        fields = (each.partition(":") for each in kind[7:-1].split(","))
        return f"STRUCT({', '.join(f'{double(name)} {_type(of)}' for name, _, of in fields)})"
    return _TYPES.get(kind, kind)


def col(name: str) -> DuckdbColumn:
    """Return a column, or a field such as ``_next._seq``; a name in ticks is one column."""
    if name.startswith("`"):
        plain = name[1:-1].replace("``", "`")
        return DuckdbColumn(lambda scope: scope(plain), plain)
    first, *fields = name.split(".")
    found = DuckdbColumn(lambda scope: scope(first), first)
    for field in fields:
        found = found[field]
    return found


def function(template: str) -> Callable[..., DuckdbColumn]:
    """Return a function that fills its arguments into an SQL template."""
    return lambda *values: _made(template, _listed(columns_of(values)))


class functions:
    """The functions of ``pyspark.sql.functions`` that history jobs use."""

    col = staticmethod(col)
    lit = staticmethod(_of)
    array = staticmethod(function("list_value({})"))
    array_compact = staticmethod(function("list_filter({}, lambda _one: _one IS NOT NULL)"))
    array_distinct = staticmethod(function("list_distinct({})"))
    avg = staticmethod(function("avg({})"))
    coalesce = staticmethod(function("coalesce({})"))
    collect_set = staticmethod(
        function("coalesce(list(DISTINCT {0}) FILTER ({0} IS NOT NULL), list_value())")
    )
    count_distinct = staticmethod(function("count(DISTINCT {})"))
    count_if = staticmethod(function("(count(*) FILTER ({}))"))
    explode = staticmethod(function("unnest({})"))
    flatten = staticmethod(function("flatten({})"))
    lag = staticmethod(function("lag({})"))
    map_concat = staticmethod(function("map_concat({})"))
    map_from_entries = staticmethod(function("map_from_entries({})"))
    max = staticmethod(function("max({})"))
    max_by = staticmethod(function("arg_max_null({})"))
    min = staticmethod(function("min({})"))
    size = staticmethod(function("len({})"))
    sort_array = staticmethod(function("list_sort({})"))
    sum = staticmethod(function("CAST(sum({}) AS BIGINT)"))
    unix_micros = staticmethod(function("epoch_us({})"))
    #: Any hash serves the purpose.
    xxhash64 = staticmethod(function("CAST(hash({}) >> 1 AS BIGINT)"))
    pmod = staticmethod(lambda value, by: _made("({} % {})", value, by))
    # DuckDB has no partitions, so all rows are in partition 0.
    spark_partition_id = staticmethod(function("0{}"))

    @staticmethod
    def when(condition: DuckdbColumn, value: object) -> _Case:
        """Begin a case expression."""
        return _Case([(condition, _of(value))], _of(None))

    @staticmethod
    def count(what: str) -> DuckdbColumn:
        """Count rows, or values that are not null."""
        return _made("count(*)") if what == "*" else _made("count({})", col(what))

    @staticmethod
    def struct(*values: object) -> DuckdbColumn:
        """Return a struct of named values."""
        columns = columns_of(values)
        names = [double(column.name) for column in columns]
        return _made("struct_pack({})", _listed(
            [_made(f"{name} := {{}}", each) for name, each in zip(names, columns, strict=True)]
        ))  # fmt: skip

    @staticmethod
    def array_contains(array: str, value: object) -> DuckdbColumn:
        """Return the test for an element of a list."""
        return _made("list_contains({}, {})", col(array), value)

    @staticmethod
    def try_element_at(found: str | DuckdbColumn, key: object) -> DuckdbColumn:
        """Return the value of a map's key; null if it is missing."""
        return _made("{}[{}]", *columns_of([found]), key)

    @staticmethod
    def create_map(*values: DuckdbColumn) -> DuckdbColumn:
        """Return a map of alternating keys and values."""
        return _made("map(list_value({}), list_value({}))", _listed(values[::2]),
                     _listed(values[1::2]))  # fmt: skip

    @staticmethod
    def map_filter(
        found: str | DuckdbColumn, keeps: Callable[[DuckdbColumn, DuckdbColumn], DuckdbColumn]
    ) -> DuckdbColumn:
        """Return a map with the entries that satisfy a condition."""
        kept = keeps(*(_made(f"_entry.{field}") for field in ("key", "value")))
        entries = "list_filter(map_entries({}), lambda _entry: {})"
        return _made(f"map_from_entries({entries})", *columns_of([found]), kept)

    @staticmethod
    def filter(found: DuckdbColumn, keeps: Callable[[DuckdbColumn], DuckdbColumn]) -> DuckdbColumn:
        """Return a list with the elements that satisfy a condition."""
        return _made("list_filter({}, lambda _one: {})", found, keeps(_made("_one")))

    @staticmethod
    def concat_ws(between: str, *values: object) -> DuckdbColumn:
        """Return the texts joined by a separator."""
        return _made("concat_ws({}, {})", between, _listed(columns_of(values)))

    @staticmethod
    def date_trunc(every: str, time: str) -> DuckdbColumn:
        """Return the start of the period that contains a time."""
        return _made("date_trunc({}, {})", every, col(time))

    @staticmethod
    def percentile(value: str, shares: DuckdbColumn) -> DuckdbColumn:
        """Return percentiles, interpolated."""
        return _made("quantile_cont({}, {})", col(value), shares)


@dataclass(frozen=True)
class Window:
    """A window like ``pyspark.sql.Window``, for ``lag`` and for ``count``."""

    partition: tuple[DuckdbColumn, ...] = ()
    order: tuple[DuckdbColumn, ...] = ()

    @classmethod
    def partitionBy(cls, *names: object) -> "Window":
        """Return a window with this partition."""
        return cls(tuple(columns_of(names)))

    def orderBy(self, *names: object) -> "Window":
        """Return the window with this order."""
        return replace(self, order=tuple(columns_of(names)))

    def sql(self, scope: ColumnLookup) -> str:
        """Return the window as SQL."""
        parts = ", ".join(column.sql(scope) for column in self.partition)
        order = ", ".join(column.sql(scope) for column in self.order)
        partition = f"PARTITION BY {parts}" if parts else ""
        return f"{partition} ORDER BY {order}" if order else partition

"""Expressions and functions as PySpark has them, as far as history jobs need them, in DuckDB's SQL.

Of PySpark they follow the meaning with ANSI on and UTC: ``max_by`` may give a null, and a name in a
text's place is a column's.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replview.spark.quoting import double, literal

#: Spark's names of types → DuckDB's.
_TYPES = {
    "string": "VARCHAR", "bigint": "BIGINT", "int": "INTEGER", "timestamp": "TIMESTAMPTZ",
    "map<string,string>": "MAP(VARCHAR, VARCHAR)",
}  # fmt: skip
#: A column's name in a frame → its SQL.
Scope = Callable[[str], str]


class Column:
    """An expression, as ``pyspark.sql.Column``: SQL once it is known what frame it is of."""

    def __init__(self, sql: Callable[[Scope], str], name: str = "") -> None:
        self.sql = sql
        self.name = name

    def alias(self, name: str) -> "Column":
        return Column(self.sql, name)

    def cast(self, kind: str) -> "Column":
        """``kind``: Spark's name of a type, or what ``DataFrame.schema`` says of one."""
        return _made(f"CAST({{}} AS {_type(kind)})", self)

    def isNull(self) -> "Column":
        return _made("({} IS NULL)", self)

    def isNotNull(self) -> "Column":
        return _made("({} IS NOT NULL)", self)

    def eqNullSafe(self, other: object) -> "Column":
        return _made("({} IS NOT DISTINCT FROM {})", self, other)

    def isin(self, *values: Any) -> "Column":
        given = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        return _made("({} IN ({}))", self, _listed(map(_of, given))) if given else _of(False)

    def startswith(self, text: str) -> "Column":
        return _made("starts_with({}, {})", self, text)

    def desc(self) -> "Column":
        return _made("{} DESC", self)

    def over(self, window: "Window") -> "Column":
        return Column(lambda scope: f"({self.sql(scope)} OVER ({window.sql(scope)}))")

    def __getitem__(self, key: object) -> "Column":
        if isinstance(key, str):
            return _made("struct_extract({}, {})", self, key).alias(key)
        return _made("{}[{} + 1]", self, key)

    def __eq__(self, other: object) -> "Column":  # type: ignore[override]
        return _made("({} = {})", self, other)

    def __ne__(self, other: object) -> "Column":  # type: ignore[override]
        return _made("({} <> {})", self, other)

    def __lt__(self, other: object) -> "Column":
        return _made("({} < {})", self, other)

    def __le__(self, other: object) -> "Column":
        return _made("({} <= {})", self, other)

    def __gt__(self, other: object) -> "Column":
        return _made("({} > {})", self, other)

    def __ge__(self, other: object) -> "Column":
        return _made("({} >= {})", self, other)

    def __add__(self, other: object) -> "Column":
        return _made("({} + {})", self, other)

    def __sub__(self, other: object) -> "Column":
        return _made("({} - {})", self, other)

    def __and__(self, other: object) -> "Column":
        return _made("({} AND {})", self, other)

    def __or__(self, other: object) -> "Column":
        return _made("({} OR {})", self, other)

    def __invert__(self) -> "Column":
        return _made("(NOT {})", self)


class _Case(Column):
    """``when(…).when(…).otherwise(…)``; without the last it is null."""

    def __init__(self, branches: Sequence[tuple[Column, Column]], last: Column) -> None:
        self._branches = branches
        self._last = last

        def sql(scope: Scope) -> str:
            whens = (f"WHEN {one.sql(scope)} THEN {two.sql(scope)}" for one, two in branches)
            return f"(CASE {' '.join(whens)} ELSE {last.sql(scope)} END)"

        super().__init__(sql)

    def when(self, condition: Column, value: object) -> "_Case":
        return _Case([*self._branches, (condition, _of(value))], self._last)

    def otherwise(self, value: object) -> "_Case":
        return _Case(self._branches, _of(value))


def _made(template: str, *parts: object) -> Column:
    columns = [_of(part) for part in parts]
    return Column(lambda scope: template.format(*(column.sql(scope) for column in columns)))


def _listed(columns: Iterator[Column] | Sequence[Column]) -> Column:
    found = list(columns)
    return Column(lambda scope: ", ".join(column.sql(scope) for column in found))


def _of(value: object) -> Column:
    """A column as it is, another value as a literal."""
    if isinstance(value, Column):
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
    return Column(lambda _: text)


def columns_of(values: Sequence[object]) -> list[Column]:
    """Names stand for columns, as in PySpark."""
    return [col(value) if isinstance(value, str) else _of(value) for value in values]


def _type(kind: str) -> str:
    if kind.startswith("array<"):
        return f"{_type(kind[6:-1])}[]"
    if kind.startswith("struct<"):
        fields = (each.partition(":") for each in kind[7:-1].split(","))
        return f"STRUCT({', '.join(f'{double(name)} {_type(of)}' for name, _, of in fields)})"
    return _TYPES.get(kind, kind)


def col(name: str) -> Column:
    """A column, or a field of one: ``_next._seq``; with ticks around it a name is all of one."""
    if name.startswith("`"):
        plain = name[1:-1].replace("``", "`")
        return Column(lambda scope: scope(plain), plain)
    first, *fields = name.split(".")
    found = Column(lambda scope: scope(first), first)
    for field in fields:
        found = found[field]
    return found


def function(template: str) -> Callable[..., Column]:
    return lambda *values: _made(template, _listed(columns_of(values)))


class functions:
    """What ``pyspark.sql.functions`` has for history jobs."""

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
    collect_list = staticmethod(function("list({})"))
    count_distinct = staticmethod(function("count(DISTINCT {})"))
    count_if = staticmethod(function("(count(*) FILTER ({}))"))
    explode = staticmethod(function("unnest({})"))
    flatten = staticmethod(function("flatten({})"))
    lag = staticmethod(function("lag({})"))
    lead = staticmethod(function("lead({})"))
    map_concat = staticmethod(function("map_concat({})"))
    map_from_entries = staticmethod(function("map_from_entries({})"))
    max = staticmethod(function("max({})"))
    max_by = staticmethod(function("arg_max_null({})"))
    min = staticmethod(function("min({})"))
    row_number = staticmethod(function("row_number({})"))
    sequence = staticmethod(function("generate_series({})"))
    size = staticmethod(function("len({})"))
    sort_array = staticmethod(function("list_sort({})"))
    sum = staticmethod(function("CAST(sum({}) AS BIGINT)"))
    unix_micros = staticmethod(function("epoch_us({})"))
    #: Any hash of 64 bits will do.
    xxhash64 = staticmethod(function("hash({})"))
    # As if all rows were in one part, in their order.
    spark_partition_id = staticmethod(function("0{}"))

    @staticmethod
    def when(condition: Column, value: object) -> _Case:
        return _Case([(condition, _of(value))], _of(None))

    @staticmethod
    def count(what: str) -> Column:
        return _made("count(*)") if what == "*" else _made("count({})", col(what))

    @staticmethod
    def last(value: Column, *, ignorenulls: bool) -> Column:
        return _made(f"last_value({{}}{' IGNORE NULLS' if ignorenulls else ''})", value)

    @staticmethod
    def struct(*values: object) -> Column:
        columns = columns_of(values)
        names = [double(column.name) for column in columns]
        return _made("struct_pack({})", _listed(
            [_made(f"{name} := {{}}", each) for name, each in zip(names, columns, strict=True)]
        ))  # fmt: skip

    @staticmethod
    def array_contains(array: str, value: object) -> Column:
        return _made("list_contains({}, {})", col(array), value)

    @staticmethod
    def try_element_at(found: str | Column, key: object) -> Column:
        return _made("{}[{}]", *columns_of([found]), key)

    @staticmethod
    def create_map(*values: Column) -> Column:
        return _made("map(list_value({}), list_value({}))", _listed(values[::2]),
                     _listed(values[1::2]))  # fmt: skip

    @staticmethod
    def map_filter(found: str | Column, keeps: Callable[[Column, Column], Column]) -> Column:
        kept = keeps(*(_made(f"_entry.{field}") for field in ("key", "value")))
        entries = "list_filter(map_entries({}), lambda _entry: {})"
        return _made(f"map_from_entries({entries})", *columns_of([found]), kept)

    @staticmethod
    def filter(found: Column, keeps: Callable[[Column], Column]) -> Column:
        return _made("list_filter({}, lambda _one: {})", found, keeps(_made("_one")))

    @staticmethod
    def shiftright(value: str, bits: int) -> Column:
        return _made("({} >> {})", col(value), bits)

    @staticmethod
    def concat_ws(between: str, *values: object) -> Column:
        return _made("concat_ws({}, {})", between, _listed(columns_of(values)))

    @staticmethod
    def date_trunc(every: str, time: str) -> Column:
        return _made("date_trunc({}, {})", every, col(time))

    @staticmethod
    def percentile(value: str, shares: Column) -> Column:
        return _made("quantile_cont({}, {})", col(value), shares)


@dataclass(frozen=True)
class Window:
    """As ``pyspark.sql.Window``; where rows have an order, up to the row itself."""

    partition: tuple[Column, ...] = ()
    order: tuple[Column, ...] = ()
    frame: str = "UNBOUNDED PRECEDING AND CURRENT ROW"

    @classmethod
    def partitionBy(cls, *names: object) -> "Window":
        return cls(tuple(columns_of(names)))

    def orderBy(self, *names: object) -> "Window":
        return replace(self, order=tuple(columns_of(names)))

    def rowsBetween(self, _first: int, last: int) -> "Window":
        """From the first row of all to so many rows before."""
        return replace(self, frame=f"UNBOUNDED PRECEDING AND {-last} PRECEDING")

    def sql(self, scope: Scope) -> str:
        parts = ", ".join(column.sql(scope) for column in self.partition)
        order = ", ".join(column.sql(scope) for column in self.order)
        framed = f"ORDER BY {order} ROWS BETWEEN {self.frame}" if order else ""
        return f"{f'PARTITION BY {parts}' if parts else ''} {framed}"

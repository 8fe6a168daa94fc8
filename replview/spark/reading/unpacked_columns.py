"""A table's columns as the server unpacks them from a row's JSON: the parts of ``typed_query``."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
from psycopg import sql

from replview.spark.slice_schemas import Column
from replview.spark.slices import SliceTable

#: num_nulls() takes no more.
_ARGUMENTS = 90


def unpacked_columns(table: SliceTable, columns: Sequence[Column]) -> dict[str, sql.Composable]:
    """The parts of a query whose ``x.v`` is the unpacked row: ``values`` of it; and of ``y``, which
    has these: ``columns``, ``missing``, and whether any may miss (``any_null``) or be a mark
    (``any_mark``).
    """
    places = [sql.Identifier(f"x{n}") for n in range(len(columns))]
    values = [
        sql.SQL("x.v ->> {} AS {}").format(column.source_name, place)
        for column, place in zip(columns, places, strict=True)
    ]
    return {
        "any_null": _any_null(places),
        "missing": _missing(table, columns, places),
        "any_mark": _any(
            sql.SQL("y.{} ^@ '{{\"$'").format(place)
            for column, place in zip(columns, places, strict=True)
            if not is_plain(column.arrow)
        ),
        "columns": sql.SQL(", ").join(sql.SQL("y.{}").format(place) for place in places),
        "values": sql.SQL(", ").join(values),
    }


def is_plain(arrow: pa.DataType) -> bool:
    """Whether values of this type are written in printable characters, and look like no mark."""
    return any(
        kind(arrow)
        for kind in (
            pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean,
            pa.types.is_timestamp, pa.types.is_date,
        )
    )  # fmt: skip


def _any(conditions: Iterable[sql.Composed]) -> sql.Composable:
    parts = list(conditions)
    return sql.SQL(" OR ").join(parts) if parts else sql.SQL("false")


def _any_null(places: Sequence[sql.Identifier]) -> sql.Composable:
    parts = []
    for start in range(0, len(places), _ARGUMENTS):
        some = [sql.SQL("y.{}").format(each) for each in places[start : start + _ARGUMENTS]]
        parts.append(sql.SQL("num_nulls({}) > 0").format(sql.SQL(", ").join(some)))
    return _any(parts)


def _missing(
    table: SliceTable, columns: Sequence[Column], places: Sequence[sql.Identifier]
) -> sql.Composable:
    """The numbers of columns that a row of its version has and that were not sent, each with a
    comma.
    """
    cases = []
    for number, (column, place) in enumerate(zip(columns, places, strict=True)):
        having = [
            version.id
            for version in table.versions
            if any(each["name"] == column.source_name for each in version.columns)
        ]
        there = sql.SQL("y.version_id = ANY({}::bigint[]) AND ").format(having)
        cases.append(
            sql.SQL(
                "CASE WHEN y.{} IS NULL AND {}NOT coalesce(y.v ? {}, false) THEN {} END"
            ).format(
                place,
                there if len(having) < len(table.versions) else sql.SQL(""),
                column.source_name,
                f"{number},",
            )
        )
    parts = [
        sql.SQL("concat({})").format(sql.SQL(", ").join(cases[start : start + _ARGUMENTS]))
        for start in range(0, len(cases), _ARGUMENTS)
    ]
    return sql.SQL(" || ").join(parts) if parts else sql.SQL("''")

"""The query of a table's typed rows: a column of text for each of the table's own.

A column that is null may not have been sent, and a text may be a mark (``{"$masked": true}`` …) in
its value's place: such rows carry what tells it. (A mark that stands in a number's place gives
itself away where it is read.)
"""

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
from psycopg import sql

from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.packed_values import INT8, INT32, INT64, PLAIN, Fields
from replview.parquet.reading.row_images import written_once
from replview.parquet.reading.transactions import Group
from replview.parquet.slice_schemas import Column
from replview.parquet.slices import Slice, SliceTable

#: ``_change_type`` by the number in ``kind``.
KINDS = ("insert", "update_preimage", "update_postimage", "delete")
#: What each row's image has beside it.
OWN_FIELDS: Fields = {
    "id": INT64, "seq": INT32, "lsn": PLAIN, "kind": INT8, "version_id": INT64,
}  # fmt: skip
#: What tells of its columns. (Plain: JSON escapes what is not.)
TOLD_FIELDS: Fields = {"missing": PLAIN, "marked": PLAIN}
#: num_nulls() takes no more.
_ARGUMENTS = 90

_QUERY = """
    SELECT y.id, y.seq, y.lsn, y.kind, y.version_id{derivable},
           CASE WHEN {any_null} THEN nullif({missing}, '') END AS missing,
           CASE WHEN {any_mark} THEN y.v::text END AS marked,
           {columns}
    FROM (SELECT x.*, {values} FROM ({images}) AS x OFFSET 0) AS y
"""


def is_plain(arrow: pa.DataType) -> bool:
    """Whether values of this type are written in printable characters, and look like no mark."""
    return any(
        kind(arrow)
        for kind in (
            pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean,
            pa.types.is_timestamp, pa.types.is_date,
        )
    )  # fmt: skip


def typed_query(
    connection: Connection,
    part: Slice,
    table: SliceTable,
    columns: Sequence[Column],
    images: Callable[[Group], sql.Composable],
) -> Callable[[Group], sql.Composed]:
    """Gives the query of one group's rows (``row_images``) with columns for their values."""
    places = [sql.Identifier(f"x{n}") for n in range(len(columns))]
    values = [
        sql.SQL("x.v ->> {} AS {}").format(column.source_name, place)
        for column, place in zip(columns, places, strict=True)
    ]
    told = {
        "any_null": _any_null(places),
        "missing": _missing(table, columns, places),
        "any_mark": _any(
            sql.SQL("y.{} ^@ '{{\"$'").format(place)
            for column, place in zip(columns, places, strict=True)
            if not is_plain(column.arrow)
        ),
        "columns": sql.SQL(", ").join(sql.SQL("y.{}").format(place) for place in places),
        "values": sql.SQL(", ").join(values),
        "derivable": sql.SQL(", y.derivable" if part.before == "derived" else ""),
    }
    told = {name: written_once(connection, each) for name, each in told.items()}
    return lambda group: sql.SQL(_QUERY).format(**told, images=images(group))


def having(table: SliceTable, column: Column) -> list[int]:
    """The versions of a table that have a column."""
    return [
        version.id
        for version in table.versions
        if any(each["name"] == column.source_name for each in version.columns)
    ]


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
        found = having(table, column)
        there = sql.SQL("y.version_id = ANY({}::bigint[]) AND ").format(found)
        cases.append(
            sql.SQL(
                "CASE WHEN y.{} IS NULL AND {}NOT coalesce(y.v ? {}, false) THEN {} END"
            ).format(
                place,
                there if len(found) < len(table.versions) else sql.SQL(""),
                column.source_name,
                f"{number},",
            )
        )
    parts = [
        sql.SQL("concat({})").format(sql.SQL(", ").join(cases[start : start + _ARGUMENTS]))
        for start in range(0, len(cases), _ARGUMENTS)
    ]
    return sql.SQL(" || ").join(parts) if parts else sql.SQL("''")

"""Write the query of a table's typed rows: one column of text for each of the table's columns.

A column that is null may not have been sent, and a text may be a mark (``{"$masked": true}`` …) in
its value's place: such rows also carry the columns that distinguish these cases. (A mark in a
number's place is recognized when the number is parsed.)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.packed_values import (
    INT8,
    INT32,
    INT64,
    PLAIN,
    TEXT,
    Fields,
    Texts,
    packing,
    unpacked,
)
from replview.parquet.reading.row_images import written_once
from replview.parquet.reading.transactions import TransactionGroup
from replview.parquet.slice_schemas import SliceColumn
from replview.parquet.slices import Slice, SliceTable

#: ``_change_type`` by the number in ``kind``.
KINDS = ("insert", "update_preimage", "update_postimage", "delete", "truncate")
TRUNCATE = KINDS.index("truncate")
#: The columns beside each row's image.
OWN_FIELDS: Fields = {
    "id": INT64, "seq": INT32, "lsn": PLAIN, "kind": INT8, "version_id": INT64,
}  # fmt: skip
#: The row's unsent columns and its JSON. (Plain: JSON escapes other characters.)
UNSENT_FIELDS: Fields = {"missing": PLAIN, "marked": PLAIN}
#: Arguments of one call of num_nulls(); PostgreSQL allows 100.
_ARGUMENTS = 90

_QUERY = """
    SELECT y.id, y.seq, y.lsn, y.kind, y.version_id{derivable},
           CASE WHEN {any_null} THEN nullif({missing}, '') END AS missing,
           CASE WHEN {any_mark} THEN y.v::text END AS marked,
           {columns}
    FROM (SELECT x.*, {values} FROM ({images}) AS x OFFSET 0) AS y
"""


def is_plain(arrow: pa.DataType) -> bool:
    """Return whether values of this type have printable characters only, and are never marks."""
    return any(
        kind(arrow)
        for kind in (
            pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean,
            pa.types.is_timestamp, pa.types.is_date,
        )
    )  # fmt: skip


def typed_query(
    connection: StoreConnection,
    part: Slice,
    table: SliceTable,
    columns: Sequence[SliceColumn],
    images: Callable[[TransactionGroup], sql.Composable],
) -> Callable[[TransactionGroup], sql.Composed]:
    """Return a function that gives the query of one group's rows, with columns for their values."""
    places = [sql.Identifier(f"x{n}") for n in range(len(columns))]
    values = [
        sql.SQL("x.v ->> {} AS {}").format(column.source_name, place)
        for column, place in zip(columns, places, strict=True)
    ]
    parts = {
        "any_null": _any_null(places),
        "missing": _missing(table, columns, places),
        "any_mark": _any(
            sql.SQL("y.{} ^@ '{{\"$'").format(place)
            for column, place in zip(columns, places, strict=True)
            if not is_plain(column.arrow)
        ),
        "columns": sql.SQL(", ").join(sql.SQL("y.{}").format(place) for place in places),
        "values": sql.SQL(", ").join(values),
        "derivable": sql.SQL(", y.derivable" if part.before != "sent" else ""),
    }
    parts = {name: written_once(connection, each) for name, each in parts.items()}
    return lambda group: sql.SQL(_QUERY).format(**parts, images=images(group))


def having(table: SliceTable, name: str) -> list[int]:
    """Return the versions of a table that have a column of this name."""
    return [v.id for v in table.versions if any(each["name"] == name for each in v.columns)]


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
    table: SliceTable, columns: Sequence[SliceColumn], places: Sequence[sql.Identifier]
) -> sql.Composable:
    """Return the SQL for the numbers of columns that were not sent, each followed by a comma.

    A column that the row's version does not have is not counted.
    """
    case = sql.SQL("CASE WHEN y.{} IS NULL AND {}NOT coalesce(y.v ? {}, false) THEN {} END")
    cases = []
    for number, (column, place) in enumerate(zip(columns, places, strict=True)):
        there: sql.Composable = sql.SQL("")
        if len(found := having(table, column.source_name)) < len(table.versions):
            there = sql.SQL("y.version_id = ANY({}::bigint[]) AND ").format(found)
        cases.append(case.format(place, there, column.source_name, f"{number},"))
    parts = [
        sql.SQL("concat({})").format(sql.SQL(", ").join(cases[start : start + _ARGUMENTS]))
        for start in range(0, len(cases), _ARGUMENTS)
    ]
    return sql.SQL(" || ").join(parts) if parts else sql.SQL("''")


# The query of cells gives the same rows where they have no marks. Each cell says whether it was
# sent, and this process collects the columns that were not: that takes half the server's time.

#: A row's unsent columns are bits of one int64, so that there can be no more columns.
MOST_COLUMNS = 62
_MARK = b'{"$'
_CELLS = sql.SQL("SELECT {} FROM ({}) AS x")


@dataclass(frozen=True, slots=True)
class Cells:
    """The query of a table's cells, and its conversion to the same batch as the query of rows."""

    query: Callable[[TransactionGroup], sql.Composable]
    own: Fields
    columns: Sequence[Texts]
    #: For each column the versions that have it; None: all.
    versions: Sequence[Sequence[int] | None]

    @classmethod
    def of(
        cls, connection: StoreConnection, table: SliceTable, own: Fields,
        images: Callable[[TransactionGroup], sql.Composable],
    ) -> "Cells":  # fmt: skip
        """Make the query; ``images`` gives a group's rows: their own fields, and the JSON ``v``."""
        kinds = [PLAIN if is_plain(column.arrow) else TEXT for column in table.columns]
        cells = [_cell(each, kind) for each, kind in zip(table.columns, kinds, strict=True)]
        packed = written_once(connection, sql.SQL(", ").join([packing(own), *cells]))
        there = [having(table, column.source_name) for column in table.columns]
        versions = [None if len(each) == len(table.versions) else each for each in there]
        return cls(lambda group: _CELLS.format(packed, images(group)), own, kinds, versions)

    def suffice(self, rows: int, values: Sequence[bytes | None]) -> bool:
        """Return whether no query of rows is needed: counts match, and no text may be a mark."""
        return all(
            kind.fits(data, rows) and (kind is PLAIN or not kind.begins(data, _MARK))
            for data, kind in zip(values, (*self.own.values(), *self.columns), strict=True)
            if isinstance(kind, Texts)
        )

    def batch(self, rows: int, values: Sequence[bytes | None]) -> pa.RecordBatch:
        """Convert the answer to the batch that the query of rows would give."""
        made = unpacked(values[: len(self.own)], self.own, rows)
        places: Any = None
        cells: dict[str, Any] = {}
        told = zip(values[len(self.own) :], self.columns, self.versions, strict=True)
        for number, (data, kind, versions) in enumerate(told):
            cells[f"x{number}"], absent = kind.with_absent(data or b"")
            if absent is not None and versions is not None:
                of = pc.is_in(made["version_id"], value_set=pa.array(versions, pa.int64()))
                absent = pc.and_(absent, of)
            if absent is not None:
                bit = pc.if_else(absent, pa.scalar(1 << number), pa.scalar(0))
                places = bit if places is None else pc.bit_wise_or(places, bit)
        made |= {"missing": _missing_of(places, rows), "marked": pa.nulls(rows, pa.string())}
        return pa.record_batch(made | cells)


def _cell(column: SliceColumn, kind: Texts) -> sql.Composed:
    name = column.source_name
    return kind.packed(
        sql.SQL("(x.v ->> {})").format(name), sql.SQL("coalesce(x.v ? {}, false)").format(name)
    )


def _missing_of(places: object, rows: int) -> Any:
    """Return each row's bits as the numbers of columns, each followed by a comma."""
    if places is None:
        return pa.nulls(rows, pa.string())
    coded = pc.dictionary_encode(places)
    texts = [
        "".join(f"{n}," for n in range(MOST_COLUMNS) if bits >> n & 1) or None
        for bits in coded.dictionary.to_pylist()
    ]
    return pa.array(texts, pa.string()).take(coded.indices)

"""A table's typed rows without looking at rows: each cell says whether it was sent.

As ``typed_query`` has them, for rows that have no marks. No column is a step of its own for the
server, nothing is asked of rows that are whole, and what was not sent is put together here, from
columns: that takes half the server's time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.packed_values import (
    PLAIN,
    TEXT,
    Fields,
    Texts,
    packing,
    unpacked,
)
from replview.parquet.reading.row_images import written_once
from replview.parquet.reading.transactions import Group
from replview.parquet.reading.typed_query import having, is_plain
from replview.parquet.slice_schemas import Column
from replview.parquet.slices import SliceTable

#: What was not sent of a row is told by a bit a column.
MOST_COLUMNS = 62
_MARK = b'{"$'
_QUERY = sql.SQL("SELECT {} FROM ({}) AS x")


@dataclass(frozen=True, slots=True)
class Cells:
    """How a table's cells are asked for, and made a batch of the columns that its rows have."""

    query: Callable[[Group], sql.Composable]
    own: Fields
    columns: Sequence[Texts]
    #: For each column the versions that have it; None: all.
    versions: Sequence[Sequence[int] | None]

    @classmethod
    def of(
        cls, connection: Connection, table: SliceTable, own: Fields,
        images: Callable[[Group], sql.Composable],
    ) -> "Cells":  # fmt: skip
        """``images`` are a group's rows: their own fields, and ``v``, the JSON."""
        kinds = [PLAIN if is_plain(column.arrow) else TEXT for column in table.columns]
        cells = [_cell(each, kind) for each, kind in zip(table.columns, kinds, strict=True)]
        told = written_once(connection, sql.SQL(", ").join([packing(own), *cells]))
        there = [having(table, column) for column in table.columns]
        return cls(
            lambda group: _QUERY.format(told, images(group)),
            own,
            kinds,
            [None if len(each) == len(table.versions) else each for each in there],
        )

    def suffice(self, rows: int, values: Sequence[bytes | None]) -> bool:
        """Whether these are no rows to look at more closely: odd numbers, or what may be marks."""
        return all(
            kind.fits(data, rows) and (kind is PLAIN or not kind.begins(data, _MARK))
            for data, kind in zip(values, (*self._own_texts(), *self.columns), strict=True)
            if kind is not None
        )

    def _own_texts(self) -> Iterator[Texts | None]:
        for each in self.own.values():
            yield each if isinstance(each, Texts) else None

    def batch(self, rows: int, values: Sequence[bytes | None]) -> pa.RecordBatch:
        """The rows."""
        made = unpacked(values[: len(self.own)], self.own, rows)
        places: Any = None
        cells: dict[str, Any] = {}
        for number, (data, kind) in enumerate(
            zip(values[len(self.own) :], self.columns, strict=True)
        ):
            cells[f"x{number}"], absent = kind.told(data or b"")
            versions = self.versions[number]
            if absent is not None and versions is not None:
                of = pc.is_in(made["version_id"], value_set=pa.array(versions, pa.int64()))
                absent = pc.and_(absent, of)
            if absent is not None:
                bit = pc.if_else(absent, pa.scalar(1 << number), pa.scalar(0))
                places = bit if places is None else pc.bit_wise_or(places, bit)
        made |= {"missing": _missing(places, rows), "marked": pa.nulls(rows, pa.string()), **cells}
        return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


def _cell(column: Column, kind: Texts) -> sql.Composed:
    name = column.source_name
    return kind.packed(
        sql.SQL("(x.v ->> {})").format(name), sql.SQL("coalesce(x.v ? {}, false)").format(name)
    )


def _missing(places: Any, rows: int) -> Any:
    """Bits as the numbers of columns, each with a comma."""
    if places is None:
        return pa.nulls(rows, pa.string())
    coded = pc.dictionary_encode(places)
    told = [
        "".join(f"{n}," for n in range(MOST_COLUMNS) if bits >> n & 1) or None
        for bits in coded.dictionary.to_pylist()
    ]
    return pa.array(told, pa.string()).take(coded.indices)

"""Transfer many rows as one value per column: the server packs it, Arrow unpacks it.

COPY sends one message per row, which the server quotes and the client parses and touches in
Python: all that takes longer than finding the rows. The packed values must be small, because the
server holds them in memory.

Numbers and moments travel in their fixed width, and the lowest value stands for null. Numbers and
times that are texts are separated by U+001F, which no such text has. A text may have any character:
its bytes are separated by zero, which no text has, and 0xFF, which UTF-8 never has, is null.
"""

import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

#: PostgreSQL's epoch (2000-01-01), in microseconds since 1970.
_EPOCH_US = 946_684_800_000_000


@dataclass(frozen=True, slots=True)
class Fixed:
    """Values of one width, as the server sends them in binary."""

    send: str
    #: The type code of Python's ``array``.
    code: str
    arrow: pa.DataType
    #: A number that is added to each value.
    offset: int = 0

    def packed(self, value: sql.Composable) -> sql.Composed:
        """Return the SQL that packs a value of many rows."""
        least = rf"\x80{'00' * (array(self.code).itemsize - 1)}"
        return sql.SQL("string_agg(coalesce({}, {}::bytea), ''::bytea)").format(
            sql.SQL(self.send).format(value), least
        )

    def unpacked(self, data: bytes, rows: int) -> Any:
        """Return the array of so many packed values."""
        numbers = array(self.code, data)
        bits = 8 * numbers.itemsize - 1
        if sys.byteorder == "little":
            numbers.byteswap()
        found = pa.Array.from_buffers(self.arrow, rows, [None, pa.py_buffer(numbers)])
        if b"\x80" in data:
            least = pa.scalar(-(1 << bits), self.arrow)
            found = pc.if_else(pc.equal(found, least), pa.scalar(None, self.arrow), found)
        return pc.add(found, self.offset) if self.offset else found


INT64 = Fixed("int8send({})", "q", pa.int64())
INT32 = Fixed("int4send({})", "i", pa.int32())
INT8 = Fixed('charsend({}::"char")', "b", pa.int8())
#: A position as a number of bytes since the WAL began.
LSN = Fixed("pg_lsn_send({})", "q", pa.int64())
#: A moment in microseconds since 1970.
MOMENT = Fixed("timestamptz_send({})", "q", pa.int64(), _EPOCH_US)


@dataclass(frozen=True, slots=True)
class Texts:
    """Values of any length, separated by bytes that none of them has."""

    unit: bytes
    null: bytes
    #: Stands for a value that is not there at all, not even as null.
    absent: bytes
    #: The SQL that writes a value, and the SQL that writes one of the signs above.
    send: str
    sign: str
    arrow: pa.DataType = field(default_factory=pa.string)

    def packed(self, value: sql.Composable, there: sql.Composable | None = None) -> sql.Composed:
        """Return the SQL that packs a value of many rows.

        ``there`` is true for a value that was sent: it tells NULL from a value that is absent.
        """
        null: sql.Composable
        null, absent, unit = (
            sql.SQL(self.sign.format(each[0])) for each in (self.null, self.absent, self.unit)
        )
        if there is not None:
            null = sql.SQL("CASE WHEN {} THEN {} ELSE {} END").format(there, null, absent)
        return sql.SQL("string_agg(coalesce({}, {}), {})").format(
            sql.SQL(self.send).format(value), null, unit
        )

    def fits(self, data: bytes | None, rows: int) -> bool:
        """Return whether there is one value per row: a source may send any bytes as a number."""
        return not rows or (data is not None and data.count(self.unit) == rows - 1)

    def begins(self, data: bytes | None, sign: bytes) -> bool:
        """Return whether any of the texts begins with these bytes."""
        return data is not None and (data.startswith(sign) or self.unit + sign in data)

    def unpacked(self, data: bytes, rows: int) -> Any:
        """Return the array of so many packed values, absent ones as null."""
        return self.with_absent(data)[0] if rows else pa.nulls(0, self.arrow)

    def with_absent(self, data: bytes) -> tuple[Any, Any]:
        """Return the array, and which of its nulls are absent; None where none is absent."""
        parts = pc.split_pattern(pa.array([data], pa.binary()), self.unit).values
        nothing = pa.scalar(None, pa.binary())
        absent = None
        if self.absent in data:
            absent = pc.equal(parts, self.absent)
            parts = pc.if_else(absent, nothing, parts)
        if self.null in data:
            parts = pc.if_else(pc.equal(parts, self.null), nothing, parts)
        return parts.cast(pa.string()), absent


#: Numbers, times and other types whose texts have printable characters only.
PLAIN = Texts(b"\x1f", b"\x1e", b"\x1d", "{}::text", "chr({})")
TEXT = Texts(b"\0", b"\xff", b"\xfe", "textsend({})", r"'\x{:02x}'::bytea")

#: Column name → the format in which its values travel.
Fields = Mapping[str, Fixed | Texts]


def packing(fields: Fields) -> sql.Composed:
    """Return the select list of these columns: the number of rows, and each column as one value."""
    packed = [each.packed(sql.Identifier(name)) for name, each in fields.items()]
    return sql.SQL(", ").join([sql.SQL("count(*)"), *packed])


def fit(values: Sequence[bytes | None], fields: Fields, rows: int) -> bool:
    """Return whether each column of plain texts has as many values as there are rows."""
    return all(
        each.fits(data, rows)
        for data, each in zip(values, fields.values(), strict=True)
        if each is PLAIN
    )


def unpacked(values: Sequence[bytes | None], fields: Fields, rows: int) -> dict[str, Any]:
    """Return the arrays of the packed columns, by name."""
    return {
        name: each.unpacked(data or b"", rows)
        for data, (name, each) in zip(values, fields.items(), strict=True)
    }

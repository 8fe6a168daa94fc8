"""Many rows as one value a column: put together by the server, taken apart by Arrow.

COPY sends a message a row, quoted there, parsed here, and touched by Python in between: all that
takes longer than finding the rows. The server's memory holds what is packed, so that it must be
little.

Numbers and moments travel in their fixed width, and the least there is stands for null. Numbers and
times that are texts are parted by U+001F, which no such text has. A text may have any character:
its bytes are parted by zero, which no text has, and 0xFF, which UTF-8 never has, is null.
"""

import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

#: What PostgreSQL counts moments from, in microseconds since 1970.
_EPOCH_US = 946_684_800_000_000


@dataclass(frozen=True, slots=True)
class Fixed:
    """Values of one width, as the server sends them in binary."""

    send: str
    #: As ``array`` names it.
    code: str
    arrow: pa.DataType
    #: What is added to each.
    offset: int = 0

    def packed(self, value: sql.Composable) -> sql.Composed:
        least = rf"'\x80{'00' * (array(self.code).itemsize - 1)}'"
        return sql.SQL(f"string_agg(coalesce({self.send}, {least}::bytea), ''::bytea)").format(
            value
        )

    def unpacked(self, data: bytes, rows: int) -> Any:
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
#: As bytes since the WAL began.
LSN = Fixed("pg_lsn_send({})", "q", pa.int64())
#: As microseconds since 1970.
MOMENT = Fixed("timestamptz_send({})", "q", pa.int64(), _EPOCH_US)


@dataclass(frozen=True, slots=True)
class Texts:
    """Values of any length, parted by what none of them has."""

    unit: bytes
    null: bytes
    #: Stands for a value that is not there at all, not even as null.
    absent: bytes
    #: How the value is written, and how the signs are.
    send: str
    sign: str
    arrow: pa.DataType = field(default_factory=pa.string)

    def packed(self, value: sql.Composable, there: sql.Composable | None = None) -> sql.Composed:
        """``there`` tells a null that is one from a value that is absent."""
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
        """Whether it was parted where it should be: a source may send anything as a number."""
        return not rows or (data is not None and data.count(self.unit) == rows - 1)

    def begins(self, data: bytes | None, sign: bytes) -> bool:
        """Whether any of the texts begins so."""
        return data is not None and (data.startswith(sign) or self.unit + sign in data)

    def unpacked(self, data: bytes, rows: int) -> Any:
        return self.with_absent(data)[0] if rows else pa.nulls(0, self.arrow)

    def with_absent(self, data: bytes) -> tuple[Any, Any]:
        """The array, and which of its nulls are absent; None: none is."""
        parts = pc.split_pattern(pa.array([data], pa.binary()), self.unit).values
        nothing = pa.scalar(None, pa.binary())
        absent = None
        if self.absent in data:
            absent = pc.equal(parts, self.absent)
            parts = pc.if_else(absent, nothing, parts)
        if self.null in data:
            parts = pc.if_else(pc.equal(parts, self.null), nothing, parts)
        return parts.cast(pa.string()), absent


#: Numbers, times and the like.
PLAIN = Texts(b"\x1f", b"\x1e", b"\x1d", "{}::text", "chr({})")
TEXT = Texts(b"\0", b"\xff", b"\xfe", "textsend({})", r"'\x{:02x}'::bytea")

#: How each column travels, by name.
Fields = Mapping[str, Fixed | Texts]


def packing(fields: Fields) -> sql.Composed:
    """What is selected of rows with these columns: their number, and each column as one value."""
    packed = [each.packed(sql.Identifier(name)) for name, each in fields.items()]
    return sql.SQL(", ").join([sql.SQL("count(*)"), *packed])


def fit(values: Sequence[bytes | None], fields: Fields, rows: int) -> bool:
    """Whether each column has as many values as there are rows."""
    return all(
        each.fits(data, rows)
        for data, each in zip(values, fields.values(), strict=True)
        if each is PLAIN
    )


def unpacked(values: Sequence[bytes | None], fields: Fields, rows: int) -> dict[str, Any]:
    return {
        name: each.unpacked(data or b"", rows)
        for data, (name, each) in zip(values, fields.items(), strict=True)
    }

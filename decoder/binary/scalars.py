"""Binary values of single types: numbers, identifiers, bits and bytes.

Every function takes a value's bytes and raises ``ValueError``, ``IndexError``
or ``struct.error`` if they are not a value of its type.
"""

from __future__ import annotations

import struct
from uuid import UUID

_NUMERIC_HEAD = struct.Struct(">HhHH")
_TID = struct.Struct(">IH")
_NUMERIC_NEGATIVE = 0x4000
_NUMERIC_SPECIAL = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}


def exactly(raw: bytes, size: int) -> bytes:
    """``raw``, if it is ``size`` bytes long. Raises ``ValueError`` if not."""
    if len(raw) != size:
        raise ValueError(f"{size} bytes, not {len(raw)}")
    return raw


def bool_text(raw: bytes) -> str:
    """Source: bool.c."""
    return "t" if exactly(raw, 1)[0] else "f"


def int2_text(raw: bytes) -> str:
    return str(int.from_bytes(exactly(raw, 2), "big", signed=True))


def int4_text(raw: bytes) -> str:
    return str(int.from_bytes(exactly(raw, 4), "big", signed=True))


def int8_text(raw: bytes) -> str:
    return str(int.from_bytes(exactly(raw, 8), "big", signed=True))


def uint4_text(raw: bytes) -> str:
    """oid, xid and cid, which are unsigned."""
    return str(int.from_bytes(exactly(raw, 4), "big"))


def uint8_text(raw: bytes) -> str:
    """xid8."""
    return str(int.from_bytes(exactly(raw, 8), "big"))


def numeric_text(raw: bytes) -> str:
    """Digits in base 10,000, the weight of the first, and how many decimals to show.

    Source: numeric.c, ``numeric_send()``.
    """
    count, weight, sign, scale = _NUMERIC_HEAD.unpack_from(raw)
    exactly(raw, 8 + 2 * count)
    if sign in _NUMERIC_SPECIAL:
        return _NUMERIC_SPECIAL[sign]
    if sign not in (0, _NUMERIC_NEGATIVE) or scale > 0x3FFF:
        raise ValueError("numeric sign or scale")
    groups = struct.unpack_from(f">{count}H", raw, 8)
    if any(group > 9999 for group in groups):
        raise ValueError("numeric digit")
    decimals = (scale + 3) // 4
    whole = "".join(f"{groups[i] if i < count else 0:04d}" for i in range(weight + 1)).lstrip("0")
    fraction = "".join(
        f"{groups[i] if 0 <= i < count else 0:04d}"
        for i in range(weight + 1, weight + 1 + decimals)
    )[:scale]
    minus = "-" if sign == _NUMERIC_NEGATIVE else ""
    return f"{minus}{whole or '0'}{'.' if scale else ''}{fraction}"


def bytea_text(raw: bytes) -> str:
    """As with ``bytea_output=hex``."""
    return "\\x" + raw.hex()


def char_text(raw: bytes) -> str:
    """ "char", one byte. Above ASCII its text differs between PostgreSQL versions."""
    byte = exactly(raw, 1)[0]
    if byte > 127:
        raise ValueError("a byte above ASCII")
    return chr(byte) if byte else ""


def tid_text(raw: bytes) -> str:
    block, offset = _TID.unpack(raw)
    return f"({block},{offset})"


def pg_lsn_text(raw: bytes) -> str:
    high, low = struct.unpack(">II", raw)
    return f"{high:X}/{low:X}"


def uuid_text(raw: bytes) -> str:
    return str(UUID(bytes=exactly(raw, 16)))


def bit_text(raw: bytes) -> str:
    """bit and varbit: a count of bits, then the bits. Source: varbit.c."""
    (count,) = struct.unpack_from(">i", raw)
    size = len(exactly(raw, 4 + (count + 7) // 8)) - 4
    if count < 0:
        raise ValueError("bit count")
    return f"{int.from_bytes(raw[4:], 'big'):0{size * 8}b}"[:count] if count else ""


def snapshot_text(raw: bytes) -> str:
    """txid_snapshot and pg_snapshot. Source: xid8funcs.c, ``pg_snapshot_send()``."""
    count, xmin, xmax = struct.unpack_from(">Iqq", raw)
    exactly(raw, 20 + 8 * count)
    running = struct.unpack_from(f">{count}q", raw, 20)
    return f"{xmin}:{xmax}:{','.join(map(str, running))}"

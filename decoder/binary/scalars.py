"""Binary values of single types: numbers, identifiers, bits.

Every function takes a value's bytes and raises ``ValueError``, ``IndexError``
or ``struct.error`` if they are not a value of its type.
"""

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from uuid import UUID

# float4 and float8 with ``extra_float_digits`` above 0 are written with the fewest digits that
# read back as the same number and are not exactly on the edge of the rounding interval.
# Source: d2s.c and f2s.c (Ryu).

_FLOAT4 = struct.Struct(">f")
_FLOAT8 = struct.Struct(">d")
_UINT32 = struct.Struct(">I")
_NUMERIC_HEAD = struct.Struct(">HhHH")
_TID = struct.Struct(">IH")
_NUMERIC_NEGATIVE = 0x4000
_NUMERIC_SPECIAL = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}


def float8_text(raw: bytes) -> str:
    """Return the text of an IEEE 754 double. Raises ``struct.error`` for another length."""
    (number,) = _FLOAT8.unpack(raw)
    return number_text(number)


def number_text(number: float) -> str:
    """Return a float8 as text."""
    special = _special(number)
    if special is not None:
        return special
    size = abs(number)
    digits, exponent = _digits_of(repr(size))
    if size >= 2**53:
        exact = Fraction(size)
        low = (exact + Fraction(math.nextafter(size, 0.0))) / 2
        above = math.nextafter(size, math.inf)
        high = exact * 2 - low if math.isinf(above) else (exact + Fraction(above)) / 2
        if not low < int(digits) * Fraction(10) ** exponent < high:
            digits, exponent = _shortest(exact, low, high)
    return _layout(number, digits, exponent, fixed_below=15)


def float4_text(raw: bytes) -> str:
    """Return the text of an IEEE 754 single. Raises ``struct.error`` for another length."""
    (number,) = _FLOAT4.unpack(raw)
    special = _special(number)
    if special is not None:
        return special
    size = abs(number)
    if size < 2**24 and size == int(size):
        digits, exponent = _digits_of(repr(size))
    else:
        (bits,) = _UINT32.unpack(_FLOAT4.pack(size))
        exact = Fraction(size)
        low = (exact + _float4_of(bits - 1)) / 2
        above = exact * 2 - _float4_of(bits - 1) if bits == 0x7F7FFFFF else _float4_of(bits + 1)
        digits, exponent = _shortest(exact, low, (exact + above) / 2)
    return _layout(number, digits, exponent, fixed_below=6)


def _float4_of(bits: int) -> Fraction:
    (number,) = _FLOAT4.unpack(_UINT32.pack(bits))
    return Fraction(number)


def _special(number: float) -> str | None:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    return None


def _digits_of(text: str) -> tuple[str, int]:
    """Return the digits of Python's repr without zeros at either end, and their power of ten."""
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits, exponent = whole + fraction, int(power or 0) - len(fraction)
    stripped = digits.rstrip("0")
    return stripped.lstrip("0"), exponent + len(digits) - len(stripped)


def _shortest(exact: Fraction, low: Fraction, high: Fraction) -> tuple[str, int]:
    """Return the fewest digits strictly between ``low`` and ``high`` that are nearest ``exact``."""
    exponent = math.floor(math.log10(exact)) + 1
    while True:
        scale = Fraction(10) ** exponent
        floor = math.floor(exact / scale)
        fits = [n for n in (floor, floor + 1) if n > 0 and low < n * scale < high]
        if fits:
            nearest = min(fits, key=lambda n: (abs(n * scale - exact), n % 2))
            digits = str(nearest)
            stripped = digits.rstrip("0")
            return stripped, exponent + len(digits) - len(stripped)
        exponent -= 1


def _layout(number: float, digits: str, exponent: int, *, fixed_below: int) -> str:
    """Lay out digits and their power of ten like ``%g`` of printf."""
    sign = "-" if number < 0 else ""
    scientific = exponent + len(digits) - 1
    if not -4 <= scientific < fixed_below:
        point = "." if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{point}{digits[1:]}e{scientific:+03d}"
    if exponent >= 0:
        return sign + digits + "0" * exponent
    if scientific < 0:
        return f"{sign}0.{'0' * (-scientific - 1)}{digits}"
    return f"{sign}{digits[: scientific + 1]}.{digits[scientific + 1 :]}"


def exactly(raw: bytes, size: int) -> bytes:
    """Return ``raw`` if it is ``size`` bytes long. Raises ``ValueError`` if not."""
    if len(raw) != size:
        raise ValueError(f"{size} bytes, not {len(raw)}")
    return raw


def bool_text(raw: bytes) -> str:
    """Return ``t`` or ``f``. Source: bool.c."""
    return "t" if exactly(raw, 1)[0] else "f"


def integer_text(size: int, *, signed: bool) -> Callable[[bytes], str]:
    """Return the decoder of integers of ``size`` bytes; oid, xid, cid and xid8 are unsigned."""

    def text(raw: bytes) -> str:
        return str(int.from_bytes(exactly(raw, size), "big", signed=signed))

    return text


def numeric_text(raw: bytes) -> str:
    """Return a numeric, sent in groups of four decimal digits. Source: ``numeric_send()``."""
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
    """Return a bytea as under ``bytea_output=hex``."""
    return "\\x" + raw.hex()


def char_text(raw: bytes) -> str:
    """Return a "char", one byte. Above ASCII its text differs between PostgreSQL versions."""
    byte = exactly(raw, 1)[0]
    if byte > 127:
        raise ValueError("a byte above ASCII")
    return chr(byte) if byte else ""


def tid_text(raw: bytes) -> str:
    """Return a tuple identifier as ``(block,offset)``."""
    block, offset = _TID.unpack(raw)
    return f"({block},{offset})"


def pg_lsn_text(raw: bytes) -> str:
    """Return an LSN as two hexadecimal halves."""
    high, low = struct.unpack(">II", raw)
    return f"{high:X}/{low:X}"


def uuid_text(raw: bytes) -> str:
    """Return a UUID in its usual form with hyphens."""
    return str(UUID(bytes=exactly(raw, 16)))


def bit_text(raw: bytes) -> str:
    """Return a bit or varbit, sent as a bit count and the bits. Source: varbit.c."""
    (count,) = struct.unpack_from(">i", raw)
    size = len(exactly(raw, 4 + (count + 7) // 8)) - 4
    if count < 0:
        raise ValueError("bit count")
    return f"{int.from_bytes(raw[4:], 'big'):0{size * 8}b}"[:count] if count else ""


def snapshot_text(raw: bytes) -> str:
    """Return a txid_snapshot or pg_snapshot. Source: xid8funcs.c, ``pg_snapshot_send()``."""
    count, xmin, xmax = struct.unpack_from(">Iqq", raw)
    exactly(raw, 20 + 8 * count)
    running = struct.unpack_from(f">{count}q", raw, 20)
    return f"{xmin}:{xmax}:{','.join(map(str, running))}"

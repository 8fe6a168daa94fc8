"""float4 and float8 as PostgreSQL prints them with ``extra_float_digits`` above 0.

The shortest digits that read back as the same number, but never digits that lie
exactly on the edge of what does. Source: PostgreSQL, d2s.c and f2s.c (Ryu).
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction

_FLOAT4 = struct.Struct(">f")
_FLOAT8 = struct.Struct(">d")
_UINT32 = struct.Struct(">I")


def float8_text(raw: bytes) -> str:
    """Eight bytes, IEEE 754, big-endian. Raises ``struct.error`` for another length."""
    (number,) = _FLOAT8.unpack(raw)
    return number_text(number)


def number_text(number: float) -> str:
    """A float8 as text."""
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
    """Four bytes, IEEE 754, big-endian. Raises ``struct.error`` for another length."""
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
    """Python's repr → digits without zeros at either end, and their power of ten."""
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits, exponent = whole + fraction, int(power or 0) - len(fraction)
    stripped = digits.rstrip("0")
    return stripped.lstrip("0"), exponent + len(digits) - len(stripped)


def _shortest(exact: Fraction, low: Fraction, high: Fraction) -> tuple[str, int]:
    """The fewest digits strictly between ``low`` and ``high``; of those, the nearest."""
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
    """Digits and power of ten as printf's ``%g`` would lay them out."""
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

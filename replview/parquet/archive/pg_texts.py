"""Typed values of the files as PostgreSQL writes them: the reverse of ``pg_values``.

Exact but for ``timestamp with time zone``, of which the moment is kept and not the zone it was
written in: it stands in UTC.
"""

import datetime as dt
import decimal
import re
from typing import Any

import pyarrow as pa

_PLAIN = re.compile(r'[^\s{}",\\]+')
#: The shortest digits of a float stand without an exponent below ten to this power.
_FLOAT_DIGITS = {pa.float32(): 6, pa.float64(): 15}


def pg_text(value: Any, kind: pa.DataType) -> str | None:
    """A value as ``to_pylist()`` gives it, in the server's text; None stays."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        return "{" + ",".join(_element(each, kind.value_type) for each in value) + "}"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, float):
        return _float(value, kind)
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        return _moment(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value)


def _element(value: Any, kind: pa.DataType) -> str:
    text = pg_text(value, kind)
    if text is None:
        return "NULL"
    if _PLAIN.fullmatch(text) and text.upper() != "NULL":
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _moment(value: dt.datetime) -> str:
    text = f"{value.date().isoformat()} {value.time().replace(microsecond=0, tzinfo=None)}"
    if value.microsecond:
        text += f".{value.microsecond:06d}".rstrip("0")
    return text + ("+00" if value.tzinfo is not None else "")


def _float(value: float, kind: pa.DataType) -> str:
    """Source: PostgreSQL, ryu: the shortest digits that read back as the same number."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = str(pa.scalar(value, kind).cast(pa.string()).as_py())
    sign, digits, exponent = decimal.Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    if not any(digits):
        return "-0" if sign else "0"
    text = "".join(map(str, digits)).rstrip("0")
    exponent += len(digits) - len(text)
    point = len(text) + exponent - 1
    minus = "-" if sign else ""
    if -4 <= point < _FLOAT_DIGITS.get(kind, 15):
        number = decimal.Decimal((0, tuple(map(int, text)), exponent))
        return f"{minus}{number:f}"
    mantissa = f"{text[0]}.{text[1:]}" if len(text) > 1 else text
    return f"{minus}{mantissa}e{'-' if point < 0 else '+'}{abs(point):02d}"

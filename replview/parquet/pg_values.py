"""Conversion of the server's text values to Arrow arrays, by whole columns, and back.

A value that does not fit its type (see ``slice_schemas``) becomes null in the array, and its text
an entry of ``raw``; so do marked values (masked, binary …). ``pg_text`` is the exact reverse,
except that a ``timestamp with time zone`` keeps its moment but not the zone it was written in: it
becomes UTC.
"""

import datetime as dt
import decimal
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

#: First and last moment that every reader supports (years 1 to 9999), in microseconds since 1970.
FIRST_US = -62_135_596_800_000_000
LAST_US = 253_402_300_799_999_999
_BOOLEANS = {"t": True, "true": True, "f": False, "false": False}
# Matches times whose offset may have seconds, as before 1900. Arrow cannot read these.
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?)([-+])(\d\d)(?::(\d\d))?(?::(\d\d))?"
)
_ELEMENT = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"|([^",{}\\\s][^",{}\\]*)', re.DOTALL)
_ARRAY = re.compile(
    r'\{(?:(?:"[^"\\]*(?:\\.[^"\\]*)*"|[^",{}\\\s][^",{}\\]*)(?:,(?!\})|(?=\})))*\}', re.DOTALL
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_UNQUOTED = re.compile(r'[^\s{}",\\]+')
#: Power of ten below which PostgreSQL prints a float without an exponent.
_FLOAT_DIGITS = {pa.float32(): 6, pa.float64(): 15}
#: Values of a failing part at most that are converted one by one.
_SMALL_PART = 64


@dataclass(slots=True)
class Converted:
    """An array, and the texts that did not fit its type."""

    array: pa.Array
    #: Text of each row that its type could not hold.
    raw: dict[int, str] = field(default_factory=dict)


def convert(values: Sequence[Any], arrow: pa.DataType) -> Converted:
    """Return values of the record (text, None, or a mark) as an array of this type."""
    raw = {
        row: orjson.dumps(value).decode()
        for row, value in enumerate(values)
        if isinstance(value, dict)
    }
    texts = [None if row in raw else value for row, value in enumerate(values)] if raw else values
    converted = _convert_texts(texts, arrow)
    converted.raw |= raw
    return converted


def _convert_texts(texts: Sequence[str | None], arrow: pa.DataType) -> Converted:
    if pa.types.is_string(arrow):
        return Converted(pa.array(texts, pa.string()))
    if pa.types.is_list(arrow):
        return _convert_arrays(texts, arrow)
    if pa.types.is_boolean(arrow):
        return _one_by_one(texts, arrow, _BOOLEANS.get)
    if pa.types.is_binary(arrow):
        return _one_by_one(texts, arrow, _parse_bytea)
    try:
        array = pa.array(texts, pa.string()).cast(arrow)
    except pa.ArrowInvalid:
        return _one_by_one(texts, arrow, partial(_parse_scalar, arrow))
    return _in_range(texts, array)


def _in_range(texts: Sequence[str | None], array: pa.Array) -> Converted:
    """Return the array without times that an offset moved out of the supported years."""
    if not pa.types.is_timestamp(array.type):
        return Converted(array)
    numbers = array.cast(pa.int64())
    in_range = pc.and_(pc.greater_equal(numbers, FIRST_US), pc.less_equal(numbers, LAST_US))
    if pc.all(in_range).as_py() is not False:
        return Converted(array)
    raw = {row: texts[row] or "" for row, fits in enumerate(in_range.to_pylist()) if fits is False}
    return Converted(pc.if_else(in_range, array, pa.scalar(None, array.type)), raw)


def _one_by_one(
    texts: Sequence[str | None], arrow: pa.DataType, parse: Callable[[str], Any]
) -> Converted:
    values = [None if text is None else parse(text) for text in texts]
    null_rows = [row for row, value in enumerate(values) if value is None]
    raw = {row: text for row in null_rows if (text := texts[row]) is not None}
    return Converted(pa.array(values, arrow), raw)


def _parse_bytea(text: str) -> bytes | None:
    """Parse bytea's hex form; None for the older escape form, which stays text."""
    try:
        return bytes.fromhex(text[2:]) if text.startswith("\\x") else None
    except ValueError:
        return None


def _parse_scalar(arrow: pa.DataType, text: str) -> Any:
    """Return one value as Arrow reads it; None where it does not fit."""
    if pa.types.is_timestamp(arrow) and arrow.tz and (moment := _odd_offset(text)) is not None:
        return moment
    try:
        scalar = pa.array([text], pa.string()).cast(arrow)
    except pa.ArrowInvalid:
        return None
    return None if _in_range([text], scalar).raw else scalar[0].as_py()


def _odd_offset(text: str) -> dt.datetime | None:
    """Parse a moment whose offset has seconds; None for any other."""
    match = _MOMENT.fullmatch(text)
    if match is None or match[5] is None:
        return None
    offset = dt.timedelta(hours=int(match[3]), minutes=int(match[4]), seconds=int(match[5]))
    moment = dt.datetime.fromisoformat(match[1]).replace(tzinfo=dt.UTC)
    try:
        return moment - offset if match[2] == "+" else moment + offset
    except OverflowError:
        return None


def _convert_arrays(texts: Sequence[str | None], arrow: pa.DataType) -> Converted:
    """Convert arrays of one dimension, with the elements of all rows at once."""
    elements: list[str | None] = []
    rows: list[int] = []
    offsets, raw = [0], {}
    for row, text in enumerate(texts):
        parsed = None if text is None else parse_array(text)
        if text is not None and parsed is None:
            raw[row] = text
        if parsed:
            elements += parsed
            rows += [row] * len(parsed)
        offsets.append(len(elements))
    values = _convert_texts(elements, arrow.value_type)
    # If one element does not fit, its whole row is raw.
    raw |= {rows[index]: texts[rows[index]] or "" for index in values.raw}
    is_null = [text is None or row in raw for row, text in enumerate(texts)]
    array = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), values.array, type=arrow, mask=pa.array(is_null, pa.bool_())
    )
    return Converted(array, raw)


def parse_array(text: str) -> list[str | None] | None:
    """Parse ``{1,NULL,"a,b"}``; None for more dimensions, explicit bounds, or another form."""
    if _ARRAY.fullmatch(text) is None:
        return None
    return [
        (None if plain == "NULL" else plain) if plain else _ESCAPE.sub(r"\1", quoted)
        for quoted, plain in _ELEMENT.findall(text)
    ]


def pg_text(value: object, kind: pa.DataType) -> str | None:
    """Return a value from ``to_pylist()`` in the server's text form; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        return "{" + ",".join(_element_text(element, kind.value_type) for element in value) + "}"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, float):
        return _float_text(value, kind)
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        return _timestamp_text(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value)


def _element_text(value: object, kind: pa.DataType) -> str:
    text = pg_text(value, kind)
    if text is None:
        return "NULL"
    if _UNQUOTED.fullmatch(text) and text.upper() != "NULL":
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _timestamp_text(value: dt.datetime) -> str:
    text = f"{value.date().isoformat()} {value.time().replace(microsecond=0, tzinfo=None)}"
    if value.microsecond:
        text += f".{value.microsecond:06d}".rstrip("0")
    return text + ("+00" if value.tzinfo is not None else "")


def _float_text(value: float, kind: pa.DataType) -> str:
    """Return a float as PostgreSQL prints it: the shortest digits that read back the same.

    Source: PostgreSQL, ryu.
    """
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


# ``convert_array`` casts a whole column at a time. If the cast fails, the column is halved until
# only small parts with misfits remain, which go through ``convert``. Both give the same result, and
# one NaN among a million numbers does not cost a million calls.


def convert_array(texts: pa.Array, arrow: pa.DataType) -> Converted:
    """Return an array of texts as one of this type; a misfit is null, with its text in ``raw``."""
    if pa.types.is_string(arrow):
        return Converted(texts)
    if texts.null_count == len(texts):
        return Converted(pa.nulls(len(texts), arrow))
    if pa.types.is_list(arrow) or pa.types.is_binary(arrow):
        return convert(texts.to_pylist(), arrow)
    array = _cast_array(texts, arrow)
    if array is not None:
        return Converted(array)
    if len(texts) <= _SMALL_PART:
        return convert(texts.to_pylist(), arrow)
    half = len(texts) // 2
    low, high = convert_array(texts.slice(0, half), arrow), convert_array(texts.slice(half), arrow)
    raw = low.raw | {half + row: text for row, text in high.raw.items()}
    return Converted(pa.concat_arrays([low.array, high.array]), raw)


def _cast_array(texts: pa.Array, arrow: pa.DataType) -> Any:
    """Return the whole array cast to the type; None where a value does not fit."""
    if pa.types.is_boolean(arrow):
        if pc.index_in(texts, pa.array([*_BOOLEANS])).null_count > texts.null_count:
            return None
        is_true = pc.is_in(texts, pa.array([text for text, value in _BOOLEANS.items() if value]))
        return pc.if_else(texts.is_valid(), is_true, pa.scalar(None, pa.bool_()))
    try:
        array = texts.cast(arrow)
    except pa.ArrowInvalid:
        return None
    if pa.types.is_timestamp(arrow):
        extremes = pc.min_max(array.cast(pa.int64()))
        lowest, highest = extremes["min"].as_py(), extremes["max"].as_py()
        if lowest is not None and (lowest < FIRST_US or highest > LAST_US):
            return None
    return array

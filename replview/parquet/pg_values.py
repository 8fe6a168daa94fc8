"""The server's texts as Arrow arrays, a whole column at a time where all of it fits; and back.

A value that does not fit its type (see ``slice_schemas``) is null in the array and stands, as it
was, among the ``raw`` ones. Marked values (masked, binary …) are raw, too.
``pg_text`` is the reverse, exact but for ``timestamp with time zone``, of which the moment is kept
and not the zone it was written in: it stands in UTC.
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

#: Microseconds since 1970 of the first and last moment that every reader knows (years 1 to 9999).
FIRST_US = -62_135_596_800_000_000
LAST_US = 253_402_300_799_999_999
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 (what is counted from it has its offset taken off)
_TRUTHS = {"t": True, "true": True, "f": False, "false": False}
# An offset with seconds, as zones had before 1900: Arrow reads none.
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?)([-+])(\d\d)(?::(\d\d))?(?::(\d\d))?"
)
_ELEMENT = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"|([^",{}\\\s][^",{}\\]*)', re.DOTALL)
_ARRAY = re.compile(
    r'\{(?:(?:"[^"\\]*(?:\\.[^"\\]*)*"|[^",{}\\\s][^",{}\\]*)(?:,(?!\})|(?=\})))*\}', re.DOTALL
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = re.compile(r'[^\s{}",\\]+')
#: The shortest digits of a float stand without an exponent below ten to this power.
_FLOAT_DIGITS = {pa.float32(): 6, pa.float64(): 15}
#: A failing part as small as this is converted value by value.
_SMALL = 64


@dataclass(slots=True)
class Converted:
    array: pa.Array
    #: Row → the text that its type could not hold.
    raw: dict[int, str] = field(default_factory=dict)


def convert(values: Sequence[Any], arrow: pa.DataType) -> Converted:
    """Values as the record keeps them (text, None, or a mark) as an array of this type."""
    raw = {
        place: orjson.dumps(value).decode()
        for place, value in enumerate(values)
        if isinstance(value, dict)
    }
    texts = (
        [None if place in raw else value for place, value in enumerate(values)] if raw else values
    )
    converted = _convert_texts(texts, arrow)
    converted.raw |= raw
    return converted


def _convert_texts(texts: Sequence[str | None], arrow: pa.DataType) -> Converted:
    if pa.types.is_string(arrow):
        return Converted(pa.array(texts, pa.string()))
    if pa.types.is_list(arrow):
        return _lists(texts, arrow)
    if pa.types.is_boolean(arrow):
        return _one_by_one(texts, arrow, _TRUTHS.get)
    if pa.types.is_binary(arrow):
        return _one_by_one(texts, arrow, _bytes)
    try:
        array = pa.array(texts, pa.string()).cast(arrow)
    except pa.ArrowInvalid:
        return _one_by_one(texts, arrow, partial(_scalar, arrow))
    return _in_range(texts, array)


def _in_range(texts: Sequence[str | None], array: pa.Array) -> Converted:
    """Times that an offset moved out of the years that every reader knows are raw."""
    if not pa.types.is_timestamp(array.type):
        return Converted(array)
    numbers = array.cast(pa.int64())
    inside = pc.and_(pc.greater_equal(numbers, FIRST_US), pc.less_equal(numbers, LAST_US))
    if pc.all(inside).as_py() is not False:
        return Converted(array)
    raw = {n: texts[n] or "" for n, good in enumerate(inside.to_pylist()) if good is False}
    return Converted(pc.if_else(inside, array, pa.scalar(None, array.type)), raw)


def _one_by_one(
    texts: Sequence[str | None], arrow: pa.DataType, read: Callable[[str], Any]
) -> Converted:
    values = [None if text is None else read(text) for text in texts]
    lost = [n for n, value in enumerate(values) if value is None]
    raw = {n: text for n in lost if (text := texts[n]) is not None}
    return Converted(pa.array(values, arrow), raw)


def _bytes(text: str) -> bytes | None:
    """bytea's hex form; the older escape form stays as text."""
    try:
        return bytes.fromhex(text[2:]) if text.startswith("\\x") else None
    except ValueError:
        return None


def _scalar(arrow: pa.DataType, text: str) -> Any:
    """One value as Arrow reads it; None where it does not fit."""
    if pa.types.is_timestamp(arrow) and arrow.tz and (odd := _odd_offset(text)) is not None:
        return odd
    try:
        scalar = pa.array([text], pa.string()).cast(arrow)
    except pa.ArrowInvalid:
        return None
    return None if _in_range([text], scalar).raw else scalar[0].as_py()


def _odd_offset(text: str) -> dt.datetime | None:
    """A moment whose offset has seconds; None where it has none."""
    found = _MOMENT.fullmatch(text)
    if found is None or found[5] is None:
        return None
    offset = dt.timedelta(hours=int(found[3]), minutes=int(found[4]), seconds=int(found[5]))
    moment = dt.datetime.fromisoformat(found[1]).replace(tzinfo=dt.UTC)
    try:
        return moment - offset if found[2] == "+" else moment + offset
    except OverflowError:
        return None


def _lists(texts: Sequence[str | None], arrow: pa.DataType) -> Converted:
    """Arrays of one dimension; the elements of all rows are converted together."""
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
    inside = _convert_texts(elements, arrow.value_type)
    # A row with an element that does not fit is raw as a whole.
    raw |= {rows[place]: texts[rows[place]] or "" for place in inside.raw}
    missing = [text is None or row in raw for row, text in enumerate(texts)]
    array = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), inside.array, type=arrow, mask=pa.array(missing, pa.bool_())
    )
    return Converted(array, raw)


def parse_array(text: str) -> list[str | None] | None:
    """``{1,NULL,"a,b"}``; None for more dimensions, bounds of its own, or another form."""
    if _ARRAY.fullmatch(text) is None:
        return None
    return [
        (None if plain == "NULL" else plain) if plain else _ESCAPE.sub(r"\1", quoted)
        for quoted, plain in _ELEMENT.findall(text)
    ]


def pg_text(value: object, kind: pa.DataType) -> str | None:
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


def _element(value: object, kind: pa.DataType) -> str:
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


# What ``convert`` does value by value is cast here a whole column at a time; where a cast
# fails the column is halved until the values that do not fit stand alone, and those go through
# ``convert``. So both give the same, and one NaN among a million numbers costs no million calls.


def convert_array(texts: pa.Array, arrow: pa.DataType) -> Converted:
    """An array of texts as one of this type; what does not fit is null, its text among ``raw``."""
    if pa.types.is_string(arrow):
        return Converted(texts)
    if texts.null_count == len(texts):
        return Converted(pa.nulls(len(texts), arrow))
    if pa.types.is_list(arrow) or pa.types.is_binary(arrow):
        return convert(texts.to_pylist(), arrow)
    found = _cast(texts, arrow)
    if found is not None:
        return Converted(found)
    if len(texts) <= _SMALL:
        return convert(texts.to_pylist(), arrow)
    half = len(texts) // 2
    low, high = convert_array(texts.slice(0, half), arrow), convert_array(texts.slice(half), arrow)
    raw = low.raw | {half + place: text for place, text in high.raw.items()}
    return Converted(pa.concat_arrays([low.array, high.array]), raw)


def _cast(texts: pa.Array, arrow: pa.DataType) -> Any:
    """The whole array cast; None where something does not fit."""
    if pa.types.is_boolean(arrow):
        if pc.index_in(texts, pa.array([*_TRUTHS])).null_count > texts.null_count:
            return None
        true = pc.is_in(texts, pa.array([text for text, value in _TRUTHS.items() if value]))
        return pc.if_else(texts.is_valid(), true, pa.scalar(None, pa.bool_()))
    try:
        found = texts.cast(arrow)
    except pa.ArrowInvalid:
        return None
    if pa.types.is_timestamp(arrow):
        span = pc.min_max(found.cast(pa.int64()))
        lowest, highest = span["min"].as_py(), span["max"].as_py()
        if lowest is not None and (lowest < FIRST_US or highest > LAST_US):
            return None
    return found

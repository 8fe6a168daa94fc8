"""Columns of the server's texts as typed arrays, in Arrow alone where everything fits.

What ``pg_values.convert`` does value by value is cast here a whole column at a time; where a cast
fails the column is halved until the values that do not fit stand alone, and those go through
``convert``. So both give the same, and one NaN among a million numbers costs no million calls.
"""

from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replview.parquet.pg_values import FIRST_US, LAST_US, Converted, convert

#: A failing part as small as this is converted value by value.
_SMALL = 64


@cache
def _truths() -> tuple[pa.Array, pa.Array]:
    """What true and false are written as. (Made late: the first array imports pandas, too.)"""
    return pa.array(["t", "true"]), pa.array(["f", "false"])


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
    raw = {**low.raw, **{half + place: text for place, text in high.raw.items()}}
    return Converted(pa.concat_arrays([low.array, high.array]), raw)


def _cast(texts: pa.Array, arrow: pa.DataType) -> Any:
    """The whole array cast; None where something does not fit."""
    if pa.types.is_boolean(arrow):
        true, false = (pc.is_in(texts, value_set=each) for each in _truths())
        known = pc.or_(pc.or_(true, false), pc.is_null(texts))
        if not pc.all(known).as_py():
            return None
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

"""Parse and format the amounts of alert rules: sizes, times and shares."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from replview.text.formats import NO_BREAK, age_words, bytes_words
from replview.text.problem import CodedProblem
from replview.text.sizes import exact_size, parse_size


class Unit(StrEnum):
    """The unit of a rule's threshold and of the measured values."""

    BYTES = "bytes"
    #: A fraction from 0 to 1.
    SHARE = "share"
    SECONDS = "seconds"
    #: 1 if the condition is true, else 0; such a rule has no threshold.
    YES_NO = "yes_no"


_UNIT_SECONDS = {
    "ms": 0.001, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600,
    "hour": 3600, "d": 86400, "day": 86400,
}  # fmt: skip
_AMOUNT = re.compile(r"\s*(\d{1,15}(?:[.,]\d{1,6})?)\s*([a-zA-Z%]{0,7})\s*", re.ASCII)
_SECONDS_LIMIT = 366 * 86400
_BYTES_LIMIT = 1 << 60
_HINTS = {
    Unit.SHARE: "Write a share between 0 and 100 %, like 90 %",
    Unit.BYTES: "Write a size with its unit, like 10 GB",
    Unit.SECONDS: "Write a length of time with its unit, like 30 s, 5 min or 6 h",
    Unit.YES_NO: "This kind has no threshold",
}


class AmountProblem(CodedProblem, ValueError):
    """The text is no amount of this unit; the message says what to write."""

    code_of_all = "bad_amount"
    status = 400


def parse_amount(text: str, unit: Unit) -> float:
    """Parse ``10 GB`` into bytes, ``5 min`` into seconds, or ``90 %`` into 0.9.

    Raises ``AmountProblem``.
    """
    if unit == Unit.BYTES:
        return _parse_bytes(text)
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise AmountProblem(_HINTS[unit])
    number, unit_name = float(match[1].replace(",", ".")), match[2].lower()
    if unit == Unit.SHARE:
        value = number if unit_name == "" and number <= 1 else number / 100
        valid = unit_name in ("", "%") and 0 < value <= 1
    else:
        unit_name = unit_name if unit_name in _UNIT_SECONDS else unit_name.removesuffix("s")
        value = number * _UNIT_SECONDS.get(unit_name, 0)
        valid = unit_name in _UNIT_SECONDS and value <= _SECONDS_LIMIT
    if not valid:
        raise AmountProblem(_HINTS[unit])
    return value


def _parse_bytes(text: str) -> float:
    try:
        size = parse_size(text.replace(",", "."))
    except ValueError:
        size = 0
    if not 0 < size <= _BYTES_LIMIT:
        raise AmountProblem(_HINTS[Unit.BYTES])
    return float(size)


def amount_words(value: float | None, unit: Unit) -> str:
    """Format a value as ``10 GB``, ``90 %`` or ``5 min``; None as ``unknown``."""
    if value is None:
        return "unknown"
    if unit == Unit.SHARE:
        return f"{_format_number(value * 100, 1)} %"
    if unit == Unit.BYTES:
        return bytes_words(value).replace(NO_BREAK, " ")
    if unit == Unit.SECONDS and 0 < value < 10:
        return f"{_format_number(value, 1)} s"
    if unit == Unit.SECONDS:
        return age_words(value).replace(NO_BREAK, " ")
    return "yes" if value >= 1 else "no"


def sizes_text(detail: Mapping[str, Any], part: str, whole: str) -> str:
    """Return `` (5 GB of 10 GB)`` for two sizes of an alert; empty if one is unknown."""
    if detail.get(part) is None or detail.get(whole) is None:
        return ""
    part_size, whole_size = (amount_words(detail[name], Unit.BYTES) for name in (part, whole))
    return f" ({part_size} of {whole_size})"


def exact_words(value: float | None, unit: Unit) -> str:
    """Format a value so that parsing it gives the same value; None as an empty text."""
    if value is None:
        return ""
    if unit == Unit.SHARE:
        return f"{_format_number(value * 100, 4)} %"
    if unit == Unit.BYTES:
        return exact_size(round(value))
    for size, unit_name in ((86400, "d"), (3600, "h"), (60, "min")):
        if value >= size and value % size == 0:
            return f"{value / size:.0f} {unit_name}"
    return f"{_format_number(value, 3)} s"


def _format_number(number: float, digits: int) -> str:
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

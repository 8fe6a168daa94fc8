"""Amounts as people write and read them: ``10 GB``, ``90 %``, ``5 min``; in plain spaces.

PostgreSQL's step: a kB is 1024 bytes.
"""

import math
import re

from replview.features.alerts.rules.kinds import Unit

_SIZES = {"b": 0, "kb": 1, "mb": 2, "gb": 3, "tb": 4, "pb": 5}
_SIZE_WORDS = ("B", "kB", "MB", "GB", "TB", "PB")
_TIMES = {
    "ms": 0.001, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600,
    "hour": 3600, "d": 86400, "day": 86400,
}  # fmt: skip
_AMOUNT = re.compile(r"\s*(\d{1,15}(?:[.,]\d{1,6})?)\s*([a-zA-Z%]{0,7})\s*", re.ASCII)
_SECONDS_LIMIT = 366 * 86400
_BYTES_LIMIT = 1 << 60


class AmountError(ValueError):
    """What was written is no amount of this unit; the text says what is."""


def parse_amount(text: str, unit: Unit) -> float:
    """``10 GB`` in bytes, ``5 min`` in seconds, ``90 %`` as 0.9. Raises ``AmountError``."""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise AmountError(_expected(unit))
    number, word = float(match[1].replace(",", ".")), match[2].lower()
    if unit == Unit.SHARE:
        value = number if word == "" and number <= 1 else number / 100
        known = word in ("", "%") and 0 < value <= 1
    elif unit == Unit.BYTES:
        value = number * 1024.0 ** _SIZES.get(word, 0)
        known = word in _SIZES and 0 < value <= _BYTES_LIMIT
    else:
        word = word if word in _TIMES else word.removesuffix("s")
        value = number * _TIMES.get(word, 0)
        known = word in _TIMES and value <= _SECONDS_LIMIT
    if not known:
        raise AmountError(_expected(unit))
    return value


def amount_words(value: float | None, unit: Unit) -> str:
    """``10 GB``, ``90 %``, ``5 min``; unknown says so."""
    if value is None:
        return "unknown"
    if unit == Unit.SHARE:
        return f"{_figure(value * 100, 1)} %"
    if unit == Unit.BYTES:
        return _bytes_words(value)
    if unit == Unit.SECONDS:
        return _age_words(value)
    return "yes" if value >= 1 else "no"


def exact_words(value: float | None, unit: Unit) -> str:
    """As a form shows it, so that what is sent back is the same; empty: none."""
    if value is None:
        return ""
    if unit == Unit.SHARE:
        return f"{_figure(value * 100, 4)} %"
    if unit == Unit.BYTES:
        power = min(int(math.log(max(value, 1), 1024)), len(_SIZE_WORDS) - 1)
        return f"{_figure(value / 1024**power, 6)} {_SIZE_WORDS[power]}"
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if value >= size and value % size == 0:
            return f"{value / size:.0f} {word}"
    return f"{_figure(value, 3)} s"


def _bytes_words(value: float) -> str:
    size, power = float(value), 0
    while size >= 1023.5 and power < len(_SIZE_WORDS) - 1:
        size, power = size / 1024, power + 1
    precise = power and (size < 10 or (power >= 3 and size < 100))
    return f"{_figure(size, 1 if precise else 0)} {_SIZE_WORDS[power]}"


def _age_words(value: float) -> str:
    seconds = max(int(value), 0)
    for size, unit, small, small_unit in (
        (86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"),
    ):  # fmt: skip
        if seconds >= size:
            rest = 0 if unit == "min" and seconds >= 600 else seconds % size // small
            return f"{seconds // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{_figure(value, 1)} s" if 0 < value < 10 else f"{seconds} s"


def _figure(number: float, digits: int) -> str:
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _expected(unit: Unit) -> str:
    return {
        Unit.SHARE: "Write a share between 0 and 100 %, like 90 %",
        Unit.BYTES: "Write a size with its unit, like 10 GB",
        Unit.SECONDS: "Write a length of time with its unit, like 30 s, 5 min or 6 h",
        Unit.YES_NO: "This kind has no threshold",
    }[unit]

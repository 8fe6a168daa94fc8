"""``timestamp with time zone`` as text → microseconds since 2000-01-01 UTC.

Other output plugins than pgoutput write commit times this way. Years reach from
4713 BC to 294276, which Python's ``datetime`` does not.
"""

from __future__ import annotations

import time
from typing import Final

from decoder.scalars import INFINITY_US, MINUS_INFINITY_US

_DIGITS: Final = frozenset("0123456789")
_DAYS_IN_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
#: From 0000-03-01, where ``_day_number`` begins to count, to 2000-01-01.
_POSTGRES_EPOCH_DAY: Final = 730425


def us_from_text(text: str) -> int:
    """Read ``2026-11-20 13:31:06.767326+00``, as the server writes it in ISO style.

    Any offset will do, as will ``… BC`` and ``±infinity``. Raises ``ValueError``
    for anything else. Source: PostgreSQL, ``timestamptz_to_str()``.
    """
    if text == "infinity":
        return INFINITY_US
    if text == "-infinity":
        return MINUS_INFINITY_US
    stamp = text.removesuffix(" BC")
    date, _, time = stamp.partition(" ")
    year, month, day = _numbers(date, "-", 3)
    if not (1 <= month <= 12 and 1 <= day <= _DAYS_IN_MONTH[month - 1]):
        raise ValueError(f"not a date: {date!r}")
    if stamp is not text and stamp != text:
        year = 1 - year
    clock, offset = _split_offset(time)
    seconds_text, _, fraction = clock.partition(".")
    hour, minute, second = _numbers(seconds_text, ":", 3)
    seconds = hour * 3600 + minute * 60 + second - offset
    days = _day_number(year, month, day) - _POSTGRES_EPOCH_DAY
    return (days * 86_400 + seconds) * 1_000_000 + _fraction_us(fraction)


def _numbers(text: str, separator: str, count: int) -> list[int]:
    parts = text.split(separator)
    # Longer numbers than any year are no numbers; int() would take its time.
    if len(parts) != count or not all(
        0 < len(part) <= 6 and set(part) <= _DIGITS for part in parts
    ):
        raise ValueError(f"not {count} numbers: {text!r}")
    return [int(part) for part in parts]


def _split_offset(time: str) -> tuple[str, int]:
    """The time of day, and the seconds that its zone is ahead of UTC."""
    for sign, factor in (("+", 1), ("-", -1)):
        clock, found, zone = time.partition(sign)
        if found:
            parts = _numbers(zone, ":", zone.count(":") + 1)
            if len(parts) > 3:
                break
            hours, minutes, seconds = (*parts, 0, 0)[:3]
            return clock, factor * (hours * 3600 + minutes * 60 + seconds)
    raise ValueError(f"no time zone: {time!r}")


def _fraction_us(fraction: str) -> int:
    if len(fraction) > 6 or not set(fraction) <= _DIGITS:
        raise ValueError(f"not a fraction of a second: {fraction!r}")
    return int(fraction.ljust(6, "0"))


def _day_number(year: int, month: int, day: int) -> int:
    """Days since 0000-03-01 in the Gregorian calendar, reaching back without end."""
    # A year that begins in March has its leap day last.
    year -= month < 3
    month = (month + 9) % 12
    leap_days = year // 4 - year // 100 + year // 400
    return year * 365 + leap_days + (month * 153 + 2) // 5 + day - 1


#: Seconds from 1970 to 2000.
_POSTGRES_EPOCH_SECONDS = 946_684_800


def now_us() -> int:
    """The time in microseconds since 2000-01-01 UTC."""
    return int((time.time() - _POSTGRES_EPOCH_SECONDS) * 1_000_000)

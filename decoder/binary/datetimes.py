"""Binary dates and times, decoded to the text of ``datestyle=ISO`` with the time zone UTC.

Source: PostgreSQL, datetime.c (``EncodeDateTime()``, ``EncodeInterval()``), date.c,
timestamp.c.
"""

import struct

_DAY_US = 86_400_000_000
_JULIAN_DAY_OF_2000 = 2_451_545
_INT32_MAX, _INT32_MIN = 2**31 - 1, -(2**31)
_INT64_MAX, _INT64_MIN = 2**63 - 1, -(2**63)


def _year_month_day(days: int) -> tuple[int, int, int]:
    """Return the proleptic Gregorian date of ``days`` since 2000-01-01; year 0 is 1 BC.

    Source: datetime.c, ``j2date()``, from Richards' algorithm, with Python's
    unbounded integers.
    """
    shifted = days + _JULIAN_DAY_OF_2000 + 32044
    century, rest = divmod(4 * shifted + 3, 146_097)
    year, rest = divmod(4 * (rest // 4) + 3, 1461)
    month, rest = divmod(5 * (rest // 4) + 2, 153)
    day = rest // 5 + 1
    return 100 * century + year - 4800 + month // 10, month + 3 - 12 * (month // 10), day


def _date(days: int) -> tuple[str, str]:
    """Return the date as ``2026-11-20``, and the era to put after the time: `` BC`` or nothing."""
    year, month, day = _year_month_day(days)
    era = "" if year > 0 else " BC"
    return f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day:02d}", era


def _seconds(us: int) -> str:
    """Return the seconds within the minute, without zeros at the end of the fraction."""
    whole, fraction = divmod(us, 1_000_000)
    return f"{whole:02d}" + (f".{fraction:06d}".rstrip("0") if fraction else "")


def _time(us: int) -> str:
    minutes, rest = divmod(us, 60_000_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{_seconds(rest)}"


def date_text(raw: bytes) -> str:
    """Return a date, from days since 2000-01-01."""
    (days,) = struct.unpack(">i", raw)
    if days in (_INT32_MAX, _INT32_MIN):
        return "infinity" if days > 0 else "-infinity"
    date, era = _date(days)
    return date + era


def time_text(raw: bytes) -> str:
    """Return a time of day, from microseconds; ``24:00:00`` is valid."""
    (us,) = struct.unpack(">q", raw)
    if not 0 <= us <= _DAY_US:
        raise ValueError("time of day")
    return _time(us)


def timetz_text(raw: bytes) -> str:
    """Return a time of day and its zone, which is sent in seconds *west* of UTC."""
    west = struct.unpack(">qi", raw)[1]
    hours, rest = divmod(abs(west), 3600)
    minutes, seconds = divmod(rest, 60)
    zone = f"{'-' if west > 0 else '+'}{hours:02d}"
    if minutes or seconds:
        zone += f":{minutes:02d}"
    if seconds:
        zone += f":{seconds:02d}"
    return time_text(raw[:8]) + zone


def timestamp_text(raw: bytes) -> str:
    """Return a timestamp without time zone, from microseconds since 2000-01-01."""
    return _timestamp(raw, "")


def timestamptz_text(raw: bytes) -> str:
    """Return a timestamp with the offset ``+00``, as under ``timezone=UTC``."""
    return _timestamp(raw, "+00")


def _timestamp(raw: bytes, zone: str) -> str:
    (us,) = struct.unpack(">q", raw)
    if us in (_INT64_MAX, _INT64_MIN):
        return "infinity" if us > 0 else "-infinity"
    days, time_us = divmod(us, _DAY_US)
    date, era = _date(days)
    return f"{date} {_time(time_us)}{zone}{era}"


def interval_text(raw: bytes) -> str:
    """Return months, days and microseconds, each with its own sign; infinite since 17."""
    us, days, months = struct.unpack(">qii", raw)
    if (us, days, months) == (_INT64_MAX, _INT32_MAX, _INT32_MAX):
        return "infinity"
    if (us, days, months) == (_INT64_MIN, _INT32_MIN, _INT32_MIN):
        return "-infinity"
    year_sign = -1 if months < 0 else 1
    parts: list[str] = []
    was_negative = False
    for count, unit in (
        (abs(months) // 12 * year_sign, "year"),
        (abs(months) % 12 * year_sign, "mon"),
        (days, "day"),
    ):
        if count:
            plus = "+" if was_negative and count > 0 else ""
            parts.append(f"{plus}{count} {unit}{'' if count == 1 else 's'}")
            was_negative = count < 0
    if us or not parts:
        sign = "-" if us < 0 else "+" if was_negative else ""
        parts.append(sign + _time(abs(us)))
    return " ".join(parts)

"""LSN, transaction id and time: the scalars of which every message is made."""

import time
from datetime import UTC, datetime, timedelta
from typing import Final, NewType, Self

#: A transaction id: 32 bits, unsigned, and it wraps.
XID = NewType("XID", int)

#: The instant from which PostgreSQL counts time.
POSTGRES_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
#: The timestamps ``infinity`` and ``-infinity``, in microseconds since the epoch.
INFINITY_US: Final = 2**63 - 1
MINUS_INFINITY_US: Final = -(2**63)

_MICROSECOND: Final = timedelta(microseconds=1)
_DIGITS: Final = frozenset("0123456789")
_DAYS_IN_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
#: Days from 0000-03-01, which ``_day_number`` counts as 0, to 2000-01-01.
_POSTGRES_EPOCH_DAY: Final = 730425
#: Seconds from 1970 to 2000.
_POSTGRES_EPOCH_SECONDS = 946_684_800


class LSN(int):
    """A position in the WAL: 64 bits, unsigned; 0/0 means "none".

    It is an ``int`` in every way, and prints as PostgreSQL writes it: ``0/1B2C3D8``.
    Source: PostgreSQL, pg_lsn.c.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``0/1B2C3D8``. Raises ``ValueError`` for anything else."""
        high, slash, low = text.partition("/")
        digits = set("0123456789abcdefABCDEF")
        if not (slash and 0 < len(high) <= 8 and 0 < len(low) <= 8 and digits >= set(high + low)):
            raise ValueError(f"not an LSN: {text!r}")
        return cls(int(high, 16) << 32 | int(low, 16))

    def __str__(self) -> str:
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"

    def __repr__(self) -> str:
        return f"LSN('{self}')"

    def __format__(self, spec: str) -> str:
        # An f-string prints the readable form; f"{lsn:d}" prints the number.
        return format(int(self), spec) if spec else str(self)


def lsn_from_text(text: str | None) -> LSN | None:
    """Read a position such as ``0/1B2C3D8``; None for None. Raises ``ValueError``."""
    return None if text is None else LSN.parse(text)


def lsn_text(position: int | None) -> str | None:
    """Return a position as PostgreSQL writes it: ``0/1B2C3D8``; None for None."""
    return None if position is None else str(LSN(position))


def datetime_from_us(time_us: int) -> datetime | None:
    """Return the UTC datetime of ``time_us``, microseconds since 2000-01-01 UTC.

    Returns ``None`` where Python's datetime (years 1 to 9999) cannot hold the time:
    ±infinity, and dates before Christ or after 9999, all of which can be the
    commit time of a transaction with a replication origin.
    """
    try:
        return POSTGRES_EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return None


def us_from_datetime(moment: datetime) -> int:
    """Return the microseconds from 2000-01-01 UTC. Raises ``TypeError`` for a naive datetime."""
    return (moment - POSTGRES_EPOCH) // _MICROSECOND


def us_from_text(text: str) -> int:
    """Read ``2026-11-20 13:31:06.767326+00``, as the server writes it in ISO style.

    Output plugins other than pgoutput send commit times in this form, with years from 4713 BC
    to 294276. Any offset, ``… BC`` and ``±infinity`` are accepted. Raises ``ValueError``
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
    # No year has more digits, and int() is slow for very long text.
    if len(parts) != count or not all(
        0 < len(part) <= 6 and set(part) <= _DIGITS for part in parts
    ):
        raise ValueError(f"not {count} numbers: {text!r}")
    return [int(part) for part in parts]


def _split_offset(time: str) -> tuple[str, int]:
    """Return the time of day without its zone, and the zone's offset in seconds east of UTC."""
    for sign, factor in (("+", 1), ("-", -1)):
        clock, separator, zone = time.partition(sign)
        if separator:
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
    """Return the days since 0000-03-01 in the proleptic Gregorian calendar."""
    # A year that begins in March has its leap day last.
    year -= month < 3
    month = (month + 9) % 12
    leap_days = year // 4 - year // 100 + year // 400
    return year * 365 + leap_days + (month * 153 + 2) // 5 + day - 1


def now_us() -> int:
    """Return the current time in microseconds since 2000-01-01 UTC."""
    return int((time.time() - _POSTGRES_EPOCH_SECONDS) * 1_000_000)

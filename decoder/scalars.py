"""LSN, transaction id and PostgreSQL's time: the scalars every message is made of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NewType

#: A transaction id: 32 bits, unsigned, and it wraps.
XID = NewType("XID", int)

#: What PostgreSQL counts time from.
POSTGRES_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
#: The timestamps ``infinity`` and ``-infinity``, in microseconds since the epoch.
INFINITY_US: Final = 2**63 - 1
MINUS_INFINITY_US: Final = -(2**63)

_MICROSECOND: Final = timedelta(microseconds=1)


class LSN(int):
    """A position in the WAL: 64 bits, unsigned; 0/0 means "none".

    An ``int`` in every way, written as PostgreSQL writes it: ``0/1B2C3D8``.
    Source: PostgreSQL, pg_lsn.c.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> LSN:
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
        # An f-string shows an LSN the way people read one; f"{lsn:d}" is the number.
        return format(int(self), spec) if spec else str(self)


def datetime_from_us(time_us: int) -> datetime | None:
    """The UTC datetime of ``time_us``, microseconds since 2000-01-01 UTC.

    ``None`` where Python's datetime (years 1 to 9999) cannot hold the time:
    ±infinity, and dates before Christ or after 9999, all of which can be the
    commit time of a transaction with a replication origin.
    """
    try:
        return POSTGRES_EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return None


def us_from_datetime(moment: datetime) -> int:
    """Microseconds from 2000-01-01 UTC to ``moment``, which must be timezone-aware.

    Raises ``TypeError`` for a naive datetime.
    """
    return (moment - POSTGRES_EPOCH) // _MICROSECOND

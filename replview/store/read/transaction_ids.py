"""The identifiers of transactions: which hour, and so which partition, one falls into.

An identifier carries the hour in which its transaction was first seen in its upper bits, so that a
range of identifiers is a range of time.
"""

import datetime as dt
import time

#: Identifiers that one hour has room for.
IDS_PER_HOUR = 1 << 32


def transaction_id(sequence_value: int, *, at: float | None = None) -> int:
    """The identifier for a sequence value at a moment (seconds since 1970; now by default)."""
    hour = int((time.time() if at is None else at) // 3600)
    return hour * IDS_PER_HOUR + sequence_value % IDS_PER_HOUR


def day_of(identifier: int) -> dt.date:
    """The day whose partition holds this transaction's changes."""
    hours = identifier // IDS_PER_HOUR
    return dt.datetime.fromtimestamp(hours * 3600, tz=dt.UTC).date()


def first_id_of(day: dt.date) -> int:
    """The lowest identifier a transaction first seen on ``day`` can have."""
    midnight = dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)
    return transaction_id(0, at=midnight.timestamp())

"""Days of the record: the day of a transaction's identifier, and the days that were deleted.

The upper bits of a transaction's identifier are the hour in which it was first seen. A range of
identifiers is therefore a range of time, and the identifiers of a day are a partition of changes.
Retention deletes days (``store.retention.deletion``).
"""

import datetime as dt
import time
from typing import Any

import orjson

from decoder.scalars import LSN
from replview.store.read.session import ReadSession

#: Number of identifiers available for one hour.
IDS_PER_HOUR = 1 << 32


def transaction_id(sequence_value: int, *, at: float | None = None) -> int:
    """Return the identifier for a sequence value at a moment (seconds since 1970; default: now)."""
    hour = int((time.time() if at is None else at) // 3600)
    return hour * IDS_PER_HOUR + sequence_value % IDS_PER_HOUR


def day_of(identifier: int) -> dt.date:
    """Return the day whose partition holds this transaction's changes."""
    hours = identifier // IDS_PER_HOUR
    return dt.datetime.fromtimestamp(hours * 3600, tz=dt.UTC).date()


def first_id_of(day: dt.date) -> int:
    """Return the lowest identifier of a transaction first seen on ``day``."""
    midnight = dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)
    return transaction_id(0, at=midnight.timestamp())


def _setting(session: ReadSession, name: str) -> Any:
    rows = session.rows("SELECT value FROM setting WHERE name = %s", [name])
    return orjson.loads(rows[0][0]) if rows else None


def last_deleted_day(session: ReadSession) -> dt.date | None:
    """Return the last day that was deleted, with all before it; None: none was."""
    last = _setting(session, "retention.last_day")
    return None if last is None else dt.date.fromisoformat(last)


def deleted_day_of(session: ReadSession, transaction_id: int) -> dt.date | None:
    """Return the day with which (or with its slot's share) a transaction was deleted, or None."""
    slots = _setting(session, "retention.slots") or {}
    shares = [
        dt.date.fromisoformat(entry["through"]) for entry in slots.values() if entry.get("through")
    ]
    last = max(filter(None, [*shares, last_deleted_day(session)]), default=None)
    try:
        day = day_of(transaction_id)
    except (OverflowError, ValueError, OSError):
        return None
    return day if last is not None and day <= last else None


def kept_since(session: ReadSession) -> dict[int, dt.datetime]:
    """Return, for slots that lost days, the time from which on nothing is missing."""
    slots = _setting(session, "retention.slots") or {}
    return {int(pk): dt.datetime.fromisoformat(entry["since"]) for pk, entry in slots.items()}


def is_deleted(
    text: str | None, moment: dt.datetime | None, lsn: int | None, incarnation: int
) -> bool:
    """Return whether a moment or an LSN of an incarnation lies in the deleted part.

    ``text`` is the slot's entry in ``retention.slots``, as JSON; None: nothing was deleted.
    """
    if text is None:
        return False
    entry = orjson.loads(text)
    if moment is not None:
        return moment < dt.datetime.fromisoformat(entry["since"])
    if lsn is None or entry["lsn"] is None:
        return False
    return (incarnation, lsn) < (entry["incarnation"], int(LSN.parse(entry["lsn"])))

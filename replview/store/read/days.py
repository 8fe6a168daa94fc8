"""The days of the record: which one a transaction was first seen on, and which were deleted.

A transaction's identifier carries the hour in which it was first seen in its upper bits, so that a
range of identifiers is a range of time, and a day of them a partition of changes. Days are deleted
to make room (``store.retention.deletion``).
"""

import datetime as dt
import time
from typing import Any

import orjson

from decoder.scalars import LSN
from replview.store.read.session import ReadSession

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


def _setting(session: ReadSession, name: str) -> Any:
    found = session.rows("SELECT value FROM setting WHERE name = %s", [name])
    return orjson.loads(found[0][0]) if found else None


def last_deleted_day(session: ReadSession) -> dt.date | None:
    """The last day that was deleted, with all before it; None: none was."""
    last = _setting(session, "retention.last_day")
    return None if last is None else dt.date.fromisoformat(last)


def deleted_day_of(session: ReadSession, transaction_id: int) -> dt.date | None:
    """The day with which (or with its slot's share) a transaction was deleted; None: it was not."""
    slots = _setting(session, "retention.slots") or {}
    shares = [dt.date.fromisoformat(s["through"]) for s in slots.values() if s.get("through")]
    last = max(filter(None, [*shares, last_deleted_day(session)]), default=None)
    try:
        day = day_of(transaction_id)
    except (OverflowError, ValueError, OSError):
        return None
    return day if last is not None and day <= last else None


def kept_since(session: ReadSession) -> dict[int, dt.datetime]:
    """Return of slots that lost days the time from which on nothing is missing."""
    slots = _setting(session, "retention.slots") or {}
    return {int(pk): dt.datetime.fromisoformat(s["since"]) for pk, s in slots.items()}


def is_deleted(
    text: str | None, moment: dt.datetime | None, lsn: int | None, incarnation: int
) -> bool:
    """Whether a moment or LSN of an incarnation was deleted; ``text``: of ``retention.slots``."""
    if text is None:
        return False
    known = orjson.loads(text)
    if moment is not None:
        return moment < dt.datetime.fromisoformat(known["since"])
    if lsn is None or known["lsn"] is None:
        return False
    return (incarnation, lsn) < (known["life"], int(LSN.parse(known["lsn"])))

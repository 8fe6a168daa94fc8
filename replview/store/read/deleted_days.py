"""What is known of days that were deleted to make room (``store.retention.deletion``)."""

import datetime as dt

import orjson

from decoder.scalars import LSN
from replview.store import instance_settings
from replview.store.write.partitions import day_of


def last_deleted_day() -> dt.date | None:
    """The last day that was deleted, with all before it; None: none was."""
    last = instance_settings.read("retention.last_day", None)
    return None if last is None else dt.date.fromisoformat(last)


def last_deleted_of_any() -> dt.date | None:
    """The last day of which some slot's share was deleted, or all of it; None: there is none."""
    slots = instance_settings.read("retention.slots", {})
    told = [dt.date.fromisoformat(s["through"]) for s in slots.values() if s.get("through")]
    whole = last_deleted_day()
    return max([*told, *([] if whole is None else [whole])], default=None)


def deleted_day_of(transaction_id: int) -> dt.date | None:
    """The day that a transaction that is not there was deleted with, or its slot's share of the
    day; None: it was not.
    """
    last = last_deleted_of_any()
    try:
        day = day_of(transaction_id)
    except (OverflowError, ValueError, OSError):
        return None
    return day if last is not None and day <= last else None


def kept_since() -> dict[int, dt.datetime]:
    """Of slots that lost days: from when on nothing is missing."""
    slots = instance_settings.read("retention.slots", {})
    return {int(pk): dt.datetime.fromisoformat(s["since"]) for pk, s in slots.items()}


def is_deleted(told: str | None, moment: dt.datetime | None, lsn: int | None, life: int) -> bool:
    """Whether a moment of a life of a slot, or an LSN of it, lies in days that were deleted;
    ``told``: the slot's part of ``retention.slots``, as JSON.
    """
    if told is None:
        return False
    known = orjson.loads(told)
    if moment is not None:
        return moment < dt.datetime.fromisoformat(known["since"])
    if lsn is None or known["lsn"] is None:
        return False
    return (life, lsn) < (known["life"], int(LSN.parse(known["lsn"])))

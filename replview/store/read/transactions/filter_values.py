"""The values of a transaction filter: what its parameters may say, and how a text is read."""

import datetime as dt
import re
from collections.abc import Collection
from typing import Protocol

from decoder.scalars import LSN
from replview.store.read.history import OPEN_STATES
from replview.text.parsing import listed, name_parts, plain_name, read_table_word, whole_number

#: Operations in the order of toolbars: insert, update, delete, truncate, message, snapshot.
OPERATIONS = "IUDTMS"
#: Value of ``actor`` for an unknown one, and of ``origin`` for none (written on the source itself).
UNKNOWN_ACTOR = "?"
NO_ORIGIN = "-"

#: States with a commit_seq.
PLACED_STATES = ("committed", "message", "skipped", "snapshot")
#: States of transactions that ended without a commit_seq.
ENDED_STATES = ("aborted", "rolled back", "unknown")
#: Value of ``states`` that stands for all of ``OPEN_STATES``.
OPEN = "open"
STATES = (*OPEN_STATES, *PLACED_STATES, *ENDED_STATES)

_LIST_LIMIT = 100
_NUMBER_LIMIT = (1 << 62) - 1
_TIME_OF_DAY = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?", re.ASCII)
_RELATIVE = re.compile(r"(\d{1,6})\s*(s|min|m|h|d|w)", re.ASCII)
_ZONE_AFTER_SPACE = re.compile(r"(T.*) (\d\d:\d\d)", re.ASCII)
_UNIT_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Touched(Protocol):
    """The attributes of a filter that are one condition together: operations, done to tables."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables; empty: all."""

    @property
    def ops(self) -> str:
        """Return the letters of the operations."""


def read_time(text: str, now: dt.datetime | None = None) -> dt.datetime | None:
    """Parse an ISO time (without a zone: UTC), an age, or a time of day; None: the text is none.

    A time of day means the last such moment, in UTC.
    """
    now = now or dt.datetime.now(dt.UTC)
    text = text.strip()
    try:
        if _TIME_OF_DAY.fullmatch(text):
            moment = dt.datetime.combine(now.date(), dt.time.fromisoformat(text), dt.UTC)
            return moment if moment <= now else moment - dt.timedelta(days=1)
        if age := _RELATIVE.fullmatch(text):
            return now - dt.timedelta(seconds=int(age[1]) * _UNIT_SECONDS[age[2]])
        # A plus sign in an address arrives as a space.
        moment = dt.datetime.fromisoformat(_ZONE_AFTER_SPACE.sub(r"\1+\2", text))
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None


def read_moment(text: str) -> str:
    """Return the text if it is a time; it stays as it was given, so that an age moves with now."""
    return text if read_time(text) else ""


def read_tables(text: str) -> tuple[str, ...]:
    """Return the table names in the form of ``read_table_word``."""
    return tuple(dict.fromkeys(map(read_table_word, _names(text))))


def read_operations(text: str) -> str:
    """Return the letters of ``OPERATIONS`` in the text, in their order."""
    return "".join(op for op in OPERATIONS if op in text.upper())


def read_states(text: str) -> tuple[str, ...]:
    """Return the names that are states, or ``OPEN``."""
    return tuple(state for state in _names(text) if state in (*STATES, OPEN))


def resolved_states(names: Collection[str]) -> frozenset[str]:
    """Return the states, with ``OPEN`` resolved; all if none is named."""
    if not names:
        return frozenset(STATES)
    return frozenset((*names, *(OPEN_STATES if OPEN in names else ()))) - {OPEN}


def read_number(text: str) -> int:
    """Return a whole number, limited to what the store can compare with; 0: the text is none."""
    return min(whole_number(text, digits=19) or 0, _NUMBER_LIMIT)


def read_lsn(text: str) -> LSN | None:
    """Return the LSN; None: the text is none."""
    try:
        return LSN.parse(text) if text else None
    except ValueError:
        return None


def write_value(value: object) -> str:
    """Return a value as a parameter, in the form that its field reads; empty: nothing is set."""
    return ",".join(map(_list_item, value)) if isinstance(value, tuple) else str(value or "")


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(listed(text)[:_LIST_LIMIT]))


def _list_item(name: str) -> str:
    """Return the name in a form that ``_names`` and ``read_table_word`` read back."""
    if '"' in name and len(name_parts(name)) > 1:
        return name
    is_plain = "," not in name and plain_name(name) == name
    return name if is_plain else '"' + name.replace('"', '""') + '"'

"""A transaction filter has the same parameters in pages, the API and the command line."""

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from decoder.scalars import LSN
from replview.text.parsing import (
    clean_text,
    listed,
    name_parts,
    plain_name,
    read_table_word,
    whole_number,
)

#: Operations in the order of toolbars: insert, update, delete, truncate, message, snapshot.
OPERATIONS = "IUDTMS"
#: Value of ``actor`` for an unknown one, and of ``origin`` for none (written on the source itself).
UNKNOWN_ACTOR = "?"
NO_ORIGIN = "-"

OPEN_STATES = ("receiving", "streaming", "prepared")
#: States with a commit_seq.
PLACED_STATES = ("committed", "message", "skipped", "snapshot")
#: States of transactions that ended without a commit_seq.
ENDED_STATES = ("aborted", "rolled back", "unknown")
#: Value of ``states`` that stands for all of ``OPEN_STATES``.
OPEN = "open"
STATES = (*OPEN_STATES, *PLACED_STATES, *ENDED_STATES)

_TEXT_LIMIT = 200
_LIST_LIMIT = 100
_NUMBER_LIMIT = (1 << 62) - 1
_TIME_OF_DAY = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?", re.ASCII)
_RELATIVE = re.compile(r"(\d{1,6})\s*(s|min|m|h|d|w)", re.ASCII)
_ZONE_AFTER_SPACE = re.compile(r"(T.*) (\d\d:\d\d)", re.ASCII)
_UNIT_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFilter:
    """Conditions on transactions; an empty filter matches all that are not hidden.

    Hidden are half received ones and baselines still being read.
    """

    #: ``source/name``; empty: all slots.
    slot: str = ""
    #: Names in the form of ``read_table_word``; a transaction that touched one of these tables
    #: matches.
    tables: tuple[str, ...] = ()
    #: Letters of ``OPERATIONS``; with ``tables``, done to one of them.
    ops: str = OPERATIONS
    states: tuple[str, ...] = ()
    actor: str = ""
    origin: str = ""
    #: Text to find in gid, xid, actor, origin, table names and values of the first 200 changes.
    text: str = ""
    #: A gid or an xid that must be equal.
    id: str = ""
    #: Number of changes at least, without those of aborted subtransactions.
    min_changes: int = 0
    min_bytes: int = 0
    #: Seconds at least that it was, or has been, prepared.
    prepared_min: int = 0
    #: An ISO time (without a zone: UTC) or an age like ``2h`` or ``7d``, as given.
    since: str = ""
    until: str = ""
    from_lsn: LSN | None = None
    to_lsn: LSN | None = None
    #: Names of the parameters that were not understood, and therefore ignored.
    misread: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def from_words(cls, words: Mapping[str, object]) -> Self:
        """Read the parameters of an address or the options of a command."""
        cleaned = {name: _clean(words.get(name)) for name in WORDS}
        read: dict[str, Any] = {
            "slot": cleaned["slot"],
            "tables": tuple(dict.fromkeys(map(read_table_word, _names(cleaned["tables"])))),
            "ops": "".join(op for op in OPERATIONS if op in cleaned["ops"].upper()) or OPERATIONS,
            "states": tuple(
                state for state in _names(cleaned["states"]) if state in (*STATES, OPEN)
            ),
            "actor": cleaned["actor"],
            "origin": cleaned["origin"],
            "text": cleaned["q"],
            "id": cleaned["id"],
            **{
                name: min(whole_number(cleaned[name], digits=19) or 0, _NUMBER_LIMIT)
                for name in ("min_changes", "min_bytes", "prepared_min")
            },
            **{
                name: cleaned[name] if read_time(cleaned[name]) else ""
                for name in ("since", "until")
            },
            **{name: _lsn(cleaned[name]) for name in ("from_lsn", "to_lsn")},
        }
        understood = {**read, "q": read["text"]}
        misread = [name for name in WORDS if cleaned[name] and not understood[name]]
        if cleaned["ops"] and not set(cleaned["ops"].upper()) & set(OPERATIONS):
            misread.append("ops")
        return cls(**read, misread=tuple(misread))

    def words(self) -> dict[str, str]:
        """Return the parameters that are set, in the form that ``from_words`` reads."""
        words = {
            name: _parameter_text(getattr(self, "text" if name == "q" else name)) for name in WORDS
        }
        if self.ops == OPERATIONS:
            words["ops"] = ""
        return {name: word for name, word in words.items() if word}

    @property
    def since_at(self) -> dt.datetime | None:
        """Return the moment that ``since`` means now."""
        return read_time(self.since)

    @property
    def until_at(self) -> dt.datetime | None:
        """Return the moment that ``until`` means now."""
        return read_time(self.until)

    @property
    def wanted_states(self) -> frozenset[str]:
        """Return the states that match, with ``OPEN`` resolved; all if none is named."""
        if not self.states:
            return frozenset(STATES)
        open_states = OPEN_STATES if OPEN in self.states else ()
        return frozenset((*self.states, *open_states)) - {OPEN}

    @property
    def narrowed(self) -> bool:
        """Return whether the filter has a condition other than the slot."""
        return bool(self.words().keys() - {"slot"})


#: Names of the parameters, in the order of an address.
WORDS = tuple(
    "q" if parameter.name == "text" else parameter.name
    for parameter in fields(TransactionFilter)
    if parameter.name != "misread"
)


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


def _clean(value: object) -> str:
    """Return the value as text; the members of a list are joined by commas."""
    if isinstance(value, list | tuple | set | frozenset):
        value = ",".join(str(member) for member in value)
    return clean_text(value, _TEXT_LIMIT * 20)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(listed(text)[:_LIST_LIMIT]))


def _lsn(text: str) -> LSN | None:
    try:
        return LSN.parse(text) if text else None
    except ValueError:
        return None


def _parameter_text(value: object) -> str:
    return ",".join(map(_list_item, value)) if isinstance(value, tuple) else str(value or "")


def _list_item(name: str) -> str:
    """Return the name in a form that ``_names`` and ``read_table_word`` read back."""
    if '"' in name and len(name_parts(name)) > 1:
        return name
    is_plain = "," not in name and plain_name(name) == name
    return name if is_plain else '"' + name.replace('"', '""') + '"'

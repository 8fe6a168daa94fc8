"""What is to be erased from files: rows by their keys and places, and a name among the actors.

Plain data, as whoever asks has it: nothing of the store is read here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

#: Life, LSN, seq, commit LSN.
Place = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Span:
    """A key and between which places, both included, it was the row's."""

    key: Mapping[str, str | None]
    since: Place
    until: Place

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """As ``features.erasure.trails`` tells it."""
        return cls(dict(told["key"]), tuple(told["since"]), tuple(told["until"]))

    def holds(self, place: Place, *, snapshot: bool) -> bool:
        """Whether a change under the key is the row's; a baseline's row is as of a position."""
        if snapshot:
            here = place[:2]
            return (self.since[0], self.since[3]) <= here <= (self.until[0], self.until[3])
        return self.since[:3] <= place[:3] <= self.until[:3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An act of erasing, as files need it."""

    #: Of the act, for the note beside the files.
    erasure: int
    #: ``2026-11-22``.
    day: str
    #: Source and slot as their folders may be named: a source can be renamed.
    homes: Sequence[tuple[str, str]]
    #: A table's oids on its source → the spans of its rows.
    tables: Mapping[int, Sequence[Span]]
    #: The same → every name it had: a slice that is not whole tells its tables by name alone.
    names: Mapping[int, Sequence[str]] = field(default_factory=dict)
    #: Only these; empty: all.
    columns: Sequence[str] = ()
    actor: str = ""
    alias: str = ""
    #: A text that slices were narrowed by → what takes its place.
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """What stands in ``_pg_raw`` for a value."""
        return orjson.dumps({"$erased": True, "$on": self.day}).decode()

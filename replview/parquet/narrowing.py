"""What a slice may ask of whole transactions beyond their place, tables, operations and actors.

The words are those of a page's filter and mean the same. The store decides them, wherever a file is
written, so that this process and Spark's executors write the same files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

#: In ``origin``: written on the source itself.
NO_ORIGIN = "-"
#: The states of ``Narrowing.states``: those that have a place in history and something in it.
STATES = ("committed", "snapshot", "message")
_LISTS = ("states", "searched")


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """With nothing set every transaction passes."""

    #: Some of ``STATES``; empty: all.
    states: tuple[str, ...] = ()
    #: Only transactions of which nobody said whose they are.
    no_actor: bool = False
    #: Exactly, or ``NO_ORIGIN``.
    origin: str = ""
    #: Exactly this gid or xid.
    id: str = ""
    #: What aborted subtransactions took away is not counted.
    min_changes: int = 0
    min_bytes: int = 0
    #: Seconds for which a two-phase transaction was prepared.
    prepared_min: int = 0
    #: In gid, xid, actor, origin, commit LSN, table names, and in the values of the first changes.
    text: str = ""
    #: ``schema.table`` of those whose values the text may be found in; None: all tables.
    searched: tuple[str, ...] | None = None
    #: Whether it may be found in logical messages, and what they told of a transaction is read.
    in_messages: bool = True

    def __bool__(self) -> bool:
        return bool(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """What is set, as plain values."""
        told = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            item.name: list(told[item.name]) if item.name in _LISTS else told[item.name]
            for item in fields(self)
            if told[item.name] != item.default
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """What ``to_json`` told of."""
        values: dict[str, Any] = {
            name: tuple(value) if name in _LISTS else value for name, value in told.items()
        }
        return cls(**values)


NOT_NARROWED = Narrowing()

"""Follow the changes of one row under all keys that it had.

All changes under a requested key belong to the row. If a change moved the row from or to another
key, that key is followed too, but only while it belonged to this row: from where the row got the
key to where it lost it or was deleted. An aborted change ends nothing, and its moves are followed
within its own transaction only.

The functions are pure: the store and the files both supply changes as ``Touch``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

#: A row's key: its columns and their texts, by name.
Key = tuple[tuple[str, str | None], ...]


class TrailPosition(NamedTuple):
    """The place of a change in a slot's history.

    Within an incarnation a row's changes are in LSN order, because its lock serialises them.
    """

    incarnation: int
    lsn: int
    seq: int
    #: Commit LSN of the transaction; a baseline's row, whose LSN is a position, compares to it.
    commit_lsn: int = 0

    @property
    def plain(self) -> tuple[int, int, int]:
        """Return the place without the commit LSN, which orders changes of the stream."""
        return self[:3]

    def moved(self, by: int) -> Self:
        """Return the place just before (-1) or just after (1)."""
        return self._replace(seq=self.seq + by, commit_lsn=self.commit_lsn + by)


FIRST = TrailPosition(0, 0, 0, 0)
LAST = TrailPosition(1 << 31, 1 << 62, 0, 1 << 62)


@dataclass(frozen=True, slots=True)
class Touch:
    """A change that begins or ends a row under a key, or moves it."""

    place: TrailPosition
    #: I, U or D.
    op: str
    #: The row's key before it and after it; None: there is none, or it was not sent.
    before: Key | None
    after: Key | None
    transaction_id: int = 0
    #: True for a change of a committed transaction and of no aborted subtransaction.
    counts: bool = True

    @property
    def moves(self) -> bool:
        """Return whether the change moves the row to another key."""
        return self.before is not None and self.after is not None and self.before != self.after

    def begins(self, key: Key) -> bool:
        """Return whether a row gets the key here."""
        return self.counts and self.after == key and (self.op == "I" or self.moves)

    def ends(self, key: Key) -> bool:
        """Return whether the row loses the key here, or is deleted."""
        return self.counts and self.before == key and (self.op == "D" or self.moves)


def touch_of(
    place: TrailPosition, op: str, before: Key | None, after: Key | None, *more: Any
) -> Touch:
    """Build a touch from a change's keys; an insert has no row before, a delete none after."""
    return Touch(place, op, None if op in "IS" else before, None if op == "D" else after, *more)


@dataclass(frozen=True, slots=True)
class KeySpan:
    """A key, and the range of places (both included) in which the row had it."""

    key: Key
    since: TrailPosition = FIRST
    until: TrailPosition = LAST
    #: Transaction to which the span is limited; None for all.
    transaction_id: int | None = None

    def holds(self, place: TrailPosition, op: str, transaction_id: int | None = None) -> bool:
        """Return whether a change under the key belongs to the span."""
        if self.transaction_id is not None and transaction_id != self.transaction_id:
            return False
        if op == "S":
            return self.since[::3] <= place[:2] <= self.until[::3]
        return self.since.plain <= place.plain <= self.until.plain

    def covers(self, other: "KeySpan") -> bool:
        """Return whether the span contains the other one."""
        return (
            self.key == other.key
            and self.transaction_id in (None, other.transaction_id)
            and self.since.plain <= other.since.plain
            and self.until.plain >= other.until.plain
        )

    def to_json(self) -> dict[str, Any]:
        """Return the span as JSON."""
        ends = {"since": list(self.since), "until": list(self.until)}
        return {"key": dict(self.key), **ends, "transaction": self.transaction_id}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read a span from JSON."""
        since, until = (TrailPosition(*document[name]) for name in ("since", "until"))
        return cls(key_of(document["key"]), since, until, document.get("transaction"))


def key_of(values: Mapping[str, str | None]) -> Key:
    """Return a key with its columns sorted by name."""
    return tuple(sorted(values.items()))


def spans_of(
    known: Iterable[KeySpan], touches: Callable[[Key], Iterable[Touch]]
) -> tuple[KeySpan, ...]:
    """Return the spans and all that follow from them.

    ``touches`` returns every known change that begins or ends a row under a key, or moves one.
    """
    waiting, done = list(known), list[KeySpan]()
    read: dict[Key, list[Touch]] = {}

    def of(key: Key) -> list[Touch]:
        if key not in read:
            read[key] = sorted(touches(key), key=lambda touch: touch.place.plain)
        return read[key]

    while waiting:
        span = waiting.pop()
        if any(other.covers(span) for other in done):
            continue
        done = [other for other in done if not span.covers(other)] + [span]
        for touch in of(span.key):
            if not touch.moves or not span.holds(touch.place, touch.op, touch.transaction_id):
                continue
            assert touch.before is not None
            assert touch.after is not None
            if touch.before == span.key:
                waiting.append(_onward(touch, touch.after, of(touch.after)))
            if touch.after == span.key:
                waiting.append(_back(touch, touch.before, of(touch.before)))
    return tuple(sorted(done, key=lambda span: (str(span.key), span.since.plain)))


def _onward(move: Touch, key: Key, touches: Iterable[Touch]) -> KeySpan:
    """Return the span of the row under the key that it was moved to, up to its end."""
    if not move.counts:
        return KeySpan(key, move.place, LAST, move.transaction_id)
    for touch in touches:
        if touch.place.plain <= move.place.plain:
            continue
        if touch.ends(key):
            return KeySpan(key, move.place, touch.place)
        if touch.begins(key):
            # The row's end was not recorded, since another row has the key now.
            return KeySpan(key, move.place, touch.place.moved(-1))
    return KeySpan(key, move.place)


def _back(move: Touch, key: Key, touches: Iterable[Touch]) -> KeySpan:
    """Return the span of the row under the key that it was moved from, from its beginning."""
    if not move.counts:
        return KeySpan(key, FIRST, move.place, move.transaction_id)
    since = FIRST
    for touch in touches:
        if touch.place.plain >= move.place.plain:
            break
        if touch.begins(key):
            since = touch.place
        elif touch.ends(key):
            since = touch.place.moved(1)
    return KeySpan(key, since, move.place)

"""How far the changes of one row reach, under all the keys it had: what erasing it takes in.

Everything that was ever recorded under a key that somebody names belongs to it. Where a change
moved the row from or to another key, that key is followed as well, but only as long as it was this
row's: from where the row came under it to where it left it or was deleted. An aborted change ends
nothing, and what it moved is followed within its own transaction alone.

Pure: what is known of a key's changes comes from the store and from files alike, as ``Touch``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

#: A row's key: its columns and their texts, by name.
Key = tuple[tuple[str, str | None], ...]


class Place(NamedTuple):
    """Where in a slot's history a change is: within one incarnation the changes of one row
    are in the order of their LSNs, since its lock serialises them.
    """

    incarnation: int
    lsn: int
    seq: int
    #: Of its transaction: a baseline's row (whose LSN is a position) is compared with this.
    commit_lsn: int = 0

    @property
    def plain(self) -> tuple[int, int, int]:
        """Of changes of the stream."""
        return self[:3]

    def moved(self, by: int) -> Self:
        """The place just before it (-1) or after it (1)."""
        return self._replace(seq=self.seq + by, commit_lsn=self.commit_lsn + by)


FIRST = Place(0, 0, 0, 0)
LAST = Place(1 << 31, 1 << 62, 0, 1 << 62)


@dataclass(frozen=True, slots=True)
class Touch:
    """A change that begins or ends a row under a key, or moves it."""

    place: Place
    #: I, U or D.
    op: str
    #: The row's key before it and after it; None: there is none, or it was not sent.
    before: Key | None
    after: Key | None
    transaction_id: int = 0
    #: It counts: of a committed transaction, and not taken back by a subtransaction's abort.
    counts: bool = True

    @property
    def moves(self) -> bool:
        return self.before is not None and self.after is not None and self.before != self.after

    def begins(self, key: Key) -> bool:
        """A row comes under the key here."""
        return self.counts and self.after == key and (self.op == "I" or self.moves)

    def ends(self, key: Key) -> bool:
        """The row under the key goes here."""
        return self.counts and self.before == key and (self.op == "D" or self.moves)


def touch_of(place: Place, op: str, before: Key | None, after: Key | None, *more: Any) -> Touch:
    """By the keys that a change names: no row is before an insert or a baseline's, none after a
    delete.
    """
    return Touch(place, op, None if op in "IS" else before, None if op == "D" else after, *more)


@dataclass(frozen=True, slots=True)
class Span:
    """A key, and between which places (both included) it was the row's."""

    key: Key
    since: Place = FIRST
    until: Place = LAST
    #: Only within this transaction.
    transaction_id: int | None = None

    def holds(self, place: Place, op: str, transaction_id: int | None = None) -> bool:
        """Whether a change under the key belongs to it."""
        if self.transaction_id is not None and transaction_id != self.transaction_id:
            return False
        if op == "S":
            return self.since[::3] <= place[:2] <= self.until[::3]
        return self.since.plain <= place.plain <= self.until.plain

    def covers(self, other: "Span") -> bool:
        """All of the other is in it."""
        return (
            self.key == other.key
            and self.transaction_id in (None, other.transaction_id)
            and self.since.plain <= other.since.plain
            and self.until.plain >= other.until.plain
        )

    def to_json(self) -> dict[str, Any]:
        ends = {"since": list(self.since), "until": list(self.until)}
        return {"key": dict(self.key), **ends, "transaction": self.transaction_id}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        since, until = (Place(*document[name]) for name in ("since", "until"))
        return cls(key_of(document["key"]), since, until, document.get("transaction"))


def key_of(values: Mapping[str, str | None]) -> Key:
    """A key's columns in one order, whatever theirs."""
    return tuple(sorted(values.items()))


def spans_of(known: Iterable[Span], touches: Callable[[Key], Iterable[Touch]]) -> tuple[Span, ...]:
    """The spans with all that follow from them; ``touches`` gives every change known that begins,
    ends or moves a row from or to a key.
    """
    waiting, done = list(known), list[Span]()
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


def _onward(move: Touch, key: Key, touches: Iterable[Touch]) -> Span:
    """The row under the key that it was moved to, to its end there."""
    if not move.counts:
        return Span(key, move.place, LAST, move.transaction_id)
    for touch in touches:
        if touch.place.plain <= move.place.plain:
            continue
        if touch.ends(key):
            return Span(key, move.place, touch.place)
        if touch.begins(key):
            # Its end is not recorded: another row is there now.
            return Span(key, move.place, touch.place.moved(-1))
    return Span(key, move.place)


def _back(move: Touch, key: Key, touches: Iterable[Touch]) -> Span:
    """The row under the key that it was moved from, back to where it came there."""
    if not move.counts:
        return Span(key, FIRST, move.place, move.transaction_id)
    since = FIRST
    for touch in touches:
        if touch.place.plain >= move.place.plain:
            break
        if touch.begins(key):
            since = touch.place
        elif touch.ends(key):
            since = touch.place.moved(1)
    return Span(key, since, move.place)

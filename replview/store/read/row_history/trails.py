"""Follow the changes of one row under all keys that it had.

All changes under a requested key belong to the row. If a change moved the row from or to another
key, that key is followed too, but only while it belonged to this row: in the period that row
history says. An aborted change ends nothing, and its moves are followed within its own transaction
only.

The functions are pure: an erasure brings the changes of the store and of files as ``Touch``.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from replview.store.read.row_history.key_periods import KeyPeriod, period_with_end, periods_of

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

_KNOWN_ENDS = ("delete", "moved")


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
    #: True where the server sent the whole row before the change.
    is_whole: bool = False

    #: The table and the commit time, which a row's trail does not need.
    relation_id: ClassVar[int] = 0
    commit_time: ClassVar[dt.datetime | None] = None
    is_read: ClassVar[bool] = True

    @property
    def moves(self) -> bool:
        """Return whether the change moves the row to another key."""
        return self.before is not None and self.after is not None and self.before != self.after

    @property
    def key_before(self) -> Key | None:
        """Return the row's key before the change."""
        return self.before

    @property
    def key_after(self) -> Key | None:
        """Return the row's key after the change."""
        return self.after

    @property
    def at(self) -> tuple[int, int, int, int]:
        """Return the place in the order in which changes took effect."""
        return self.place.incarnation, self.place.commit_lsn, self.place.lsn, self.place.seq

    @property
    def name(self) -> tuple[int, int, int]:
        """Return the place, which is the same in the store and in files."""
        return self.place.plain

    @property
    def transaction(self) -> tuple[int, int]:
        """Return the incarnation and commit LSN, which files have as well."""
        return self.place.incarnation, self.place.commit_lsn


def touch_of(
    place: TrailPosition, op: str, before: Key | None, after: Key | None, **more: Any
) -> Touch:
    """Build a touch from a change's keys; an insert has no row before, a delete none after."""
    return Touch(place, op, None if op in "IS" else before, None if op == "D" else after, **more)


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
            other = touch.after if touch.before == span.key else touch.before
            waiting.append(_span_from(touch, other, of(other)))
    return tuple(sorted(done, key=lambda span: (str(span.key), span.since.plain)))


def _span_from(move: Touch, key: Key, touches: Iterable[Touch]) -> KeySpan:
    """Return the span of a moved row under its other key, up to its end or from its beginning."""
    moved_there = move.after == key
    if not move.counts:
        ends = (move.place, LAST) if moved_there else (FIRST, move.place)
        return KeySpan(key, *ends, move.transaction_id)
    # A baseline's row neither begins nor ends anything.
    committed = {t.name: t for t in (*touches, move) if t.counts and t.op != "S"}
    in_order = sorted(committed.values(), key=lambda touch: touch.at)
    periods = periods_of(key, in_order, {}, _latest_row)
    period = period_with_end(periods, move)
    assert period is not None
    if moved_there:
        return KeySpan(key, move.place, _end(period, periods))
    return KeySpan(key, _beginning(period, periods), move.place)


def _latest_row(rows: Sequence[KeyPeriod[Touch]], touch: Touch) -> KeyPeriod[Touch] | None:
    """Return the row that got the key last; None where several rows may have it.

    Several have it only under a deferrable constraint, which is no replica identity: the server
    sends whole old rows then.
    """
    return None if touch.is_whole else rows[-1]


def _end(period: KeyPeriod[Touch], periods: Iterable[KeyPeriod[Touch]]) -> TrailPosition:
    """Return the last place of a period's row, and of changes that may be of it as well."""
    if period.ended in _KNOWN_ENDS:
        return period.events[-1].place
    begun = period.events[0].at
    next_rows = (p.events[0] for p in periods if p.begun and p.events[0].at > begun)
    first = min(next_rows, key=lambda touch: touch.at, default=None)
    return LAST if first is None else first.place.moved(-1)


def _beginning(period: KeyPeriod[Touch], periods: Iterable[KeyPeriod[Touch]]) -> TrailPosition:
    """Return the first place of a period's row, and of changes that may be of it as well."""
    first = period.events[0]
    if period.begun:
        return first.place
    former = [p for p in periods if p.events[0].at < first.at]
    ended = [p for p in former if p.ended in _KNOWN_ENDS and p.events[-1].at < first.at]
    # The row may be any of these, as the change by which it left the key is not known to be its.
    maybe = [p for p in former if p not in ended]
    if maybe and all(p.begun for p in maybe):
        return min((p.events[0] for p in maybe), key=lambda touch: touch.at).place
    last = max((p.events[-1] for p in ended), key=lambda touch: touch.at, default=None)
    return FIRST if last is None else last.place.moved(1)

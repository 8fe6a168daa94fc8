"""The spans in which one row after another had a key.

A row arrives under a key by an insert, by an update that moved it there, or is found there; it
leaves by a delete, by an update that moves it on, or with a truncation. Only a deferrable
constraint lets two rows have one key, until their transaction ends.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from replview.store.read.row_history.events import Cut, Event, Key
from replview.store.read.row_history.sought_row import At


@dataclass(slots=True)
class Span:
    """The time in which one row had one key."""

    relation_id: int
    key_hash: int
    key: Key
    #: The row's changes in it, oldest first: the one with which it came, the one with which it
    #: left.
    events: list[Event]
    #: ``insert``, ``moved``, ``snapshot``; empty: it was there when the record begins to tell.
    begun: str = ""
    #: ``delete``, ``moved``, ``truncated``, ``lost`` (the record does not tell what became of it),
    #: ``table`` (another table has the name since); empty: it still has the key.
    ended: str = ""
    #: Where, and when, a truncation took it away.
    ended_at: At | None = None
    ended_time: dt.datetime | None = None

    @property
    def until(self) -> dt.datetime | None:
        """When the row lost the key, or changed last before that is lost; None: it has it."""
        return self.ended_time or (self.events[-1].commit_time if self.ended else None)

    @property
    def last_at(self) -> At:
        """The place of its last change, or of the truncation that ended it."""
        return self.ended_at or self.events[-1].at


#: Which of the rows that have a key a change is of; None: of none of them, or the record does not
#: tell.
Tell = Callable[[Sequence[Span], Event], Span | None]


def spans_of(
    key_hash: int,
    key: Key,
    events: Iterable[Event],
    truncations: Mapping[int, Sequence[Cut]],
    tell: Tell,
) -> list[Span]:
    """The rows that had a key, one after another, oldest first; of each table for itself.

    ``truncations``: of each table, in order. Raises ``UnsureError`` where changes that were not
    read would have to be.
    """
    by_table: dict[int, list[Event]] = {}
    for event in events:
        by_table.setdefault(event.relation_id, []).append(event)
    found: list[Span] = []
    for relation_id, mine in by_table.items():
        fold = _Fold(relation_id, key_hash, key, tell)
        cuts = list(truncations.get(relation_id, ()))
        for event in mine:
            while cuts and event.commit is not None and cuts[0][0] < event.at:
                fold.truncate(*cuts.pop(0))
            fold.take(event)
        for cut in cuts:
            fold.truncate(*cut)
        fold.settle()
        found += fold.spans
    return sorted(found, key=lambda span: span.last_at)


class UnsureError(Exception):
    """Not every change that was not read is of one row with those that stand beside it."""


class _Fold:
    """Takes one table's changes under a key, oldest first."""

    def __init__(self, relation_id: int, key_hash: int, key: Key, tell: Tell) -> None:
        self.spans: list[Span] = []
        self._relation_id = relation_id
        self._key_hash = key_hash
        self._key = key
        self._tell = tell
        #: The rows that have the key: one, or several within one transaction.
        self._here: list[Span] = []
        #: Another row may have had it before the first transaction that is known.
        self._maybe_another = True
        self._transaction_id = 0
        #: The row of the changes just before that were not read.
        self._passed: Span | None = None

    def truncate(self, at: At, time: dt.datetime | None) -> None:
        """Every row of the table is gone."""
        self._check(None)
        for span in self._here:
            span.ended, span.ended_at, span.ended_time = "truncated", at, time
        self._here = []

    def settle(self) -> None:
        """A transaction has ended: one row alone can have the key, the one that came last."""
        for span in self._here[:-1]:
            span.ended = "lost"
        self._here = self._here[-1:]

    def take(self, event: Event) -> None:
        """One more change. Raises ``UnsureError``."""
        if event.commit is None:
            self._pass(event)
            return
        if event.transaction_id != self._transaction_id:
            self._maybe_another = not self._transaction_id
            self.settle()
            self._transaction_id = event.transaction_id
        moves_away = event.moves and event.old_key_hash == self._key_hash
        span = self._span(event, moves_away)
        self._check(span)
        span.events.append(event)
        if event.op == "D" or moves_away:
            span.ended = "delete" if event.op == "D" else "moved"
            self._here.remove(span)

    def _pass(self, event: Event) -> None:
        """One that was not read: of the row that has the key, and so must be the next."""
        if len(self._here) != 1:
            raise UnsureError
        self._passed = self._here[0]
        self._passed.events.append(event)

    def _check(self, span: Span | None) -> None:
        if self._passed not in (None, span):
            raise UnsureError
        self._passed = None

    def _span(self, event: Event, moves_away: bool) -> Span:
        """The span of the row that this change is of."""
        if event.op == "I" or (event.moves and not moves_away):
            return self._begin("insert" if event.op == "I" else "moved")
        if not self._here:
            return self._begin("snapshot" if event.op == "S" else "")
        alone = len(self._here) == 1
        if alone and not (self._maybe_another and self._here[0].begun in ("insert", "moved")):
            return self._here[0]
        span = self._tell(self._here, event)
        if span is not None:
            return span
        for each in () if alone else self._here:
            each.ended = "lost"
        self._here = self._here if alone else []
        return self._begin("")

    def _begin(self, begun: str) -> Span:
        span = Span(self._relation_id, self._key_hash, self._key, [], begun)
        self._here.append(span)
        self.spans.append(span)
        return span

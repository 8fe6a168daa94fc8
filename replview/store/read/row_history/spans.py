"""Divide the changes under a key into spans, in each of which one row had the key.

A span begins with an insert, with an update that moved the row there, or with the first record of
the row. It ends with a delete, with an update that moves the row on, or with a truncation. Only a
deferrable constraint lets two rows have one key, until their transaction ends.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from replview.store.read.row_history.events import Cut, KeyValues, RowEvent
from replview.store.read.row_history.sought_row import At


@dataclass(slots=True)
class KeyPeriod:
    """A period in which one row had one key."""

    relation_id: int
    key_hash: int
    key: KeyValues
    #: The row's changes in the period, oldest first, including those that begin and end it.
    events: list[RowEvent]
    #: One of ``insert``, ``moved``, ``snapshot``; empty: the row existed before its first change.
    begun: str = ""
    #: One of ``delete``, ``moved``, ``truncated``, ``lost`` (the end is not recorded), ``table``
    #: (another table has the name since); empty: the row still has the key.
    ended: str = ""
    #: The place and time of the truncation that ended it.
    ended_at: At | None = None
    ended_time: dt.datetime | None = None

    @property
    def until(self) -> dt.datetime | None:
        """Return when the row lost the key, or changed last if lost; None: it has the key."""
        return self.ended_time or (self.events[-1].commit_time if self.ended else None)

    @property
    def last_at(self) -> At:
        """Return the place of the last change, or of the truncation that ended it."""
        return self.ended_at or self.events[-1].at


#: A function that returns which of the rows with a key a change is of; None: of none of them, or
#: unknown.
ResolveKey = Callable[[Sequence[KeyPeriod], RowEvent], KeyPeriod | None]


def spans_of(
    key_hash: int,
    key: KeyValues,
    events: Iterable[RowEvent],
    truncations: Mapping[int, Sequence[Cut]],
    tell: ResolveKey,
) -> list[KeyPeriod]:
    """Return the rows that had a key, one after another, oldest first, each table by itself.

    ``truncations``: each table's, in order. Raises ``UnsureError`` where changes that were not read
    are needed.
    """
    by_table: dict[int, list[RowEvent]] = {}
    for event in events:
        by_table.setdefault(event.relation_id, []).append(event)
    found: list[KeyPeriod] = []
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
    """A change that was not read may be of another row than its neighbours."""


class _Fold:
    """The spans so far, while one table's changes under a key are taken in order."""

    def __init__(self, relation_id: int, key_hash: int, key: KeyValues, tell: ResolveKey) -> None:
        self.spans: list[KeyPeriod] = []
        self._relation_id = relation_id
        self._key_hash = key_hash
        self._key = key
        self._tell = tell
        #: The spans of rows that have the key: one, or several within one transaction.
        self._here: list[KeyPeriod] = []
        #: True while another row may have had the key since before the first known transaction.
        self._maybe_another = True
        self._transaction_id = 0
        #: The span of the changes just before that were not read.
        self._passed: KeyPeriod | None = None

    def truncate(self, at: At, time: dt.datetime | None) -> None:
        """End the spans of all rows."""
        self._check(None)
        for span in self._here:
            span.ended, span.ended_at, span.ended_time = "truncated", at, time
        self._here = []

    def settle(self) -> None:
        """Keep only the last row: after a transaction one row alone can have the key."""
        for span in self._here[:-1]:
            span.ended = "lost"
        self._here = self._here[-1:]

    def take(self, event: RowEvent) -> None:
        """Add one more change to its span. Raises ``UnsureError``."""
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

    def _pass(self, event: RowEvent) -> None:
        """Add a change that was not read, assumed to be of the row that has the key."""
        if len(self._here) != 1:
            raise UnsureError
        self._passed = self._here[0]
        self._passed.events.append(event)

    def _check(self, span: KeyPeriod | None) -> None:
        if self._passed not in (None, span):
            raise UnsureError
        self._passed = None

    def _span(self, event: RowEvent, moves_away: bool) -> KeyPeriod:
        """Return the span of the row that this change is of."""
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

    def _begin(self, begun: str) -> KeyPeriod:
        span = KeyPeriod(self._relation_id, self._key_hash, self._key, [], begun)
        self._here.append(span)
        self.spans.append(span)
        return span

"""The changes under one key as the index has them, without their values, and the spans in which one
row after another had that key.

A row arrives under a key by an insert, by an update that moved it there, or is found there; it
leaves by a delete, by an update that moves it on, or with a truncation. Only a deferrable
constraint lets two rows have one key, until their transaction ends.
"""

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from decoder.scalars import LSN
from replview.store.read.row_history.sought_row import At
from replview.store.read.rows import OPEN_END, QUICKLY_NOT_ABORTED
from replview.store.read.session import ReadSession

#: The newest changes under one key that are read at first; more where one transaction has so many.
MOST_EVENTS = 20_000

# Of each table the newest changes under the key, and those that moved a row away from it; what was
# rolled back has no incarnation, and counts among those read.
_EVENTS = f"""
    SELECT c.transaction_id, c.seq, (c.lsn - '0/0')::bigint, c.op::text, c.key_hash,
           c.old_key_hash, c.relation_id, t.incarnation_id, (t.commit_lsn - '0/0')::bigint,
           t.commit_time, c.number, (c.low - '0/0')::bigint,
           CASE WHEN c.op <> 'U' OR c.old_key_hash IS NOT NULL THEN (
               SELECT jsonb_build_array(jsonb_object_agg(n.name, coalesce(k.new, k.old)->n.name),
                                        jsonb_object_agg(n.name, coalesce(k.old, k.new)->n.name))
               FROM change k CROSS JOIN unnest(%(names)s::text[]) AS n (name)
               WHERE k.transaction_id = c.transaction_id AND k.seq = c.seq) END
    FROM unnest(%(relations)s::bigint[]) AS w (relation_id)
    CROSS JOIN LATERAL (
        SELECT k.*, count(*) OVER () AS number, min(k.lsn) OVER () AS low FROM (
            SELECT c.transaction_id, c.seq, c.lsn, c.op, c.key_hash, c.old_key_hash,
                   c.relation_id, c.subxid
            FROM change c
            WHERE c.relation_id = w.relation_id AND c.key_hash = %(hash)s
              AND c.lsn < %(below)s::pg_lsn
            ORDER BY c.lsn DESC, c.seq DESC LIMIT %(most)s) k
        UNION ALL
        SELECT k.*, count(*) OVER () AS number, min(k.lsn) OVER () AS low FROM (
            SELECT c.transaction_id, c.seq, c.lsn, c.op, c.key_hash, c.old_key_hash,
                   c.relation_id, c.subxid
            FROM change c
            WHERE c.relation_id = w.relation_id AND c.old_key_hash = %(hash)s
              AND c.key_hash IS DISTINCT FROM %(hash)s AND c.lsn < %(below)s::pg_lsn
            ORDER BY c.lsn DESC, c.seq DESC LIMIT %(most)s) k
    ) c
    LEFT JOIN transaction t ON t.id = c.transaction_id
         AND t.state IN ('committed', 'snapshot') AND {QUICKLY_NOT_ABORTED}
"""  # noqa: S608 (nothing but the store's own columns)


#: A key's values, or marks in their place, by column.
Key = Mapping[str, Any]


_NAME = re.compile(r"([0-9]{1,18})-([0-9]{1,9})")


def change_name(text: str) -> tuple[int, int] | None:
    """The transaction and seq of ``4711-3``; None: it names no change."""
    match = _NAME.fullmatch(text)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class Event:
    """One change of a row, as the index knows it."""

    at: At
    op: str
    transaction_id: int
    seq: int
    relation_id: int
    incarnation_id: int
    key_hash: int
    #: Of the key that the row had before, where the change gave it another one.
    old_key_hash: int | None
    commit_time: dt.datetime | None
    #: The key that it was looked for under.
    key: Key
    #: The row's key afterwards and before, of a change with which a row came or left.
    keys: tuple[Key, Key] | None = None

    @property
    def name(self) -> tuple[int, int]:
        """What tells it from every other change."""
        return self.transaction_id, self.seq

    @property
    def text(self) -> str:
        """Return it as addresses and cursors have it: ``4711-3``."""
        return f"{self.transaction_id}-{self.seq}"

    @property
    def moves(self) -> bool:
        """The row has another key afterwards."""
        return self.old_key_hash is not None and self.old_key_hash != self.key_hash


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


@dataclass(slots=True)
class KeyEvents:
    """The changes under one key, oldest first."""

    events: list[Event] = field(default_factory=list)
    #: Older ones were not read.
    limited: bool = False


def read_events(
    session: ReadSession,
    relation_ids: Collection[int],
    key_hash: int,
    key: Key,
    numbers: Mapping[int, int],
    below: int = OPEN_END,
) -> KeyEvents:
    """The newest changes under a key below an LSN; ``numbers`` of the slot's incarnations."""
    found = KeyEvents()
    for times in (1, 4, 16):
        wanted = {
            "relations": list(relation_ids), "hash": key_hash, "below": str(LSN(below)),
            "most": MOST_EVENTS * times, "names": list(key),
        }  # fmt: skip
        found = _events(session.prepared_rows(_EVENTS, wanted), key_hash, key, numbers, wanted)
        if not found.limited or len({event.transaction_id for event in found.events}) > 1:
            break
    return found


def _events(
    rows: Iterable[tuple[Any, ...]], key_hash: int, key: Key, numbers: Mapping[int, int],
    wanted: Mapping[str, Any],
) -> KeyEvents:  # fmt: skip
    found, floor = [], 0
    for row in rows:
        transaction_id, seq, lsn, op, mine, old, relation_id, incarnation_id, commit, at = row[:10]
        if row[10] >= wanted["most"]:
            floor = max(floor, row[11])
        number = numbers.get(incarnation_id)
        if number is None:
            continue
        place = (OPEN_END if commit is None else commit, int(op != "S"), lsn, seq)
        after, before = (None, None) if row[12] is None else orjson.loads(row[12])
        keys = None if after is None or before is None else (after, before)
        event = Event((number, *place), op, transaction_id, seq, relation_id, incarnation_id, mine,
                      old, at, key, keys)  # fmt: skip
        # The same hash can be another key's.
        if keys is None or is_same_key(key, keys[0 if mine == key_hash else 1]):
            found.append(event)
    events = sorted((e for e in found if e.at[3] > floor), key=lambda event: event.at)
    if floor and events:
        # The oldest transaction may have begun before: whose its changes are could not be told.
        events = [e for e in events if e.transaction_id != events[0].transaction_id] or events
    return KeyEvents(events, limited=floor > 0)


def is_same_key(key: Key, other: Key) -> bool:
    """Whether two keys are one, as far as their values are known."""
    known = {name: value for name, value in other.items() if isinstance(value, str)}
    return all(known.get(name, value) == value for name, value in key.items())


#: A truncation of the table: where, and when it was committed.
Cut = tuple[At, dt.datetime | None]
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

    ``truncations``: of each table, in order.
    """
    by_table: dict[int, list[Event]] = {}
    for event in events:
        by_table.setdefault(event.relation_id, []).append(event)
    found: list[Span] = []
    for relation_id, mine in by_table.items():
        fold = _Fold(relation_id, key_hash, key, tell)
        cuts = list(truncations.get(relation_id, ()))
        for event in mine:
            while cuts and cuts[0][0] < event.at:
                fold.truncate(*cuts.pop(0))
            fold.take(event)
        for cut in cuts:
            fold.truncate(*cut)
        fold.settle()
        found += fold.spans
    return sorted(found, key=lambda span: span.last_at)


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

    def truncate(self, at: At, time: dt.datetime | None) -> None:
        """Every row of the table is gone."""
        for span in self._here:
            span.ended, span.ended_at, span.ended_time = "truncated", at, time
        self._here = []

    def settle(self) -> None:
        """A transaction has ended: one row alone can have the key, the one that came last."""
        for span in self._here[:-1]:
            span.ended = "lost"
        self._here = self._here[-1:]

    def take(self, event: Event) -> None:
        """One more change."""
        if event.transaction_id != self._transaction_id:
            self._maybe_another = not self._transaction_id
            self.settle()
            self._transaction_id = event.transaction_id
        moves_away = event.moves and event.old_key_hash == self._key_hash
        span = self._span(event, moves_away)
        span.events.append(event)
        if event.op == "D" or moves_away:
            span.ended = "delete" if event.op == "D" else "moved"
            self._here.remove(span)

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

"""Read the changes under one key without their values.

Of thousands of changes most are read from an index alone. The index does not have commit times,
each of which costs a lookup in ``transaction``: these are read only for changes that are shown, and
for changes with which a row may have begun or ended.
"""

import datetime as dt
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from decoder.scalars import LSN
from replview.store.read.row_history.key_periods import Cut, KeyPeriod
from replview.store.read.row_history.sought_row import At
from replview.store.read.rows import OPEN_END, QUICKLY_NOT_ABORTED
from replview.store.read.session import ReadSession, array_text

#: The newest changes under one key that are read; more where one transaction has so many.
MOST_EVENTS = 20_000
#: The number of changes read at first; most keys have no more.
AT_FIRST = 100

_EVENT = """
    SELECT c.transaction_id, c.seq, (c.lsn - '0/0')::bigint, c.op::text, c.key_hash,
           c.old_key_hash, c.relation_id, t.incarnation_id, (t.commit_lsn - '0/0')::bigint,
           t.commit_time,
           CASE WHEN c.op <> 'U' OR c.old_key_hash IS NOT NULL THEN (
               SELECT jsonb_build_array(jsonb_object_agg(n.name, coalesce(k.new, k.old)->n.name),
                                        jsonb_object_agg(n.name, coalesce(k.old, k.new)->n.name))
               FROM change k CROSS JOIN unnest(%(names)s::text[]) AS n (name)
               WHERE k.transaction_id = c.transaction_id AND k.seq = c.seq) END
"""
_TRANSACTION = f"""
    LEFT JOIN transaction t ON t.id = c.transaction_id
         AND t.state IN ('committed', 'snapshot') AND {QUICKLY_NOT_ABORTED}
"""
#: Excludes changes of rows that were keyed by other columns, whose values may be the same.
_SAME_KEY_COLUMNS = "WHERE %(versions)s::bigint[] IS NULL OR c.version_id = ANY(%(versions)s)"
# The newest changes of each table under the key, and those that moved a row away from it. A change
# that was rolled back has no incarnation, but counts toward the limit.
_EVENTS = f"""
    {_EVENT}, c.number, (c.low - '0/0')::bigint
    FROM unnest(%(relations)s::bigint[]) AS w (relation_id)
    CROSS JOIN LATERAL (
        SELECT k.*, count(*) OVER () AS number, min(k.lsn) OVER () AS low FROM (
            SELECT c.transaction_id, c.seq, c.lsn, c.op, c.key_hash, c.old_key_hash,
                   c.relation_id, c.subxid, c.version_id
            FROM change c
            WHERE c.relation_id = w.relation_id AND c.key_hash = %(hash)s
              AND c.lsn < %(below)s::pg_lsn
            ORDER BY c.lsn DESC, c.seq DESC LIMIT %(most)s) k
        UNION ALL
        SELECT k.*, count(*) OVER () AS number, min(k.lsn) OVER () AS low FROM (
            SELECT c.transaction_id, c.seq, c.lsn, c.op, c.key_hash, c.old_key_hash,
                   c.relation_id, c.subxid, c.version_id
            FROM change c
            WHERE c.relation_id = w.relation_id AND c.old_key_hash = %(hash)s
              AND c.key_hash IS DISTINCT FROM %(hash)s AND c.lsn < %(below)s::pg_lsn
            ORDER BY c.lsn DESC, c.seq DESC LIMIT %(most)s) k
    ) c {_TRANSACTION} {_SAME_KEY_COLUMNS}
"""  # noqa: S608 (nothing but the store's own columns)
# Changes by transaction and seq.
_NAMED = f"""
    {_EVENT}
    FROM unnest(%(ids)s::bigint[], %(seqs)s::int[]) AS w (transaction_id, seq)
    JOIN change c ON c.transaction_id = w.transaction_id AND c.seq = w.seq {_TRANSACTION}
    {_SAME_KEY_COLUMNS}
"""
# All changes under a key from the index alone (change_row_history), with a flag for those that may
# not count (transaction_uncounted, tombstone_unswept), and some of the changes that moved any key.
_PLACES = """
    SELECT c.transaction_id, c.seq, (c.lsn - '0/0')::bigint, c.op::text, w.relation_id,
           c.op <> 'U'
           OR EXISTS (SELECT FROM transaction t WHERE t.id = c.transaction_id
                      AND t.state NOT IN ('committed', 'snapshot', 'message'))
           OR EXISTS (SELECT FROM aborted_subtransaction a
                      WHERE a.transaction_id = c.transaction_id AND NOT a.swept),
           false, false
    FROM unnest(%(relations)s::bigint[]) AS w (relation_id) CROSS JOIN LATERAL (
        SELECT c.transaction_id, c.seq, c.lsn, c.op FROM change c
        WHERE c.relation_id = w.relation_id AND c.key_hash = %(hash)s AND c.lsn < %(below)s::pg_lsn
        LIMIT %(most)s
    ) c
    UNION ALL
    SELECT c.transaction_id, c.seq, (c.lsn - '0/0')::bigint, c.op::text, w.relation_id, true, true,
           c.lsn < %(below)s::pg_lsn AND %(hash)s IN (c.key_hash, c.old_key_hash)
    FROM unnest(%(relations)s::bigint[]) AS w (relation_id) CROSS JOIN LATERAL (
        SELECT c.transaction_id, c.seq, c.lsn, c.op, c.key_hash, c.old_key_hash FROM change c
        WHERE c.relation_id = w.relation_id AND c.old_key_hash IS NOT NULL LIMIT %(moves)s
    ) c
"""
#: With this many changes that moved a key in a table, those of this key are not singled out.
MOST_MOVES = 100
#: The most changes under a key that are read one by one.
_MOST_READ = 2000


#: A key's values, or marks in their place, by column.
KeyValues = Mapping[str, Any]


_NAME = re.compile(r"([0-9]{1,18})-([0-9]{1,9})")


def change_name(text: str) -> tuple[int, int] | None:
    """Return the transaction and seq of ``4711-3``; None: the text names no change."""
    match = _NAME.fullmatch(text)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(slots=True, eq=False)
class RowEvent:
    """One change of a row; its commit may be read only when needed."""

    transaction_id: int
    seq: int
    lsn: int
    op: str
    relation_id: int
    key_hash: int
    #: The key by which the change was found.
    key: KeyValues
    #: The hash of the row's former key, where the change gave it another one.
    old_key_hash: int | None = None
    #: The row's key after and before the change, where a row may begin or end with it.
    keys: tuple[KeyValues, KeyValues] | None = None
    #: The change's place, incarnation and commit time; None: not read yet.
    commit: tuple[At, int, dt.datetime | None] | None = None
    #: The reader of commits that were not read yet.
    unread: "Unread | None" = None

    @property
    def at(self) -> At:
        """Return the change's place in the slot's whole history."""
        return self._commit[0]

    @property
    def incarnation_id(self) -> int:
        """Return the incarnation that the change was made in."""
        return self._commit[1]

    @property
    def commit_time(self) -> dt.datetime | None:
        """Return the time of the commit; None where it is unknown."""
        return self._commit[2]

    @property
    def _commit(self) -> tuple[At, int, dt.datetime | None]:
        if self.commit is None:
            assert self.unread is not None
            self.unread.read_around(self)
            assert self.commit is not None
        return self.commit

    @property
    def name(self) -> tuple[int, int]:
        """Return the transaction and seq, which identify the change."""
        return self.transaction_id, self.seq

    @property
    def text(self) -> str:
        """Return the name as in addresses and cursors: ``4711-3``."""
        return f"{self.transaction_id}-{self.seq}"

    @property
    def transaction(self) -> int:
        """Return the transaction, which identifies itself by its id."""
        return self.transaction_id

    @property
    def is_read(self) -> bool:
        """Return whether the commit was read."""
        return self.commit is not None

    @property
    def key_before(self) -> int:
        """Return the hash of the row's key before the change."""
        return self.key_hash if self.old_key_hash is None else self.old_key_hash

    @property
    def key_after(self) -> int:
        """Return the hash of the row's key after the change."""
        return self.key_hash

    @property
    def moves(self) -> bool:
        """Return whether the row has another key after the change."""
        return self.old_key_hash is not None and self.old_key_hash != self.key_hash


@dataclass(slots=True)
class KeyEvents:
    """The changes under one key, oldest first."""

    events: list[RowEvent] = field(default_factory=list)
    #: True when older changes were not read.
    limited: bool = False


#: A period with changes as they are read here.
RowPeriod = KeyPeriod[RowEvent]
#: A function that returns each table's truncations, in order, for some changes.
Cuts = Callable[[Sequence[RowEvent]], Mapping[int, Sequence[Cut]]]
#: Changes read on each side of a requested one.
_AROUND = 50


@dataclass(slots=True, eq=False)
class Unread:
    """Changes of which some were read from the index alone."""

    reader: "_KeyReader"
    events: list[RowEvent]

    def read_around(self, event: RowEvent) -> None:
        """Read the commits of a change and of its neighbours."""
        index = self.events.index(event)
        self._complete(self.events[max(index - _AROUND, 0) : index + _AROUND], ())

    def read_all(self) -> None:
        """Read the commits of all changes in the order of the index, not one by one."""
        self._complete(self.events, self.reader.newest(MOST_EVENTS).events)

    def _complete(self, events: Iterable[RowEvent], read: Iterable[RowEvent]) -> None:
        missing = [event for event in events if event.commit is None]
        found = {event.name: event for event in read}
        found |= self.reader.named([event for event in missing if event.name not in found])
        for event in missing:
            now = found.get(event.name)
            # The change was deleted meanwhile with its day, so it was the oldest.
            gone = (0, event.lsn, 1, event.lsn, event.seq), 0, None
            event.commit = gone if now is None else now.commit


def read_all(events: Iterable[RowEvent]) -> None:
    """Read the commits of these changes that were not read yet."""
    for unread in {event.unread for event in events if event.commit is None}:
        if unread is not None:
            unread.read_all()


def read_events(
    session: ReadSession,
    relation_ids: Collection[int],
    key_hash: int,
    key: KeyValues,
    numbers: Mapping[int, int],
    below: int = OPEN_END,
    cuts: Cuts | None = None,
    versions: Sequence[int] | None = None,
) -> KeyEvents:
    """Read the newest changes under a key below an LSN.

    ``numbers``: the slot's incarnations with their numbers. ``cuts``: given where rows have the key
    one after another, in the order of LSNs. Then, of many changes, only those with which a row may
    have begun or ended are read, and their neighbours. ``versions``: the table's versions in which
    rows were keyed by these columns; None: all.
    """
    reader = _KeyReader(
        session, list(relation_ids), key_hash, key, numbers, str(LSN(below)), versions
    )
    found = reader.newest(min(AT_FIRST, MOST_EVENTS)) if cuts else KeyEvents(limited=True)
    if not found.limited:
        return found
    if cuts and (sparse := reader.sparse(found.events, cuts)):
        return sparse
    for times in (1, 4, 16):
        found = reader.newest(MOST_EVENTS * times)
        if not found.limited or len({event.transaction_id for event in found.events}) > 1:
            break
    return found


@dataclass(frozen=True, slots=True)
class _KeyReader:
    """Reads the changes under one key."""

    session: ReadSession
    relation_ids: list[int]
    key_hash: int
    key: KeyValues
    numbers: Mapping[int, int]
    below: str
    versions: Sequence[int] | None

    def newest(self, most: int) -> KeyEvents:
        """Return the newest changes, at most so many of each table."""
        found: list[RowEvent] = []
        floor = 0
        for row in self._rows(_EVENTS, most=most, below=self.below):
            if row[11] >= most:
                floor = max(floor, row[12])
            found += self._counted(row)
        events = sorted((e for e in found if e.at[3] > floor), key=lambda event: event.at)
        if floor and events:
            # The oldest transaction may have changes beyond the limit, so its rows are uncertain.
            events = [e for e in events if e.transaction_id != events[0].transaction_id] or events
        return KeyEvents(events, limited=floor > 0)

    def named(self, events: Collection[RowEvent]) -> Mapping[tuple[int, int], RowEvent]:
        """Return those of these changes that count, by their names."""
        ids, seqs = (array_text(event.name[part] for event in events) for part in (0, 1))
        rows = self._rows(_NAMED, ids=ids, seqs=seqs) if events else ()
        return {event.name: event for row in rows for event in self._counted(row)}

    def sparse(self, newest: Collection[RowEvent], cuts: Cuts) -> KeyEvents | None:
        """Return all changes, most as the index has them; None: their order would be unsure."""
        known = {event.name: event for event in newest}
        marked = set[tuple[int, int]]()
        by_table: dict[int, dict[tuple[int, int], RowEvent]] = {}
        asked = {"most": MOST_EVENTS, "moves": MOST_MOVES, "below": self.below}
        rows = self._rows(_PLACES, **asked)
        moves = sum(row[6] for row in rows)
        if moves >= MOST_MOVES or len(rows) - moves >= MOST_EVENTS:
            return None
        for transaction_id, seq, lsn, op, relation_id, is_marked, is_move, is_mine in rows:
            if is_move and not is_mine:
                continue
            event = RowEvent(transaction_id, seq, lsn, op, relation_id, self.key_hash, self.key)
            mine = by_table.setdefault(relation_id, {})
            mine.setdefault(event.name, known.get(event.name, event))
            if is_marked:
                marked.add(event.name)
        truncations = cuts(list(newest))
        tables = [sorted(mine.values(), key=lambda e: (e.lsn, e.seq)) for mine in by_table.values()]
        wanted = [
            event
            for events in tables
            for event in _boundaries(events, marked, truncations.get(events[0].relation_id, ()))
        ]
        if len(wanted) > _MOST_READ:
            return None
        read = {**known, **self.named(wanted)}
        doubtful = {event.name for event in wanted} - read.keys()
        found: list[RowEvent] = []
        for table in tables:
            events = [read.get(e.name, e) for e in table if e.name not in doubtful]
            places = [event.at for event in events if event.commit is not None]
            if len({e.lsn for e in events}) < len(events) or places != sorted(places):
                return None
            found += events
        unread = Unread(self, found)
        for event in found:
            event.unread = unread
        return KeyEvents(found)

    def _rows(self, statement: str, **more: object) -> list[tuple[Any, ...]]:
        of_key = {
            "relations": self.relation_ids, "hash": self.key_hash, "names": list(self.key),
            "versions": None if self.versions is None else list(self.versions),
        }  # fmt: skip
        return self.session.prepared_rows(statement, {**of_key, **more})

    def _counted(self, row: Sequence[Any]) -> Iterator[RowEvent]:
        """Yield the change if it counts and is not of another key with the same hash."""
        transaction_id, seq, lsn, op, mine, old, relation_id, incarnation, commit, time = row[:10]
        number = self.numbers.get(incarnation)
        if number is None:
            return
        at = (number, OPEN_END if commit is None else commit, int(op != "S"), lsn, seq)
        after, before = (None, None) if row[10] is None else orjson.loads(row[10])
        keys = None if after is None or before is None else (after, before)
        if keys is None or is_same_key(self.key, keys[0 if mine == self.key_hash else 1]):
            yield RowEvent(transaction_id, seq, lsn, op, relation_id, mine, self.key, old, keys,
                           (at, incarnation, time))  # fmt: skip


def _boundaries(
    events: Sequence[RowEvent], marked: Collection[tuple[int, int]], cuts: Sequence[Cut]
) -> list[RowEvent]:
    """Return the changes of a table that show where one row ends and another begins.

    The changes between two of them are of one row. Changes that were read already are left out.
    """
    places = [(event.lsn, event.seq) for event in events]
    wanted = {0, 1, len(events) - 1}
    for index, event in enumerate(events):
        if event.name in marked:
            wanted |= {index - 1, index, index + 1}
    for (_, _, _, lsn, seq), _ in cuts:
        index = bisect_left(places, (lsn, seq))
        wanted |= {index - 1, index}
    return [event for n, event in enumerate(events) if n in wanted and event.commit is None]


def is_same_key(key: KeyValues, other: KeyValues) -> bool:
    """Return whether two keys are equal, as far as their values are known."""
    known = {name: value for name, value in other.items() if isinstance(value, str)}
    return all(known.get(name, value) == value for name, value in key.items())

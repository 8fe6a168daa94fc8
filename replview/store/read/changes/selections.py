"""The changes of any view: of a filter, a search, one transaction or one row.

Downloads and the command line write them. The parameters are those of ``WantedChanges``; ``key``
(or ``key.<column>``) with one table selects one row's history.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Self

from psycopg import sql

from replview.store.read.changes.batches import CHANGE_COLUMNS, Batching, ShapeCache
from replview.store.read.changes.scan import ChangeInTransaction, ChangeScan, before
from replview.store.read.changes.scan_places import ScanPosition
from replview.store.read.changes.values import changed_nothing
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.history import transactions_by_id
from replview.store.read.row_history.before_images import before_images
from replview.store.read.row_history.events import change_name
from replview.store.read.row_history.finding import RowFinder
from replview.store.read.row_history.keys import KeyProblem, TableRows, parse_key, tables_named
from replview.store.read.rows import QueriedSlot, TransactionRow
from replview.store.read.session import ReadSession
from replview.store.read.transactions.filter_values import OPERATIONS

#: Changes that match, and further ones of which this is unknown, in no order.
MatchedChanges = tuple[list[ChangeInTransaction], Sequence[ChangeInTransaction]]

_CHANGES_AT_ONCE = 500

_CHANGES_AT = sql.SQL("""
    SELECT {columns}
    FROM unnest(%s::bigint[], %s::int[]) AS w (transaction_id, seq)
    JOIN change c ON c.transaction_id = w.transaction_id AND c.seq = w.seq
""").format(columns=sql.SQL(CHANGE_COLUMNS))


def found_at(
    session: ReadSession, places: Sequence[tuple[int, int]]
) -> Iterator[ChangeInTransaction]:
    """Yield the changes at these (transaction, seq), in this order; missing ones are left out."""
    shapes = ShapeCache(session)
    for start in range(0, len(places), _CHANGES_AT_ONCE):
        some_places = places[start : start + _CHANGES_AT_ONCE]
        ids, seqs = zip(*some_places, strict=True)
        read = session.rows(_CHANGES_AT, [list(ids), list(seqs)])
        shapes.learn({row[11] for row in read if row[11] is not None})
        changes = {(change.transaction_id, change.seq): change for change in shapes.rows(read)}
        rows = {row.id: row for row in transactions_by_id(session, set(ids))}
        for place in some_places:
            if place in changes and place[0] in rows:
                yield rows[place[0]], changes[place]


def within(portion: MatchedChanges, remaining: int | None) -> int:
    """Return how many unknown changes precede the end of what a reader still takes.

    ``remaining`` is the number of changes it still takes; None: all.
    """
    matching, unknown = portion
    if remaining is None or remaining > len(matching):
        return len(unknown)
    return len(before(unknown, matching[remaining - 1])) if remaining else 0


def without_unchanged(
    session: ReadSession, changes: list[ChangeInTransaction], *, asked: object
) -> tuple[list[ChangeInTransaction], list[ChangeInTransaction]]:
    """Split off the updates that are known to have changed nothing, if ``asked``."""
    if not asked:
        return changes, []
    before = before_images(session, (change for _, change in changes if change.op == "U"))
    changed: list[ChangeInTransaction] = []
    unchanged: list[ChangeInTransaction] = []
    for pair in changes:
        image = before.get((pair[1].transaction_id, pair[1].seq))
        is_same = changed_nothing(pair[1], image.image if image else None)
        (unchanged if is_same else changed).append(pair)
    return changed, unchanged


def undecided_words(number: int) -> str:
    """Return a sentence about changes of which it is unknown whether they match."""
    left_out, pronoun = (
        ("1 change is", "it") if number == 1 else (f"{number:,} changes are", "they")
    )
    return (
        f"{left_out} left out, because it is unknown whether {pronoun} matched: the server did not "
        "send the value and earlier changes do not contain it, or the value is not valid for "
        "the column's type in the store"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The changes that parameters select; ``trouble`` says which of them were not understood."""

    wanted: WantedChanges
    table: TableRows | None = None
    key: dict[str, str | None] | None = None
    #: A change (transaction, seq) that identifies the row among all that had the key; None: the row
    #: that has it now or had it last.
    change: tuple[int, int] | None = None
    trouble: str = ""

    @classmethod
    def from_words(
        cls, session: ReadSession, slot: QueriedSlot, words: Mapping[str, object]
    ) -> Self:
        """Read the parameters of an address or the options of a command; never raises."""
        wanted = WantedChanges.from_words(slot, words)
        pairs = {name[4:]: str(words[name]) for name in words if name.startswith("key.")}
        key_text = str(words.get("key") or "")
        if wanted.trouble or not (pairs or key_text):
            return cls(wanted=wanted, trouble=wanted.trouble)
        tables = wanted.filter.tables
        table = tables_named(session, slot, tables[0]) if len(tables) == 1 else None
        if table is None:
            trouble = "a row is one of a table: name one table that is known"
            return cls(wanted=wanted, trouble=trouble)
        if reason := table.withheld(session):
            return cls(wanted=wanted, trouble=reason)
        try:
            key = table.printed(session, pairs or parse_key(key_text, table.key_columns))
        except KeyProblem as problem:
            return cls(wanted=wanted, trouble=str(problem))
        change = change_name(str(words.get("row") or ""))
        return cls(wanted=wanted, table=table, key=key, change=change)

    def found(
        self, session: ReadSession, after: ScanPosition | None = None, *, as_lines: bool = False
    ) -> Iterator[MatchedChanges]:
        """Yield the changes in the order of history, some at a time.

        ``as_lines`` is for ``RecordWriter.line`` alone, and includes what the store wrote. Raises
        ``WhereProblem``.
        """
        if self.table is not None and self.key is not None:
            yield from self._row_changes(session, self.table, self.key)
            return
        scan = ChangeScan(session, self.wanted, place=after, as_lines=as_lines)
        for batch in scan.batches():
            yield batch.found, batch.unknown

    def newest(self, session: ReadSession, number: int) -> MatchedChanges:
        """Return the last ``number`` changes, in the order of history."""
        if self.key is not None:
            return list(chain.from_iterable(pairs for pairs, _ in self.found(session)))[
                -number:
            ], ()
        changes: list[ChangeInTransaction] = []
        unknown: list[ChangeInTransaction] = []
        batching = Batching(first=min(number * 2 + 100, 2000), most=2000)
        for batch in ChangeScan(session, self.wanted, forwards=False, batching=batching).batches():
            changes += batch.found
            unknown += batch.unknown
            if len(changes) >= number:
                earlier = {id(pair) for pair in before(unknown, changes[number - 1])}
                unknown = [pair for pair in unknown if id(pair) not in earlier]
                break
        return changes[:number][::-1], unknown

    def more_than(
        self, session: ReadSession, limit: int, *, budget_seconds: float = 0.3
    ) -> int | None:
        """Return the number of changes by the counters, if it is soon known to exceed ``limit``."""
        if self.key is not None or self.wanted.where or self.wanted.filter.ops != OPERATIONS:
            return None
        deadline = time.monotonic() + budget_seconds
        relation_ids = self.wanted.relation_ids(session)
        total = 0
        for rows in ChangeScan(session, self.wanted, forwards=False).transactions():
            total += sum(_changes_of_tables(row, relation_ids) for row in rows)
            if total > limit or time.monotonic() > deadline:
                break
        return total if total > limit else None

    def _row_changes(
        self, session: ReadSession, table: TableRows, key: Mapping[str, str | None]
    ) -> Iterator[MatchedChanges]:
        """Yield the row's changes, with its truncation last."""
        finder = RowFinder(session, self.wanted.slot, table, table.recorded(session, key))
        places = finder.whole(finder.row(self.change))
        filter_ = self.wanted.filter
        since, until = filter_.since_at, filter_.until_at
        changes = found_at(session, places)
        while pairs := list(islice(changes, _CHANGES_AT_ONCE)):
            yield [
                (row, change)
                for row, change in pairs
                if row.commit_seq is not None and change.op in filter_.ops
                and not (since and row.moment < since) and not (until and row.moment >= until)
            ], ()  # fmt: skip


def _changes_of_tables(row: TransactionRow, relation_ids: list[int] | None) -> int:
    """Return the number of a transaction's changes of these tables, by its counters."""
    if relation_ids is None:
        return row.changes
    return sum(sum(row.relations.get(str(key), ())) for key in relation_ids)

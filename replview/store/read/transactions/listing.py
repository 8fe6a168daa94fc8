"""Finding transactions: newest first or back up from anywhere, by any filter, a page at a time.

Within a life the order is that of commit_seq. Several lives, those that ended without a place in
history (aborted, rolled back, their end unknown) and those still open are merged by their times: of
the rows that come next in each, the newest is given. Nothing is counted, and no filter reads more
than its time allows: then the answer says how far back was searched, and goes on from there.
"""

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from replview.store.read.history_places import seq_at_lsn, seq_at_time, seq_range
from replview.store.read.rows import TransactionRow
from replview.store.read.session import ReadSession
from replview.store.read.transactions.cursor import (
    Cursor,
    cursor_at_beginning,
    cursor_at_lsn,
    cursor_at_time,
)
from replview.store.read.transactions.reading import FoundLife, Reader, time_at
from replview.store.read.transactions.streams import PlacedStream, Stream, UnplacedStream
from replview.store.read.transactions.transaction_filter import (
    ENDED_STATES,
    OPEN_STATES,
    PLACED_STATES,
    TransactionFilter,
)

__all__ = [
    "Cursor",
    "Found",
    "TransactionFilter",
    "cursor_at_beginning",
    "cursor_at_lsn",
    "cursor_at_time",
    "find_transactions",
    "seq_at_lsn",
    "seq_at_time",
    "seq_range",
]


@dataclass(frozen=True, slots=True)
class Found:
    """A page of transactions, newest first, and the cursors of the pages beside it."""

    rows: list[TransactionRow]
    #: Read on from here; None at the end.
    older: Cursor | None
    #: Read back up (``backwards=True``) from here; None at the newest.
    newer: Cursor | None
    #: How far was searched when the time was up; None where the page is complete.
    searched_back_to: dt.datetime | None = None
    #: False: the time was up; there may be more rows before ``searched_back_to``.
    complete: bool = True
    #: IncarnationPlaces → the slot's name and the life's number, of all lives that were looked at.
    slots: dict[int, tuple[str, int]] = field(default_factory=dict)
    #: ``{relation id: (schema, table)}`` of the slots in view, as many as were asked for.
    tables: dict[int, tuple[str, str]] = field(default_factory=dict)


def find_transactions(
    session: ReadSession,
    wanted: TransactionFilter,
    *,
    cursor: Cursor | None = None,
    backwards: bool = False,
    limit: int = 50,
    budget_seconds: float = 1.0,
    tables_most: int = 0,
) -> Found:
    """The transactions that pass a filter, from a cursor on (None: the newest), newest first.

    ``backwards`` reads the page before the cursor; ``tables_most``: so many names of each slot's
    tables come with it, for a menu. At least one stretch of history is looked
    through, whatever the budget.
    """
    deadline = time.monotonic() + budget_seconds
    reader = Reader(session, wanted, backwards=backwards, limit=limit, tables_most=tables_most)
    at = cursor or Cursor()
    lives = reader.lives(at.seqs)
    streams = _streams(reader, lives, wanted.wanted_states, at)
    rows, complete = _merge(reader, streams, limit, deadline)
    there = _cursor(at, streams) if any(stream.has_more for stream in streams) else None
    return Found(
        rows=rows[::-1] if backwards else rows,
        older=at if backwards else there,
        newer=there if backwards else cursor,
        searched_back_to=None if complete else _searched(session, streams),
        complete=complete,
        slots={found.life.id: (found.life.slot, found.life.number) for found in lives},
        tables=reader.tables,
    )


def _streams(
    reader: Reader, lives: Sequence[FoundLife], states: frozenset[str], at: Cursor
) -> list[Stream]:
    """What the page is merged of: of each life its places and its ends, and all that is open."""
    backwards = reader.backwards
    streams: list[Stream] = []
    for rank, found in enumerate(reversed(lives), start=1):
        life = found.life
        if states.intersection(PLACED_STATES):
            placed = PlacedStream(backwards, 2 * rank, life=life, cut=at.seqs.get(life.id))
            placed.begin(reads_values=reader.placed.reads_values, indexed=reader.placed.indexed)
            reader.set_blocks(placed, found)
            streams.append(placed)
        if states.intersection(ENDED_STATES):
            ended_at = at.ended.get(life.id)
            streams.append(UnplacedStream(backwards, 2 * rank + 1, life=life, cut=ended_at))
    reader.open_lives = [found.life.id for found in lives]
    if states.intersection(OPEN_STATES) and lives:
        streams.append(UnplacedStream(backwards, 2 * len(lives) + 2, cut=at.open))
    return streams


def _merge(
    reader: Reader, streams: Sequence[Stream], limit: int, deadline: float
) -> tuple[list[TransactionRow], bool]:
    """Rows in reading order, and whether the page is whole."""
    rows: list[TransactionRow] = []
    read = False
    while len(rows) < limit:
        needing = [stream for stream in streams if stream.needs_rows]
        if needing:
            if read and time.monotonic() > deadline:
                return rows, False
            reader.fill(needing)
            read = True
            continue
        heads = [stream for stream in streams if stream.rows]
        if not heads:
            break
        # Going back up, the oldest comes next.
        choose = min if reader.backwards else max
        rows.append(choose(heads, key=lambda stream: (stream.rows[0][0], stream.rank)).give())
    return rows, True


def _cursor(before: Cursor, streams: Sequence[Stream]) -> Cursor:
    """Where the next page begins; a place that was not read from stays as it was."""
    seqs, ended, open_ = dict(before.seqs), dict(before.ended), before.open
    for stream in streams:
        if isinstance(stream, PlacedStream):
            seqs[stream.life.id] = stream.next_cut
        elif isinstance(stream, UnplacedStream):
            cut = stream.next_cut
            if stream.life is None:
                open_ = cut
            elif cut is not None:
                ended[stream.life.id] = cut
    return Cursor(seqs, ended, open_)


def _searched(session: ReadSession, streams: Sequence[Stream]) -> dt.datetime | None:
    """The time down to which all of history was looked through: the least far of all lives."""
    unfinished = [
        (stream.life.id, stream.next_cut)
        for stream in streams
        if isinstance(stream, PlacedStream) and stream.needs_rows
    ]
    return time_at(session, unfinished)

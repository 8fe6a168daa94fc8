"""Lists of transactions: newest first or back up from any place, by any filter, page by page.

Within an incarnation commit_seq is the order. Several incarnations, transactions that ended without
a commit_seq (aborted, rolled back, unknown end) and open ones are merged by their times. Nothing is
counted, and no filter reads for longer than its time budget: then the answer says how far back it
searched, and the next page goes on from there.
"""

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from decoder.scalars import LSN
from replview.store.read import history_places
from replview.store.read.history import OPEN_STATES
from replview.store.read.rows import TransactionRow
from replview.store.read.session import ReadSession
from replview.store.read.transactions.filter_values import ENDED_STATES, PLACED_STATES
from replview.store.read.transactions.reading import FoundIncarnation, TransactionReader, time_at
from replview.store.read.transactions.streams import (
    PlacedStream,
    Stream,
    TimePosition,
    UnplacedStream,
)
from replview.store.read.transactions.transaction_filter import TransactionFilter

_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_END = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)
#: A time that no transaction reaches, in microseconds since 1970.
_END_US = 250_000_000_000_000_000
_LONGEST_CURSOR = 4000


@dataclass(frozen=True, slots=True)
class ListCursor:
    """A place in the list; the page after it holds what is older.

    That is, for each incarnation, the transactions before a commit_seq, and those without a
    commit_seq before a moment. An incarnation that the cursor does not name is read from its newest
    on. ``str`` and ``parse`` convert to and from the form in an address.
    """

    #: The commit_seq by incarnation identifier.
    seqs: dict[int, int] = field(default_factory=dict)
    #: The place (stored_at, id) among transactions that ended without a commit_seq, by incarnation
    #: identifier.
    ended: dict[int, TimePosition] = field(default_factory=dict)
    #: The place among open transactions.
    open: TimePosition | None = None

    def __str__(self) -> str:
        parts = [f"c{key}.{seq}" for key, seq in sorted(self.seqs.items())]
        parts += [
            f"e{key}.{_position_text(position)}" for key, position in sorted(self.ended.items())
        ]
        parts += [] if self.open is None else [f"o{_position_text(self.open)}"]
        return "_".join(parts)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a cursor. Raises ``ValueError`` for anything that ``str`` did not write."""
        seqs: dict[int, int] = {}
        ended: dict[int, TimePosition] = {}
        open_: TimePosition | None = None
        if len(text) > _LONGEST_CURSOR or not text.isascii():
            raise ValueError("not a cursor")
        for part in text.split("_"):
            kind, numbers = part[:1], [int(number) for number in part[1:].split(".")]
            if min(numbers) < 0 or max(numbers) >= 1 << 63 or len(numbers) > 3:
                raise ValueError("not a cursor")
            match kind, numbers:
                case "c", [incarnation, seq]:
                    seqs[incarnation] = seq
                case "e", [incarnation, us, identifier] if us < _END_US:
                    ended[incarnation] = (_EPOCH + us * _MICROSECOND, identifier)
                case "o", [us, identifier] if us < _END_US:
                    open_ = (_EPOCH + us * _MICROSECOND, identifier)
                case _:
                    raise ValueError("not a cursor")
        return cls(seqs, ended, open_)


def cursor_at_time(session: ReadSession, moment: dt.datetime, slot: str = "") -> ListCursor:
    """Return the cursor of the list that begins with the last transaction at or before a moment."""
    seqs = history_places.last_seqs_at_time(session, slot, moment)
    position = (min(max(moment, _EPOCH), _END) + _MICROSECOND, 0)
    return ListCursor(
        {key: seq + 1 for key, seq in seqs.items()}, dict.fromkeys(seqs, position), position
    )


def cursor_at_lsn(session: ReadSession, lsn: LSN, slot: str = "") -> ListCursor:
    """Return the cursor of the list that begins with the commit at an LSN.

    It applies to incarnations that reach the LSN.
    """
    seqs = history_places.first_seqs_from_lsn(session, slot, lsn)
    return ListCursor(seqs={key: seq + 1 for key, seq in seqs.items()})


def cursor_at_beginning(session: ReadSession, slot: str = "") -> ListCursor:
    """Return the cursor before all transactions: reading backwards from it yields the oldest."""
    ids = [incarnation.id for incarnation in history_places.incarnation_places(session, slot)]
    position = (_EPOCH, 0)
    return ListCursor(dict.fromkeys(ids, 1), dict.fromkeys(ids, position), position)


def _position_text(position: TimePosition) -> str:
    return f"{(position[0] - _EPOCH) // _MICROSECOND}.{position[1]}"


@dataclass(frozen=True, slots=True)
class TransactionListPage:
    """A page of transactions, newest first, and the cursors of the pages beside it."""

    rows: list[TransactionRow]
    #: Cursor of the next, older page; None at the end.
    older: ListCursor | None
    #: Cursor of the newer page, to be read with ``backwards=True``; None at the newest.
    newer: ListCursor | None
    #: Time down to which was searched when the budget was spent; None: the page is complete.
    searched_back_to: dt.datetime | None = None
    #: False if the budget was spent; there may be more rows before ``searched_back_to``.
    complete: bool = True
    #: The slot's name and the incarnation's number, by incarnation identifier, of all that were
    #: read.
    slots: dict[int, tuple[str, int]] = field(default_factory=dict)
    #: ``{relation id: (schema, table)}`` of the listed slots, up to ``tables_most`` of each.
    tables: dict[int, tuple[str, str]] = field(default_factory=dict)


def find_transactions(
    session: ReadSession,
    filter_: TransactionFilter,
    *,
    cursor: ListCursor | None = None,
    backwards: bool = False,
    limit: int = 50,
    budget_seconds: float = 1.0,
    tables_most: int = 0,
) -> TransactionListPage:
    """Return the transactions that match, from a cursor on (None: the newest), newest first.

    ``backwards`` reads the page before the cursor; ``tables_most`` is the number of table names of
    each slot that come with it. At least one range of history is read, whatever the budget.
    """
    deadline = time.monotonic() + budget_seconds
    reader = TransactionReader(
        session, filter_, backwards=backwards, limit=limit, tables_most=tables_most
    )
    start = cursor or ListCursor()
    candidates = reader.incarnations(start.seqs)
    incarnations = [candidate.incarnation for candidate in candidates]
    streams = _streams(reader, candidates, filter_.wanted_states, start)
    rows, complete = _merge(reader, streams, limit, deadline)
    has_more = any(stream.rows or not stream.exhausted for stream in streams)
    end = _cursor(start, streams) if has_more else None
    return TransactionListPage(
        rows=rows[::-1] if backwards else rows,
        older=start if backwards else end,
        newer=end if backwards else cursor,
        searched_back_to=None if complete else _searched_back_to(session, streams),
        complete=complete,
        slots={
            incarnation.id: (incarnation.slot, incarnation.number) for incarnation in incarnations
        },
        tables=reader.tables,
    )


def _streams(
    reader: TransactionReader,
    candidates: Sequence[FoundIncarnation],
    states: frozenset[str],
    cursor: ListCursor,
) -> list[Stream]:
    """Return the streams that a page merges: each incarnation's commits and ends, and open ones."""
    backwards = reader.backwards
    streams: list[Stream] = []
    for rank, candidate in enumerate(reversed(candidates), start=1):
        incarnation = candidate.incarnation
        if states.intersection(PLACED_STATES):
            placed = PlacedStream(backwards, 2 * rank, incarnation, cursor.seqs.get(incarnation.id))
            placed.begin(reads_values=reader.placed.reads_values, indexed=reader.placed.indexed)
            reader.set_blocks(placed, candidate)
            streams.append(placed)
        if states.intersection(ENDED_STATES):
            ended = cursor.ended.get(incarnation.id)
            streams.append(UnplacedStream(backwards, 2 * rank + 1, incarnation, ended))
    reader.open_incarnations = [candidate.incarnation.id for candidate in candidates]
    if states.intersection(OPEN_STATES) and candidates:
        streams.append(UnplacedStream(backwards, 2 * len(candidates) + 2, None, cursor.open))
    return streams


def _merge(
    reader: TransactionReader, streams: Sequence[Stream], limit: int, deadline: float
) -> tuple[list[TransactionRow], bool]:
    """Return the rows in reading order, and whether the page is complete."""
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
        # Reading backwards, the oldest comes next.
        choose = min if reader.backwards else max
        rows.append(choose(heads, key=lambda stream: (stream.rows[0][0], stream.rank)).give())
    return rows, True


def _cursor(before: ListCursor, streams: Sequence[Stream]) -> ListCursor:
    """Return the cursor of the next page; a place that was not read from stays unchanged."""
    seqs, ended, open_ = dict(before.seqs), dict(before.ended), before.open
    for stream in streams:
        if isinstance(stream, PlacedStream):
            seqs[stream.incarnation.id] = stream.next_cut
        elif isinstance(stream, UnplacedStream):
            cut = stream.next_cut
            if stream.incarnation is None:
                open_ = cut
            elif cut is not None:
                ended[stream.incarnation.id] = cut
    return ListCursor(seqs, ended, open_)


def _searched_back_to(session: ReadSession, streams: Sequence[Stream]) -> dt.datetime | None:
    """Return the time down to which all incarnations were searched."""
    unfinished = [
        (stream.incarnation.id, stream.next_cut)
        for stream in streams
        if isinstance(stream, PlacedStream) and stream.needs_rows
    ]
    return time_at(session, unfinished)

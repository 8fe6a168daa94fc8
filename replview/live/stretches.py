"""Read pieces of history for one browser: the latest, older ones, or what it missed."""

import datetime as dt
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from channels.db import DatabaseSyncToAsync

from replview.access.visibility import reading_session
from replview.live.filters import LiveFilter
from replview.live.reading import READ_LIMIT
from replview.live.summaries import Summary, TableNames, marker
from replview.store.models import SlotIncarnation
from replview.store.read import history
from replview.store.read.changes.of_transaction import matching_text
from replview.store.read.rows import TransactionRow

#: Most pages of READ_LIMIT that a filtered search of history reads at once.
_SEARCH_PAGES = 4
#: Most time from a log line to the store of the first transaction after it.
_EARLIER = dt.timedelta(minutes=5)


@dataclass(slots=True)
class HistoryPiece:
    """A piece of history for one browser, oldest first."""

    rows: list[Summary]
    markers: list[dict[str, Any]]
    #: The lowest commit_seq searched; 1 or 0 at the beginning of history.
    searched_to: int
    #: The number of transactions searched, with those that the filter excluded.
    searched: int


def _is_incarnation_of(slot_id: int, incarnation_id: int) -> bool:
    """Return whether the incarnation is of this slot, the only one that the browser may see."""
    return SlotIncarnation.objects.filter(pk=incarnation_id, slot_id=slot_id).exists()


def _with_ended(
    incarnation_id: int, rows: list[TransactionRow], names: TableNames, newest: bool
) -> list[Summary]:
    """Merge rows and, by the time of storing, transactions that ended without a commit_seq."""
    summaries = names.summaries(rows)
    stored = [row.stored_at for row in rows if row.stored_at is not None]
    if not stored or len(stored) != len(rows):
        return summaries
    until = None if newest else stored[-1]
    # A batch is stored at one time, so include the whole batch of the first row. Browsers drop
    # transactions that they already have, by identifier.
    since = stored[0] - dt.timedelta(microseconds=1)
    newest_first = history.ended_since(
        reading_session(), incarnation_id, since, 50, stored_until=until
    )
    ended = newest_first[::-1]
    places = [
        rows[max(0, bisect_right(stored, row.stored_at) - 1)].commit_seq or 0
        for row in ended
        if row.stored_at is not None
    ]
    merged = [*summaries, *names.summaries(ended, after_seqs=places)]
    return sorted(merged, key=lambda summary: (summary.data["seq"], not summary.data["placed"]))


def _matching(summaries: Iterable[Summary], filters: LiveFilter) -> list[Summary]:
    summaries = list(summaries)
    ids = [summary.row.id for summary in summaries]
    hits = matching_text(reading_session(), ids, filters.text) if filters.text else None
    return [summary for summary in summaries if filters.lets_through(summary, hits)]


def read_before(
    slot_id: int, incarnation_id: int, before: int | None, filters: LiveFilter, limit: int
) -> HistoryPiece:
    """Return the last ``limit`` matching transactions before a place (None: the end)."""
    names = TableNames()
    stretch = HistoryPiece(rows=[], markers=[], searched_to=before or 0, searched=0)
    if filters.only_open or not _is_incarnation_of(slot_id, incarnation_id):
        stretch.searched_to = 0
        return stretch
    page = limit if filters.everything else READ_LIMIT
    oldest: TransactionRow | None = None
    for turn in range(1 if filters.everything else _SEARCH_PAGES):
        rows = history.committed_before(reading_session(), incarnation_id, before, page)[::-1]
        if not rows:
            stretch.searched_to = 0
            break
        summaries = _with_ended(incarnation_id, rows, names, newest=turn == 0 and before is None)
        stretch.rows = _matching(summaries, filters) + stretch.rows
        stretch.searched += len(rows)
        oldest = rows[0]
        before = stretch.searched_to = oldest.commit_seq or 0
        if len(rows) < page:
            stretch.searched_to = 0
        if len(stretch.rows) >= limit or len(rows) < page:
            break
    if oldest is not None:
        stretch.markers = _markers_since(slot_id, incarnation_id, oldest, stretch.rows)
    return stretch


def _markers_since(
    slot_id: int, incarnation_id: int, oldest: TransactionRow, rows: list[Summary]
) -> list[dict[str, Any]]:
    last = max((summary.data["seq"] for summary in rows), default=oldest.commit_seq or 0)
    since = (oldest.stored_at or oldest.received_at) - _EARLIER
    events = history.events_around(
        reading_session(), slot_id, incarnation_id, oldest.commit_seq or 0, last, since=since
    )
    return [marker(event) for event in reversed(events)]


def read_between(
    slot_id: int, incarnation_id: int, after: int, up_to: int, filters: LiveFilter, limit: int
) -> HistoryPiece:
    """Return the newest ``limit`` transactions after one place and up to another."""
    names = TableNames()
    rows: list[TransactionRow] = []
    if _is_incarnation_of(slot_id, incarnation_id):
        rows = history.committed_before(reading_session(), incarnation_id, up_to + 1, limit)[::-1]
    rows = [row for row in rows if (row.commit_seq or 0) > after]
    summaries = _matching(_with_ended(incarnation_id, rows, names, newest=False), filters)
    first = (rows[0].commit_seq or 0) - 1 if rows else after
    markers = _markers_since(slot_id, incarnation_id, rows[0], summaries) if rows else []
    return HistoryPiece(
        rows=summaries, markers=markers, searched_to=max(first, after), searched=len(rows)
    )


#: The functions above in a thread of the pool, each with its own connection.
before = DatabaseSyncToAsync(read_before, thread_sensitive=False)
between = DatabaseSyncToAsync(read_between, thread_sensitive=False)

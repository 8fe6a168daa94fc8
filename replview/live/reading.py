"""Read what is new in the store since a position, once per feed for all its sockets."""

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from channels.db import DatabaseSyncToAsync

from replview.access.visibility import reading_session, use_visibility
from replview.live.summaries import Summary, TableNames, marker, slot_facts
from replview.store.models import Slot
from replview.store.read import history
from replview.store.read.changes.of_transaction import matching_text
from replview.store.read.visibility import Visibility

#: Most transactions that a feed reads at once; the rest is skipped.
READ_LIMIT = 500


#: A text to search for, and the visibility of the account that searches.
TextSearch = tuple[str, Visibility]


@dataclass(slots=True)
class Position:
    """The position up to which a feed has read; each read moves it."""

    slot_id: int
    incarnation_id: int | None = None
    commit_seq: int = 0
    event_id: int = 0
    #: The ``stored_at`` of the last aborted or rolled-back transaction, which have no commit_seq.
    ended_until: dt.datetime | None = None


@dataclass(slots=True)
class ReadResult:
    """The result of one read."""

    rows: list[Summary] = field(default_factory=list)
    ended: list[Summary] = field(default_factory=list)
    #: The transactions in progress; None when not read this time.
    open: list[Summary] | None = None
    markers: list[dict[str, Any]] = field(default_factory=list)
    slot: dict[str, Any] | None = None
    #: First and last commit_seq of unread transactions, because there were too many.
    skipped: tuple[int, int] | None = None
    #: Search → ids of the transactions whose visible values contain its text.
    text_hits: dict[TextSearch, set[int]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to deliver."""
        return not (self.rows or self.ended or self.markers or self.skipped) and (
            self.open is None and self.slot is None
        )


def find_slot(slot_id: int) -> Slot | None:
    """Return the slot with its source and incarnation; None where it is gone."""
    return Slot.objects.select_related("source", "incarnation").filter(pk=slot_id).first()


def find_shown(slot_id: int, visibility: Visibility) -> Slot | None:
    """Return the slot if it exists and the account may see its source, else None."""
    slot, sources = find_slot(slot_id), visibility.sources
    return slot if slot is not None and (sources is None or slot.source_id in sources) else None


def read_news(
    position: Position,
    names: TableNames,
    *,
    with_slot: bool,
    with_open: bool,
    texts: Collection[TextSearch],
) -> ReadResult:
    """Read everything after ``position``, and move the position to the end."""
    news = ReadResult()
    slot = find_slot(position.slot_id) if with_slot or not position.incarnation_id else None
    if slot is not None:
        news.slot = slot_facts(slot)
        if slot.incarnation is not None and slot.incarnation_id != position.incarnation_id:
            position.incarnation_id, position.commit_seq = slot.incarnation_id, 0
        events = history.events_after(reading_session(), position.slot_id, position.event_id)
        if events:
            position.event_id = events[-1].id
            news.markers = [marker(event) for event in events]
            names.forget()
    if position.incarnation_id:
        _read_committed(position, names, news)
    if position.incarnation_id and with_open:
        news.open = names.summaries(history.open_transactions(reading_session(), position.slot_id))
        _read_ended(position, names, news)
    find_texts(news, texts)
    return news


def find_texts(news: ReadResult, texts: Collection[TextSearch]) -> None:
    """Find the news that contain these texts; accounts without restrictions share a search."""
    ids = [summary.row.id for summary in (*news.rows, *news.ended)]
    ids_by_search: dict[tuple[str, Visibility | None], set[int]] = {}
    for text, visibility in texts:
        search_key = (text, visibility if visibility.restricted else None)
        if search_key not in ids_by_search:
            with use_visibility(visibility):
                ids_by_search[search_key] = matching_text(reading_session(), ids, text)
        news.text_hits[text, visibility] = ids_by_search[search_key]


def _read_committed(position: Position, names: TableNames, news: ReadResult) -> None:
    """Read committed transactions; in a backlog only the newest, the others as skipped."""
    incarnation_id = position.incarnation_id
    assert incarnation_id is not None
    rows = history.committed_after(
        reading_session(), incarnation_id, position.commit_seq, READ_LIMIT
    )
    if len(rows) == READ_LIMIT:
        newest = history.committed_before(reading_session(), incarnation_id, None, READ_LIMIT)[::-1]
        first = newest[0].commit_seq or 0
        if first > position.commit_seq + 1:
            news.skipped = (position.commit_seq + 1, first - 1)
        rows = [row for row in newest if (row.commit_seq or 0) > position.commit_seq]
    if rows:
        position.commit_seq = rows[-1].commit_seq or position.commit_seq
        news.rows = names.summaries(rows)


def _read_ended(position: Position, names: TableNames, news: ReadResult) -> None:
    """Read aborted and rolled-back transactions, placed after the last committed one."""
    if position.ended_until is None or position.incarnation_id is None:
        return
    place = position.incarnation_id, position.ended_until
    if ended := history.ended_since(reading_session(), *place, 100)[::-1]:
        position.ended_until = ended[-1].stored_at or position.ended_until
        places = [position.commit_seq] * len(ended)
        news.ended = names.summaries(ended, after_seqs=places)


def begin_at_end(position: Position) -> None:
    """Move a position to the end of the slot's history and log."""
    slot = find_slot(position.slot_id)
    position.event_id = history.last_event_id(reading_session(), position.slot_id)
    # Use the receiver's clock where it is known, because it sets ``stored_at``.
    last = None if slot is None else slot.last_stored_at
    position.ended_until = last or dt.datetime.now(tz=dt.UTC)
    if slot is not None and slot.incarnation is not None:
        position.incarnation_id = slot.incarnation.pk
        position.commit_seq = slot.incarnation.commit_seq


#: The functions above in a thread of the pool, each with its own connection.
news = DatabaseSyncToAsync(read_news, thread_sensitive=False)
shown_slot = DatabaseSyncToAsync(find_shown, thread_sensitive=False)
begin = DatabaseSyncToAsync(begin_at_end, thread_sensitive=False)
more_hits = DatabaseSyncToAsync(find_texts, thread_sensitive=False)

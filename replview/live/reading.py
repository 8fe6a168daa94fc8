"""What is new in the store since a position: read once by a feed, for all its sockets."""

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from channels.db import DatabaseSyncToAsync

from replview.access.visibility import reading_session, use_visibility
from replview.live.summaries import Summary, marker, milliseconds, only_messages, summarise
from replview.store.models import Slot
from replview.store.read import history
from replview.store.read.changes.page import matching_text, messages_of
from replview.store.read.rows import TransactionRow
from replview.store.read.visibility import Visibility

#: A text, and what whoever looks for it may see.
Look = tuple[str, Visibility]
#: A feed reads at most so many transactions at once; what is more is folded.
READ_LIMIT = 500


@dataclass(slots=True)
class Position:
    """How far a feed has read; moved by each read."""

    slot_id: int
    incarnation_id: int | None = None
    commit_seq: int = 0
    event_id: int = 0
    #: Aborted and rolled-back ones are found by when they were stored.
    ended_until: dt.datetime | None = None


@dataclass(slots=True)
class News:
    """What one read found."""

    rows: list[Summary] = field(default_factory=list)
    ended: list[Summary] = field(default_factory=list)
    #: The transactions in progress; None: not read this time.
    open: list[Summary] | None = None
    markers: list[dict[str, Any]] = field(default_factory=list)
    slot: dict[str, Any] | None = None
    #: First and last commit_seq of those not read, because there were too many.
    skipped: tuple[int, int] | None = None
    #: Per text looked for, and what its asker may see, the transactions whose values hold it.
    text_hits: dict[Look, set[int]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Nothing to tell anybody."""
        return not (self.rows or self.ended or self.markers or self.skipped) and (
            self.open is None and self.slot is None
        )


class Names:
    """Table names by relation id, remembered; asked for again only where unknown."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, str]] = {}

    def summaries(
        self, rows: list[TransactionRow], *, after_seqs: list[int] | None = None
    ) -> list[Summary]:
        """Summaries of rows, with their tables' names and their messages' prefixes."""
        ids = {int(key) for row in rows for key in row.relations}
        if unknown := ids - self._known.keys():
            self._known |= history.relation_names(reading_session(), unknown)
        prefixes = messages_of(reading_session(), only_messages(rows))
        return [
            summarise(
                row,
                self._known,
                prefix=prefixes.get(row.id),
                after_seq=after_seqs[number] if after_seqs else None,
            )
            for number, row in enumerate(rows)
        ]

    def forget(self) -> None:
        """Tables may have been renamed."""
        self._known.clear()


def slot_facts(slot: Slot) -> dict[str, Any]:
    """A slot's state as the page's sentence needs it."""
    return {
        "id": slot.pk,
        "name": str(slot),
        "state": slot.state,
        "desired": slot.desired,
        "problem": slot.problem_code,
        "cause": slot.problem_cause,
        "remedy": slot.problem_remedy,
        "retry_ms": milliseconds(slot.retry_at),
        "lsn": None if slot.server_lsn is None else str(slot.server_lsn),
        "confirmed_lsn": None if slot.checkpoint_lsn is None else str(slot.checkpoint_lsn),
        "heartbeat_ms": milliseconds(slot.heartbeat_at),
        "stored": slot.transactions_stored,
        "published_tables": slot.published_tables,
    }


def find_slot(slot_id: int) -> Slot | None:
    """The slot with its source and present life."""
    found = Slot.objects.select_related("source", "incarnation").filter(pk=slot_id)
    return found.first()


def is_shown(slot_id: int, visibility: Visibility) -> bool:
    """Whether there is such a slot for whoever asks."""
    slot = find_slot(slot_id)
    return slot is not None and (visibility.sources is None or slot.source_id in visibility.sources)


def read_news(
    position: Position, names: Names, *, with_slot: bool, with_open: bool, texts: Collection[Look]
) -> News:
    """Everything after ``position``, which moves along."""
    news = News()
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
    if not position.incarnation_id:
        look_for(news, texts)
        return news
    _read_committed(position, names, news)
    if with_open:
        news.open = names.summaries(history.open_transactions(reading_session(), position.slot_id))
        _read_ended(position, names, news)
    look_for(news, texts)
    return news


def look_for(news: News, texts: Collection[Look]) -> None:
    """Note which of the news have these texts in their values; those who may see alike are looked
    for once.
    """
    ids = [summary.row.id for summary in (*news.rows, *news.ended)]
    known: dict[tuple[str, Visibility | None], set[int]] = {}
    for text, visibility in texts:
        of = (text, visibility if visibility.restricted else None)
        if of not in known:
            with use_visibility(visibility):
                known[of] = matching_text(reading_session(), ids, text)
        news.text_hits[text, visibility] = known[of]


def _read_committed(position: Position, names: Names, news: News) -> None:
    """The committed ones; of a backlog only the newest, the rest is named as skipped."""
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


def _read_ended(position: Position, names: Names, news: News) -> None:
    """Those that ended without counting, placed after what was committed by then."""
    if position.ended_until is None or position.incarnation_id is None:
        return
    ended = history.ended_since(
        reading_session(), position.incarnation_id, position.ended_until, 100
    )[::-1]
    if ended:
        position.ended_until = ended[-1].stored_at or position.ended_until
        places = [position.commit_seq] * len(ended)
        news.ended = names.summaries(ended, after_seqs=places)


def begin_at_end(position: Position) -> None:
    """Move a position to the present end of the slot's history and log."""
    slot = find_slot(position.slot_id)
    position.event_id = history.last_event_id(reading_session(), position.slot_id)
    # The receiver's clock where it is known: that is what ``stored_at`` is of.
    last = None if slot is None else slot.last_stored_at
    position.ended_until = last or dt.datetime.now(tz=dt.UTC)
    if slot is not None and slot.incarnation is not None:
        position.incarnation_id = slot.incarnation.pk
        position.commit_seq = slot.incarnation.commit_seq


#: ``read_news`` in a thread of the pool, with a connection of its own.
news = DatabaseSyncToAsync(read_news, thread_sensitive=False)
slot_in_thread = DatabaseSyncToAsync(find_slot, thread_sensitive=False)
shown_slot = DatabaseSyncToAsync(is_shown, thread_sensitive=False)
begin = DatabaseSyncToAsync(begin_at_end, thread_sensitive=False)
more_hits = DatabaseSyncToAsync(look_for, thread_sensitive=False)

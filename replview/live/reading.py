"""What is new in the store since a position: read once by a feed, for all its sockets; each
transaction as the live list shows it.
"""

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from channels.db import DatabaseSyncToAsync

from replview.access.visibility import reading_session, use_visibility
from replview.store.models import Slot
from replview.store.read import history
from replview.store.read.changes.of_transaction import matching_text, messages_of
from replview.store.read.rows import EventRow, TransactionRow
from replview.store.read.visibility import Visibility

#: Tables named in a row; the rest is a number.
_TABLES_SHOWN = 6
#: A feed reads at most so many transactions at once; what is more is folded.
READ_LIMIT = 500


@dataclass(slots=True)
class Summary:
    """A transaction's row, its tables by name, and the form sent to browsers."""

    row: TransactionRow
    #: ``(schema.table, inserts, updates, deletes, truncates)``, the busiest first; of a snapshot
    #: ``(schema.table, 0, 0, 0, 0, rows)``.
    tables: list[tuple[Any, ...]]
    data: dict[str, Any]

    def mentions(self, text: str) -> bool:
        """Whether its names, not its values, contain the text in any case."""
        row = self.row
        wanted = text.casefold()
        names = [str(row.xid or ""), row.gid, *row.names, row.origin, row.commit_lsn]
        names.extend(name for name, *_ in self.tables)
        return any(wanted in name.casefold() for name in names if name)


def milliseconds(moment: dt.datetime | None) -> float | None:
    """Milliseconds since 1970, as browsers count, with the microseconds as a fraction."""
    return None if moment is None else round(moment.timestamp() * 1000, 3)


def summarise(
    row: TransactionRow,
    names: Mapping[int, tuple[str, str]],
    *,
    prefix: str | None = None,
    after_seq: int | None = None,
) -> Summary:
    """Summarise a transaction; ``after_seq`` places one without a place of its own."""
    tables = _tables(row, names)
    data = {
        "id": str(row.id),
        "inc": row.incarnation_id,
        "seq": row.commit_seq if row.commit_seq is not None else after_seq,
        "placed": row.commit_seq is not None,
        "xid": row.xid,
        "gid": row.gid,
        "state": row.state,
        "streamed": row.streamed,
        "commit_ms": milliseconds(row.commit_time),
        "prepared_ms": milliseconds(row.prepared_at),
        "ended_ms": milliseconds(row.ended_at),
        "received_ms": milliseconds(row.received_at),
        "stored_ms": milliseconds(row.stored_at),
        "lsn": row.commit_lsn,
        "origin": row.origin,
        "actor": row.actor,
        "grade": row.actor_grade,
        "more_actors": row.others(row.actor),
        "tables": tables[:_TABLES_SHOWN],
        "more_tables": max(0, len(tables) - _TABLES_SHOWN),
        "messages": row.messages,
        "prefix": prefix,
        "bytes": row.told_bytes,
        "changes": row.changes,
        "aborted": row.aborted_changes,
    }
    return Summary(row=row, tables=tables, data=data)


def _tables(row: TransactionRow, names: Mapping[int, tuple[str, str]]) -> list[tuple[Any, ...]]:
    tables = (
        (
            ".".join(names.get(int(key), ("unknown", key))),
            *((0, 0, 0, 0, counts[0]) if row.state == "snapshot" else counts),
        )
        for key, counts in row.relations.items()
    )
    return sorted(tables, key=lambda table: -sum(table[1:]))


def marker(event: EventRow) -> dict[str, object]:
    """A line of the slot's log as a row among the transactions."""
    return {
        "id": f"event-{event.id}",
        "event": event.id,
        "inc": event.incarnation_id,
        "seq": event.after_commit_seq,
        "what": event.kind,
        "text": event.message,
        "table": event.detail.get("table"),
        # A schema change leads to the two versions compared.
        "version": event.detail.get("version_id") if event.kind == "schema" else None,
        "at_ms": milliseconds(event.at),
    }


#: A text, and what whoever looks for it may see.
Search = tuple[str, Visibility]


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
    rows: list[Summary] = field(default_factory=list)
    ended: list[Summary] = field(default_factory=list)
    #: The transactions in progress; None: not read this time.
    open: list[Summary] | None = None
    markers: list[dict[str, Any]] = field(default_factory=list)
    slot: dict[str, Any] | None = None
    #: First and last commit_seq of those not read, because there were too many.
    skipped: tuple[int, int] | None = None
    #: Per text looked for, and what its asker may see, the transactions whose values hold it.
    text_hits: dict[Search, set[int]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
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
        # They touch no table: what names them is their message's prefix.
        nameless = [row.id for row in rows if row.messages and not row.relations]
        prefixes = messages_of(reading_session(), nameless)
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
        """Forget all names, because tables may have been renamed."""
        self._known.clear()


def slot_facts(slot: Slot) -> dict[str, object]:
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
    return Slot.objects.select_related("source", "incarnation").filter(pk=slot_id).first()


def find_shown(slot_id: int, visibility: Visibility) -> Slot | None:
    """Return the slot if there is one that the account may see, else None."""
    slot, sources = find_slot(slot_id), visibility.sources
    return slot if slot is not None and (sources is None or slot.source_id in sources) else None


def read_news(
    position: Position, names: Names, *, with_slot: bool, with_open: bool, texts: Collection[Search]
) -> News:
    """Read everything after ``position``, and move that to the end of it."""
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
    if position.incarnation_id:
        _read_committed(position, names, news)
    if position.incarnation_id and with_open:
        news.open = names.summaries(history.open_transactions(reading_session(), position.slot_id))
        _read_ended(position, names, news)
    find_texts(news, texts)
    return news


def find_texts(news: News, texts: Collection[Search]) -> None:
    """Note which news hold these texts; looked for once for all who may see alike."""
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
    place = position.incarnation_id, position.ended_until
    if ended := history.ended_since(reading_session(), *place, 100)[::-1]:
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
shown_slot = DatabaseSyncToAsync(find_shown, thread_sensitive=False)
begin = DatabaseSyncToAsync(begin_at_end, thread_sensitive=False)
more_hits = DatabaseSyncToAsync(find_texts, thread_sensitive=False)

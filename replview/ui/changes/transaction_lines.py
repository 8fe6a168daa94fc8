"""Build the lines of a list of transactions, with lines of the slot's log between them."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replview.access.visibility import reading_session
from replview.health.open_transactions import Touched
from replview.store.read import history
from replview.store.read.changes.of_transaction import messages_of
from replview.store.read.rows import EventRow, TransactionRow
from replview.ui.component_html import grade_kind
from replview.ui.slot_log import LogLineKind, kind_of

LOST_STATES = ("aborted", "rolled back")
#: Kinds of log lines that are about the record itself.
MARKER_KINDS = frozenset(
    ("schema", "gap", "skipped", "failover", "moved", "wraparound", "lost_end", "quarantined")
)
#: Most tables named in a line; the others are counted.
_TABLES_SHOWN = 3
#: Most time from storing a commit to the log line about it.
_LOG_DELAY = dt.timedelta(minutes=5)


@dataclass(slots=True, kw_only=True)
class TransactionLine:
    """A transaction in a list."""

    row: TransactionRow
    #: ``source/name`` of the slot.
    slot: str
    incarnation: int
    tables: list[Touched] = field(default_factory=list)
    more_tables: list[Touched] = field(default_factory=list)
    #: The prefix of the first message, for a transaction of messages only.
    prefix: str = ""
    #: True for the transaction that the address points to.
    chosen: bool = False
    marker = None

    @property
    def time(self) -> dt.datetime | None:
        """Return its time by the source's clock where known, else when it was stored."""
        row = self.row
        if row.state in history.OPEN_STATES:
            return (row.prepared_at if row.state == "prepared" else None) or row.received_at
        if row.state in (*LOST_STATES, "unknown"):
            return row.ended_at or row.stored_at
        return row.commit_time or row.stored_at

    @property
    def name(self) -> str:
        """Return its gid, or else its xid; empty for a message outside transactions."""
        row = self.row
        return row.gid or ("" if row.xid is None else str(row.xid))

    @property
    def lost(self) -> bool:
        """Return whether it was aborted or rolled back."""
        return self.row.state in LOST_STATES

    @property
    def open(self) -> bool:
        """Return whether it has not ended."""
        return self.row.state in history.OPEN_STATES

    @property
    def row_classes(self) -> str:
        """Return the classes of its row, which show how it ended and whether it is chosen."""
        names = "no-longer" if self.lost else "open-row" if self.open else ""
        return f"{names} selected".strip() if self.chosen else names

    @property
    def wordless(self) -> bool:
        """Return whether the line needs no word for the state, because it is the usual one."""
        return self.row.state in ("committed", "message")

    @property
    def grade_kind(self) -> str:
        """Return the kind of the actor's chip, which shows how reliable the actor is."""
        return grade_kind(self.row.actor_grade)

    @property
    def more_words(self) -> str:
        """Return the tables that the line has no room for, for the tooltip."""
        return "; ".join(str(table) for table in self.more_tables[:20])


@dataclass(slots=True)
class MarkerLine:
    """A line of the slot's log between transactions."""

    event: EventRow
    kind: LogLineKind
    marker = True

    @property
    def title(self) -> str:
        """Return the words before the sentence of a line about missing data; else empty."""
        return self.kind.word.capitalize() if self.kind.hole else ""


def transaction_lines(
    rows: Sequence[TransactionRow],
    slots: Mapping[int, tuple[str, int]],
    names: dict[int, tuple[str, str]] | None = None,
    chosen: int | None = None,
) -> list[TransactionLine]:
    """Return lines with table names and message prefixes; ``names`` are those already known."""
    names = dict(names or {})
    ids = {int(key) for row in rows for key in row.relations}
    if unknown := ids - names.keys():
        names |= history.relation_names(reading_session(), unknown)
    silent = [row.id for row in rows if row.messages and not row.relations]
    prefixes = messages_of(reading_session(), silent)
    lines = []
    for row in rows:
        tables = touched_tables(row, names)
        slot, incarnation = slots.get(row.incarnation_id, ("", 0))
        lines.append(
            TransactionLine(
                row=row,
                slot=slot,
                incarnation=incarnation,
                tables=tables[:_TABLES_SHOWN],
                more_tables=tables[_TABLES_SHOWN:],
                prefix=prefixes.get(row.id, ""),
                chosen=row.id == chosen,
            )
        )
    return lines


def touched_tables(row: TransactionRow, names: Mapping[int, tuple[str, str]]) -> list[Touched]:
    """Return the tables of a transaction, those with the most changes first."""
    tables = [_touched(row, key, counts, names) for key, counts in row.relations.items()]
    return sorted(tables, key=lambda table: -table.total)


def _touched(
    row: TransactionRow, key: str, counts: list[int], names: Mapping[int, tuple[str, str]]
) -> Touched:
    table = Touched(*names.get(int(key), ("unknown", key)), counts)
    if row.state == "snapshot":
        table.operations = [("S", number) for _, number in table.operations]
    return table


def with_markers(
    lines: Sequence[TransactionLine], slot_id: int, *, newest: bool
) -> list[TransactionLine | MarkerLine]:
    """Return a slot's lines with its log's lines between; ``newest``: the first page."""
    merged: list[TransactionLine | MarkerLine] = []
    events = _events_between(lines, slot_id, newest=newest)
    for line in lines:
        seq = line.row.commit_seq
        # At one place the log's newest line is on top, all above the transaction itself.
        while seq is not None and events and _place(events[0]) >= (line.row.incarnation_id, seq):
            event = events.pop(0)
            merged.append(MarkerLine(event, kind_of(event.kind)))
        merged.append(line)
    return merged


def _place(event: EventRow) -> tuple[int, int]:
    return event.incarnation_id or 0, event.after_commit_seq


def _events_between(
    lines: Sequence[TransactionLine], slot_id: int, *, newest: bool
) -> list[EventRow]:
    """Return the log's lines from the oldest to the newest transaction shown, newest first."""
    placed_rows = [line.row for line in lines if line.row.commit_seq is not None]
    if not placed_rows:
        return []
    stored = [row.stored_at or row.received_at for row in placed_rows]
    events = history.events_between(
        reading_session(),
        slot_id,
        since=min(stored) - _LOG_DELAY,
        until=None if newest else max(stored) + _LOG_DELAY,
    )
    first, last = placed_rows[-1], placed_rows[0]
    low = (first.incarnation_id, first.commit_seq or 0)
    high = (last.incarnation_id, last.commit_seq or 0)
    markers = [event for event in events if event.kind in MARKER_KINDS]
    markers.sort(key=lambda event: (_place(event), event.at), reverse=True)
    return [event for event in markers if low <= _place(event) and (newest or _place(event) < high)]

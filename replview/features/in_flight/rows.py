"""The rows of the in-flight page: open, only on the source, ended."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.utils.dateparse import parse_datetime

from replview.features.in_flight.queries import Aborted
from replview.health.open_transactions import (
    LONG,
    OpenRow,
    Statement,
    Touched,
    bar_of,
    ends_of_prepared,
)
from replview.health.source_state import OnSource
from replview.store.models import Slot, Source, Transaction
from replview.ui.changes.stages import Lifecycle


@dataclass(slots=True, kw_only=True)
class InFlightRow:
    """One that is open, with all the table and the drawer tell of it."""

    row: OpenRow
    on_source: OnSource
    tables: list[Touched] = field(default_factory=list)
    more_tables: list[Touched] = field(default_factory=list)
    #: Changes a second; None: not known yet.
    rate: float | None = None
    aborted: Aborted | None = None
    #: pg_stat_replication_slots of its slot.
    counters: dict[str, Any] = field(default_factory=dict)

    @property
    def transaction(self) -> Transaction:
        return self.row.transaction

    @property
    def more_words(self) -> str:
        """The tables that have no room, for the tooltip."""
        return "; ".join(str(table) for table in self.more_tables[:20])

    @property
    def counted(self) -> bool:
        """Whether the server counts this slot's decoding."""
        return self.counters.get("stream_bytes") is not None


@dataclass(slots=True, kw_only=True)
class ElsewhereRow:
    """Prepared on a source, and not in this record."""

    source: Source
    gid: str
    xid: int
    prepared_at: datetime | None
    owner: str
    database: str
    #: Why it is not in the record.
    why: str
    now: datetime

    @property
    def age(self) -> timedelta | None:
        return None if self.prepared_at is None else max(self.now - self.prepared_at, timedelta(0))

    @property
    def bar(self) -> float:
        return bar_of(self.age or timedelta(0))

    @property
    def long(self) -> bool:
        return self.age is not None and self.age > LONG

    @property
    def statements(self) -> tuple[Statement, Statement]:
        """Both ends, to be copied."""
        return ends_of_prepared(self.gid, "changes")


@dataclass(slots=True, kw_only=True)
class EndedRow:
    """One that has ended, and was streamed or two-phase."""

    transaction: Transaction
    slot: Slot
    lifecycle: Lifecycle | None

    @property
    def name(self) -> str:
        return self.transaction.gid or str(self.transaction.xid or "unknown")

    @property
    def lost(self) -> bool:
        """Its changes do not count."""
        return self.transaction.state in ("aborted", "rolled back")

    @property
    def ended_at(self) -> datetime | None:
        """By the source's clock where it told, else when its end was stored."""
        row = self.transaction
        return row.commit_time or row.ended_at or row.stored_at

    @property
    def changes(self) -> int:
        """What it changed; of one that is lost, all it had."""
        return self.transaction.changes


def elsewhere_rows(
    source: Source,
    slots: Iterable[Slot],
    prepared: Iterable[dict[str, Any]],
    horizons: dict[str, dict[str, Any]],
    now: datetime,
) -> list[ElsewhereRow]:
    """Of those prepared on a source and in no record, why they are not."""
    databases = {(horizons.get(slot.name) or {}).get("database") for slot in slots}
    return [
        ElsewhereRow(
            source=source,
            gid=row["gid"],
            xid=row["xid"],
            prepared_at=parse_datetime(row["prepared_at"]),
            owner=row.get("owner") or "",
            database=row.get("database") or "",
            why=_why(row, databases),
            now=now,
        )
        for row in prepared
    ]


def _why(row: dict[str, Any], databases: set[Any]) -> str:
    if not databases - {None}:
        return "no slot of it is recorded"
    if row.get("database") not in databases:
        return "in another database than the slot's"
    return "prepared before the slot followed it, or not sent until it commits"

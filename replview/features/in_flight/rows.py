"""The rows of the in-flight page: recorded, open on the source, and ended transactions."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from replview.features.in_flight.queries import Aborted
from replview.health.holding import Holder
from replview.health.open_transactions import LONG, OpenRow, Touched
from replview.health.source_state import OnSource
from replview.store.models import Slot, Source, Transaction
from replview.ui.changes.stages import LifecycleDrawing


@dataclass(slots=True, kw_only=True)
class InFlightRow:
    """An open transaction, with what the table and the drawer show of it."""

    row: OpenRow
    on_source: OnSource
    tables: list[Touched] = field(default_factory=list)
    more_tables: list[Touched] = field(default_factory=list)
    #: Changes per second; None if not known yet.
    rate: float | None = None
    aborted: Aborted | None = None
    #: The row of pg_stat_replication_slots for its slot.
    counters: dict[str, Any] = field(default_factory=dict)

    @property
    def transaction(self) -> Transaction:
        """Return the stored transaction."""
        return self.row.transaction

    @property
    def more_words(self) -> str:
        """Return the names of tables that do not fit, for the tooltip."""
        return "; ".join(str(table) for table in self.more_tables[:20])

    @property
    def counted(self) -> bool:
        """Return whether the source reports decoding statistics for the slot."""
        return self.counters.get("stream_bytes") is not None


@dataclass(slots=True, kw_only=True)
class OnSourceRow:
    """An open transaction on a source that holds back slots or vacuum, recorded or not."""

    source: Source
    holder: Holder
    #: Number of logical slots on the server that retain WAL.
    logical: int
    now: datetime
    #: The slot that has recorded it.
    slot: Slot | None = None
    #: Id of the recorded transaction; None if the account may not see the slot.
    transaction: int | None = None
    #: The reason why no slot has recorded it; empty if one has, or if it has no xid.
    why: str = ""

    @property
    def elsewhere(self) -> bool:
        """Return whether the transaction is prepared and no slot has recorded it."""
        return self.holder.kind == "prepared" and bool(self.why)

    @property
    def age(self) -> timedelta | None:
        """Return the time since it began or was prepared; None if unknown."""
        return None if self.holder.since is None else self.now - self.holder.since

    @property
    def long(self) -> bool:
        """Return whether it has been open for long."""
        return self.age is not None and self.age > LONG

    def passes(self, state: str, older_seconds: int, text: str) -> bool:
        """Return whether the row passes the filters."""
        holder, age = self.holder, self.age
        if state and (state == "prepared") != (holder.kind == "prepared"):
            return False
        if older_seconds and (age is None or age.total_seconds() < older_seconds):
            return False
        names = f"{holder.name} {holder.role} {holder.application}".casefold()
        return not text or text.casefold() in names or text in (str(holder.xid), str(holder.pid))


@dataclass(slots=True, kw_only=True)
class EndedRow:
    """An ended transaction that was streamed or two-phase."""

    transaction: Transaction
    slot: Slot
    lifecycle: LifecycleDrawing | None

    @property
    def lost(self) -> bool:
        """Return whether the transaction was aborted or rolled back."""
        return self.transaction.state in ("aborted", "rolled back")

    @property
    def ended_at(self) -> datetime | None:
        """Return the end by the source's clock, or the time when the end was stored."""
        row = self.transaction
        return row.commit_time or row.ended_at or row.stored_at


def why_unrecorded(holder: Holder, databases: set[str | None]) -> str:
    """Return why no slot has recorded the transaction; empty if it has no xid.

    ``databases`` are those that the slots decode.
    """
    if holder.xid is None:
        return ""
    if not databases - {None}:
        return "none of its slots is recorded"
    if holder.database not in databases:
        return "in another database than the slot's"
    if holder.kind == "prepared":
        return "prepared before the slot followed it, or not sent until it commits"
    return "it has not been received yet"

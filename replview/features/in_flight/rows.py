"""The rows of the in-flight page: in the record, on the source, ended."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from replview.features.in_flight.queries import Aborted
from replview.health.holding import Holder
from replview.health.open_transactions import LONG, OpenRow, Touched
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
        return self.counters.get("stream_bytes") is not None


@dataclass(slots=True, kw_only=True)
class OnSourceRow:
    """Something open on a source that holds slots or vacuum back, and where the record has it."""

    source: Source
    holder: Holder
    #: How many logical slots of its server keep WAL.
    logical: int
    now: datetime
    #: The slot whose record has it, and its transaction there; None: whoever asks may not see it.
    slot: Slot | None = None
    transaction: int | None = None
    #: Why no record has it; empty where one has, and of what has no xid.
    why: str = ""

    @property
    def elsewhere(self) -> bool:
        """Prepared, and in no record."""
        return self.holder.kind == "prepared" and bool(self.why)

    @property
    def age(self) -> timedelta | None:
        return None if self.holder.since is None else self.now - self.holder.since

    @property
    def long(self) -> bool:
        return self.age is not None and self.age > LONG

    def passes(self, state: str, older_seconds: int, text: str) -> bool:
        holder, age = self.holder, self.age
        if state and (state == "prepared") != (holder.kind == "prepared"):
            return False
        if older_seconds and (age is None or age.total_seconds() < older_seconds):
            return False
        named = f"{holder.name} {holder.role} {holder.application}".casefold()
        return not text or text.casefold() in named or text in (str(holder.xid), str(holder.pid))


@dataclass(slots=True, kw_only=True)
class EndedRow:
    """One that has ended, and was streamed or two-phase."""

    transaction: Transaction
    slot: Slot
    lifecycle: Lifecycle | None

    @property
    def lost(self) -> bool:
        return self.transaction.state in ("aborted", "rolled back")

    @property
    def ended_at(self) -> datetime | None:
        """By the source's clock where it told, else when its end was stored."""
        row = self.transaction
        return row.commit_time or row.ended_at or row.stored_at


def why_unrecorded(holder: Holder, databases: set[str | None]) -> str:
    """Why no slot's record has what has an xid; ``databases``: those that the slots decode."""
    if holder.xid is None:
        return ""
    if not databases - {None}:
        return "no slot of it is recorded"
    if holder.database not in databases:
        return "in another database than the slot's"
    if holder.kind == "prepared":
        return "prepared before the slot followed it, or not sent until it commits"
    return "nothing of it has been received yet"

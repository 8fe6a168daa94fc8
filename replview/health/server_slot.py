"""This module describes a replication slot as its server last reported it.

The slot may be ours or anybody's, logical or physical. None means that the server's version does
not report the value. The functions run no queries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.utils.dateparse import parse_datetime

from replview.health.conditions import idle_since, lost_reason
from replview.store.models import Source, WatchedSlot
from replview.store.read.coverage import STALE_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSlot:
    """A slot with the facts that its server reported when it was last sampled."""

    source: Source
    name: str
    slot_type: str = "logical"
    plugin: str | None = None
    database: str | None = None
    temporary: bool | None = None
    first_seen_at: datetime | None = None
    seen_at: datetime | None = None
    gone_at: datetime | None = None
    inactive_since: datetime | None = None
    #: Columns of the server's views under their own names; what a version lacks is absent.
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: How old the facts may be and still describe the present.
    stale_after: timedelta = STALE_AFTER

    def fresh(self, now: datetime) -> bool:
        """Return whether the facts are recent enough to describe the present."""
        return self.seen_at is not None and now - self.seen_at < self.stale_after

    @property
    def physical(self) -> bool:
        """Return whether the slot is physical, so that it has no changes of rows."""
        return self.slot_type == "physical"

    @property
    def lost(self) -> str:
        """Return why the slot can never be read again; empty where it can, as far as is known."""
        return lost_reason(self.facts, self.source.server_version)

    @property
    def synced(self) -> bool:
        """Return whether the slot is a standby's copy of its primary's slot, which nobody reads."""
        return self.facts.get("synced") is True and self.source.in_recovery is True

    @property
    def idle_since(self) -> datetime | None:
        """Return since when the server counts the slot as idle for its timeout, or None."""
        return idle_since(self.facts, on_standby=self.source.in_recovery is True)

    @property
    def active(self) -> bool | None:
        """Return whether somebody reads the slot; None: unknown."""
        active = self.facts.get("active")
        return active if isinstance(active, bool) else None

    @property
    def retained_wal_bytes(self) -> int | None:
        """Return the WAL that the slot retains; None where unknown, and for a lost slot."""
        return None if self.lost else self.number("retained_wal_bytes")

    @property
    def behind_bytes(self) -> int | None:
        """Return the WAL that the reader has not confirmed; for a physical slot all it retains."""
        if self.lost:
            return None
        return self.number("retained_wal_bytes" if self.physical else "unconfirmed_wal_bytes")

    @property
    def reserves_none(self) -> bool:
        """Return whether the slot retains no WAL yet, as nobody has used it."""
        return "restart_lsn" in self.facts and self.facts["restart_lsn"] is None

    def number(self, name: str) -> int | None:
        """Return a fact as a whole number; None: unknown."""
        value = self.facts.get(name)
        return int(value) if isinstance(value, int | float) and value is not True else None

    def text(self, name: str) -> str:
        """Return a fact as text; empty where it is unknown."""
        value = self.facts.get(name)
        return "" if value is None else str(value)

    def moment(self, name: str) -> datetime | None:
        """Return a fact as a time; None: unknown."""
        try:
            return parse_datetime(self.text(name))
        except ValueError:
            return None


def server_slot(watched: WatchedSlot, stale_after: timedelta = STALE_AFTER) -> ServerSlot:
    """Return the stored row of a watched slot as a ``ServerSlot``."""
    return ServerSlot(
        source=watched.source,
        name=watched.name,
        slot_type=watched.slot_type,
        plugin=watched.plugin,
        database=watched.database,
        temporary=watched.temporary,
        first_seen_at=watched.first_seen_at,
        seen_at=watched.last_seen_at,
        gone_at=watched.gone_at,
        inactive_since=watched.inactive_since,
        facts=watched.facts if isinstance(watched.facts, dict) else {},
        stale_after=stale_after,
    )

"""A replication slot as its server last reported it: ours or anybody's, logical or physical.

Of what the server's version does not tell, None: unknown, never zero. No queries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from replview.health.conditions import idle_since, lost_reason
from replview.health.states import STALE_AFTER
from replview.store.models import Source, WatchedSlot


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSlot:
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

    def fresh(self, now: datetime) -> bool:
        """Whether the facts are recent enough to be of the present."""
        return self.seen_at is not None and now - self.seen_at < STALE_AFTER

    @property
    def physical(self) -> bool:
        """A standby's or a WAL archiver's: it has no changes of rows."""
        return self.slot_type == "physical"

    @property
    def lost(self) -> str:
        """Return why it can never be read again; empty where it can, as far as is known."""
        return lost_reason(self.facts, self.source.server_version)

    @property
    def synced(self) -> bool:
        """A standby's copy of a slot of its primary: nobody reads it there."""
        return self.facts.get("synced") is True and self.source.in_recovery is True

    @property
    def idle_since(self) -> datetime | None:
        """Return since when its server counts it as idle for ``idle_replication_slot_timeout``."""
        return idle_since(self.facts, on_standby=self.source.in_recovery is True)

    @property
    def active(self) -> bool | None:
        active = self.facts.get("active")
        return active if isinstance(active, bool) else None

    @property
    def retained_wal_bytes(self) -> int | None:
        """Return the WAL it retains; None where unknown, and of a lost slot, which has none."""
        return None if self.lost else self.number("retained_wal_bytes")

    @property
    def behind_bytes(self) -> int | None:
        """Return the WAL that its reader has not confirmed; of a physical slot all it retains."""
        if self.lost:
            return None
        return self.number("retained_wal_bytes" if self.physical else "unconfirmed_wal_bytes")

    @property
    def reserves_none(self) -> bool:
        """Whether it retains no WAL yet: a slot that nobody has used."""
        return "restart_lsn" in self.facts and self.facts["restart_lsn"] is None

    def number(self, name: str) -> int | None:
        value = self.facts.get(name)
        return int(value) if isinstance(value, int | float) and value is not True else None

    def text(self, name: str) -> str:
        """Return a fact as text; empty where it is unknown."""
        value = self.facts.get(name)
        return "" if value is None else str(value)

    def moment(self, name: str) -> datetime | None:
        try:
            return parse_datetime(self.text(name))
        except ValueError:
            return None


def server_slot(watched: WatchedSlot) -> ServerSlot:
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
    )

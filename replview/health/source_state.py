"""What a source said when last looked at: is a transaction still there, who runs it, how old."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from replview.catalog.holders import RUNNING_LIMIT
from replview.health.states import STALE_AFTER
from replview.store.instance_settings import read_number
from replview.store.models import SourceLook, Transaction

_XIDS = 1 << 32
#: So many looks may be missed before the last one is of the past.
_LOOKS_MISSED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSource:
    """Whether a transaction is still open on its source, as far as the last look tells."""

    #: ``yes``, ``gone``, ``later`` (begun after the look) or ``unknown``.
    word: str
    #: Why it is unknown.
    reason: str = ""
    #: Its row of pg_prepared_xacts or pg_stat_activity, as sampled.
    found: dict[str, Any] | None = None
    looked_at: datetime | None = None


class SourceState:
    """A ``SourceLook`` made ready to be asked; one that is missing knows nothing."""

    def __init__(self, look: SourceLook | None, now: datetime) -> None:
        self.looked_at = look.looked_at if look else None
        self.fresh = look is not None and now - look.looked_at < STALE_AFTER
        self.prepared: list[dict[str, Any]] | None = look.prepared if look else None
        self.prepared_limit = look.prepared_limit if look else None
        self.running: list[dict[str, Any]] | None = look.running if look else None
        self.holders: dict[str, Any] = (look.holders if look else None) or {}
        self._prepared = {(row["gid"], row["xid"]): row for row in self.prepared or ()}
        self._by_xid = {row["xid"]: row for row in self.prepared or ()}
        self._running = {row["xid"]: row for row in self.running or () if row["xid"] is not None}

    @property
    def slots(self) -> dict[str, dict[str, Any]]:
        """Of each slot what it keeps; empty where unknown."""
        return self.holders.get("slots") or {}

    @property
    def logical_slots(self) -> int:
        """How many logical slots keep WAL there."""
        rows = self.slots.values()
        return sum(
            row.get("slot_type") == "logical" and bool(row.get("restart_lsn")) for row in rows
        )

    @property
    def running_cut(self) -> bool:
        """Whether there may be more sessions than were read."""
        return len(self.running or ()) >= RUNNING_LIMIT

    def age_of(self, xid: int | None) -> int | None:
        """How many transactions began since this one; None where not known."""
        following = self.holders.get("next_xid")
        if xid is None or following is None:
            return None
        age: int = (following - xid) % _XIDS
        # Begun since the look: as young as can be, not as old.
        return age if age < _XIDS // 2 else 0

    def waiting_for(self, xid: int | None) -> int | None:
        """How many sessions wait for it; None where this role may not see them."""
        waiting = self.holders.get("waiting")
        return None if waiting is None or xid is None else int(waiting.get(str(xid), 0))

    def of(self, row: Transaction) -> OnSource:
        """Whether this transaction is still open on the source."""
        if row.state == Transaction.State.PREPARED:
            return self._of_prepared(row)
        return self._of_running(row)

    def _of_prepared(self, row: Transaction) -> OnSource:
        found = self._prepared.get((row.gid, row.xid))
        heard = row.stored_at or row.received_at
        return self._answer(found, self.prepared is not None, heard, self.prepared_limit is None)

    def _of_running(self, row: Transaction) -> OnSource:
        if row.state == Transaction.State.RECEIVING:
            return OnSource(word="gone", reason="committed", looked_at=self.looked_at)
        found = self._running.get(row.xid) or self._by_xid.get(row.xid)
        whole = not self.running_cut and self.prepared_limit is None
        return self._answer(found, self.running is not None, row.received_at, whole)

    def _answer(
        self, found: dict[str, Any] | None, listed: bool, since: datetime, whole: bool
    ) -> OnSource:
        at = self.looked_at
        if at is None or not listed:
            return OnSource(word="unknown", reason="not looked at yet", looked_at=at)
        if not self.fresh:
            return OnSource(word="unknown", reason="the source was last seen", found=found,
                            looked_at=at)  # fmt: skip
        if found is not None:
            return OnSource(word="yes", found=found, looked_at=at)
        if since > at - timedelta(seconds=1):
            return OnSource(word="later", reason="it came after the last look", looked_at=at)
        if not whole:
            return OnSource(word="unknown", reason="too many to be listed", looked_at=at)
        return OnSource(word="gone", looked_at=at)


def stale_after() -> timedelta:
    """Return how old a look may be and still be of the present, also where ``sampling.seconds``
    sets looks far apart.
    """
    every = read_number("sampling.seconds", 5, least=1, most=3600)
    return max(STALE_AFTER, timedelta(seconds=_LOOKS_MISSED * every))

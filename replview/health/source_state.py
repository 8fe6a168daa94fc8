"""This module answers from the last sample of a source which transactions are open there.

It also says who runs them, and how old their xids are.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from replview.catalog.holders import RUNNING_LIMIT
from replview.store.instance_settings import number_of, read
from replview.store.models import SourceLook, Transaction
from replview.store.read.coverage import STALE_AFTER

_XIDS = 1 << 32
#: Number of samples that may be missed before the last one is too old.
_MISSED_SAMPLES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSource:
    """The answer whether a transaction is still open on its source, from the last sample."""

    #: ``yes``, ``gone``, ``later`` (started after the sample) or ``unknown``.
    word: str
    #: The reason for ``unknown`` or ``later``, and for ``gone`` how the transaction ended.
    reason: str = ""
    #: The sampled row of pg_prepared_xacts or pg_stat_activity.
    found: dict[str, Any] | None = None
    looked_at: datetime | None = None


class SourceState:
    """A ``SourceLook`` indexed for questions; without one, every answer is unknown."""

    def __init__(
        self, look: SourceLook | None, now: datetime, stale_after: timedelta = STALE_AFTER
    ) -> None:
        self.looked_at = look.looked_at if look else None
        self.fresh = look is not None and now - look.looked_at < stale_after
        self.prepared: list[dict[str, Any]] | None = look.prepared if look else None
        self.prepared_limit = look.prepared_limit if look else None
        self.running: list[dict[str, Any]] | None = look.running if look else None
        self.holders: dict[str, Any] = (look.holders if look else None) or {}
        self._prepared = {(row["gid"], row["xid"]): row for row in self.prepared or ()}
        self._by_xid = {row["xid"]: row for row in self.prepared or ()}
        self._running = {row["xid"]: row for row in self.running or () if row["xid"] is not None}

    @property
    def slots(self) -> dict[str, dict[str, Any]]:
        """Return what each slot retains, by name; empty where unknown."""
        return self.holders.get("slots") or {}

    @property
    def logical_slots(self) -> int:
        """Return the number of logical slots that retain WAL on the source."""
        rows = self.slots.values()
        return sum(
            row.get("slot_type") == "logical" and bool(row.get("restart_lsn")) for row in rows
        )

    @property
    def running_cut(self) -> bool:
        """Return whether there may be more sessions than were read."""
        return len(self.running or ()) >= RUNNING_LIMIT

    def age_of(self, xid: int | None) -> int | None:
        """Return how many transactions began since this xid; None where unknown."""
        next_xid = self.holders.get("next_xid")
        if xid is None or next_xid is None:
            return None
        age: int = (next_xid - xid) % _XIDS
        # An xid that was assigned after the sample is the youngest, not the oldest.
        return age if age < _XIDS // 2 else 0

    def waiting_for(self, xid: int | None) -> int | None:
        """Return how many sessions wait for this xid; None where the role may not see them."""
        waiting = self.holders.get("waiting")
        return None if waiting is None or xid is None else int(waiting.get(str(xid), 0))

    def of(self, row: Transaction) -> OnSource:
        """Return whether this transaction is still open on the source."""
        if row.state == Transaction.State.PREPARED:
            return self._prepared_on_source(row)
        return self._running_on_source(row)

    def _prepared_on_source(self, row: Transaction) -> OnSource:
        entry = self._prepared.get((row.gid, row.xid))
        received_at = row.stored_at or row.received_at
        return self._answer(
            entry, self.prepared is not None, received_at, self.prepared_limit is None
        )

    def _running_on_source(self, row: Transaction) -> OnSource:
        if row.state == Transaction.State.RECEIVING:
            return OnSource(word="gone", reason="committed", looked_at=self.looked_at)
        entry = self._running.get(row.xid) or self._by_xid.get(row.xid)
        complete = not self.running_cut and self.prepared_limit is None
        return self._answer(entry, self.running is not None, row.received_at, complete)

    def _answer(
        self, entry: dict[str, Any] | None, was_read: bool, received_at: datetime, complete: bool
    ) -> OnSource:
        looked_at = self.looked_at
        if looked_at is None or not was_read:
            return OnSource(word="unknown", reason="not checked yet", looked_at=looked_at)
        if not self.fresh:
            return OnSource(word="unknown", reason="the source was last seen", found=entry,
                            looked_at=looked_at)  # fmt: skip
        if entry is not None:
            return OnSource(word="yes", found=entry, looked_at=looked_at)
        if received_at > looked_at - timedelta(seconds=1):
            return OnSource(
                word="later", reason="it arrived after the last check", looked_at=looked_at
            )
        if not complete:
            return OnSource(word="unknown", reason="too many to be listed", looked_at=looked_at)
        return OnSource(word="gone", looked_at=looked_at)


def stale_after() -> timedelta:
    """Return how old a sample of a source may be and still describe the present.

    This exceeds ``STALE_AFTER`` where ``sampling.seconds`` sets a long interval.
    """
    return stale_after_of(read("sampling.seconds", None))


def stale_after_of(sampling_seconds: object) -> timedelta:
    """Return ``stale_after`` for a value of the setting ``sampling.seconds``; None: not set."""
    interval_seconds = number_of(sampling_seconds, 5, least=1, most=3600)
    return max(STALE_AFTER, timedelta(seconds=_MISSED_SAMPLES * interval_seconds))

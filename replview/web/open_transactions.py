"""An open transaction as a row: since when, how much, how much WAL it holds."""

from datetime import datetime, timedelta
from math import sqrt

from replview.store.models import Slot, Transaction

#: From here on an age bar is amber.
LONG = timedelta(minutes=5)
BAR_MAX = 48


class OpenRow:
    """A streaming or prepared transaction of a slot."""

    def __init__(self, transaction: Transaction, slot: Slot, now: datetime) -> None:
        self.transaction = transaction
        self.slot = slot
        self.prepared = transaction.state == Transaction.State.PREPARED
        prepared_at = transaction.prepared_at if self.prepared else None
        self.since: datetime = prepared_at or transaction.received_at
        self.age = max(now - self.since, timedelta(0))

    @property
    def name(self) -> str:
        """Its gid, else its xid."""
        return self.transaction.gid or str(self.transaction.xid or "unknown")

    @property
    def bar(self) -> float:
        """The age bar's length: the square root of the age, at least 3."""
        return min(max(3.0, round(sqrt(self.age.total_seconds()) / 4, 1)), BAR_MAX)

    @property
    def long(self) -> bool:
        """Open for longer than one should wait."""
        return self.age > LONG

    @property
    def changes(self) -> int:
        """What it has changed so far and not taken back."""
        row = self.transaction
        counted = row.inserts + row.updates + row.deletes + row.truncates + row.messages
        return max(counted - row.aborted_changes, 0)

    @property
    def held_wal_bytes(self) -> int | None:
        """From its first record to the server's position: what cannot be recycled for it."""
        first, server = self.transaction.first_lsn, self.slot.server_lsn
        return None if first is None or server is None else max(int(server) - int(first), 0)

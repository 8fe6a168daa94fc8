"""This module describes open transactions: age, WAL that they hold, and SQL that ends them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from replview.store.models import Slot, Transaction
from replview.store.read.sql_text import string
from replview.text.formats import count_words

#: Age from which an age bar is amber.
LONG = timedelta(minutes=5)
BAR_MAX = 48
OPERATIONS = ("I", "U", "D", "T")


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
    def bar(self) -> float:
        """Return the length of the age bar: the square root of the age, at least 3."""
        return min(max(3.0, round(sqrt(self.age.total_seconds()) / 4, 1)), BAR_MAX)

    @property
    def long(self) -> bool:
        """Return whether the transaction has been open for long."""
        return self.age > LONG

    @property
    def held_wal_bytes(self) -> int | None:
        """Return the WAL from its first record to the server's position; None: unknown.

        The server cannot recycle that WAL.
        """
        first, server = self.transaction.first_lsn, self.slot.server_lsn
        return None if first is None or server is None else max(int(server) - int(first), 0)


class Touched:
    """A table that a transaction changed, with the counts by operation."""

    def __init__(self, schema: str, table: str, counts: list[int]) -> None:
        self.name = table if schema == "public" else f"{schema}.{table}"
        self.operations = [
            (letter, number) for letter, number in zip(OPERATIONS, counts, strict=False) if number
        ]
        self.total = sum(counts)

    def __str__(self) -> str:
        return f"{self.name} {' '.join(f'{o} {count_words(n)}' for o, n in self.operations)}"


def touched_by(
    transaction: Transaction, names: dict[int, tuple[str, str]], shown: int = 1
) -> tuple[list[Touched], list[Touched]]:
    """Return the ``shown`` tables with the most changes, and the other tables."""
    tables = [
        Touched(*names.get(int(key), ("unknown", str(key))), counts)
        for key, counts in transaction.relations.items()
    ]
    tables.sort(key=lambda table: -table.total)
    return tables[:shown], tables[shown:]


@dataclass(frozen=True, slots=True)
class TransactionStatement:
    """A statement, and what it does to the transaction."""

    word: str
    sql: str


def ends_of_prepared(gid: str, changes: str) -> tuple[TransactionStatement, TransactionStatement]:
    """Return the statements that commit and that roll back a prepared transaction.

    The user chooses: the effects are opposite.
    """
    return (
        TransactionStatement(f"Keep its {changes}", f"COMMIT PREPARED {string(gid)};"),
        TransactionStatement("Or discard them", f"ROLLBACK PREPARED {string(gid)};"),
    )


def end_of_session(pid: int, xid: int | None, began: str = "") -> TransactionStatement | None:
    """Return a statement that ends a session only while it runs this very transaction.

    The check is necessary because pids are reused. Without an xid, ``began`` (its xact_start)
    identifies the transaction. None: neither is known.
    """
    if xid is None and not began:
        return None
    check = f"xact_start = {string(began)}" if xid is None else f"backend_xid = '{xid:d}'::xid"
    return TransactionStatement(
        "End its session, which discards the transaction",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity\nWHERE pid = {pid:d} AND {check};",  # noqa: S608 (to be copied)
    )

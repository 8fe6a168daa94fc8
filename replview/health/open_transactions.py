"""An open transaction as a row: since when, how much WAL it holds, and the SQL that ends it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from replview.store.models import Slot, Transaction
from replview.text.formats import count_words

#: From here on an age bar is amber.
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
        """An age bar's length: the square root of the age, at least 3."""
        return min(max(3.0, round(sqrt(self.age.total_seconds()) / 4, 1)), BAR_MAX)

    @property
    def long(self) -> bool:
        return self.age > LONG

    @property
    def held_wal_bytes(self) -> int | None:
        """From its first record to the server's position: what cannot be recycled for it."""
        first, server = self.transaction.first_lsn, self.slot.server_lsn
        return None if first is None or server is None else max(int(server) - int(first), 0)


class Touched:
    """A table that a transaction touched, with its counts by operation."""

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
    """The busiest tables, and the others."""
    tables = [
        Touched(*names.get(int(key), ("unknown", str(key))), counts)
        for key, counts in transaction.relations.items()
    ]
    tables.sort(key=lambda table: -table.total)
    return tables[:shown], tables[shown:]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement and what it does to the transaction."""

    word: str
    sql: str


def literal(text: str) -> str:
    """A string constant that means the same whatever ``standard_conforming_strings`` says."""
    quoted = text.replace("'", "''")
    if "\\" in text:
        return "E'" + quoted.replace("\\", "\\\\") + "'"
    return f"'{quoted}'"


def ends_of_prepared(gid: str, changes: str) -> tuple[Statement, Statement]:
    """Both ends of a prepared transaction: opposites, so nobody chooses but the reader."""
    return (
        Statement(f"Keep its {changes}", f"COMMIT PREPARED {literal(gid)};"),
        Statement("Or discard them", f"ROLLBACK PREPARED {literal(gid)};"),
    )


def end_of_session(pid: int, xid: int | None, began: str = "") -> Statement | None:
    """Ends a session only while it still runs this very transaction, as pids are used again.

    Without an xid it is known by ``began``, its xact_start; None where neither is known.
    """
    if xid is None and not began:
        return None
    same = f"xact_start = {literal(began)}" if xid is None else f"backend_xid = '{xid:d}'::xid"
    return Statement(
        "End its session, which discards the transaction",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity\nWHERE pid = {pid:d} AND {same};",  # noqa: S608 (to be copied)
    )

"""Partitions of ``change`` and ``slot_sample``, and the identifiers that fall into them.

A transaction's identifier carries the hour it was first seen in its upper bits, so that a range of
identifiers is a range of time and retention can drop whole days. New partitions are built aside
and attached: CREATE … PARTITION OF would lock the parent against every receiver.
"""

import datetime as dt
import time
from collections.abc import Iterator

import psycopg
from psycopg import sql

#: Identifiers that one hour has room for.
IDS_PER_HOUR = 1 << 32
#: How many identifiers one call of the sequence hands out.
ID_BLOCK = 20_000
#: Serialises the making of partitions among processes.
_PARTITION_LOCK = 0x7265706C76696577


def transaction_id(sequence_value: int, *, at: float | None = None) -> int:
    """The identifier for a sequence value at a moment (seconds since 1970; now by default)."""
    hour = int((time.time() if at is None else at) // 3600)
    return hour * IDS_PER_HOUR + sequence_value % IDS_PER_HOUR


def day_of(identifier: int) -> dt.date:
    """The day whose partition holds this transaction's changes."""
    hours = identifier // IDS_PER_HOUR
    return dt.datetime.fromtimestamp(hours * 3600, tz=dt.UTC).date()


def first_id_of(day: dt.date) -> int:
    """The lowest identifier a transaction first seen on ``day`` can have."""
    midnight = dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)
    return transaction_id(0, at=midnight.timestamp())


class TransactionIds:
    """Hands out identifiers, a block of sequence values at a time."""

    def __init__(self) -> None:
        self._block: Iterator[int] = iter(())

    def next(self, connection: psycopg.Connection[object]) -> int:
        """One more identifier; asks the store once in twenty thousand."""
        for value in self._block:
            return transaction_id(value)
        with psycopg.ClientCursor(connection) as cursor:
            row = cursor.execute("SELECT nextval('transaction_id_block')").fetchone()
        assert row is not None
        start = int(row[0])  # type: ignore[index]
        self._block = iter(range(start, start + ID_BLOCK))
        return self.next(connection)


def ensure_partitions(
    connection: psycopg.Connection[object], first: dt.date, last: dt.date
) -> list[str]:
    """Make the partitions of both tables for the days ``first`` to ``last``, where missing.

    Returns the names of those made. The connection must be in autocommit mode.
    """
    made = []
    days = [first + dt.timedelta(days=n) for n in range((last - first).days + 1)]
    with connection.transaction(), psycopg.ClientCursor(connection) as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_PARTITION_LOCK])
        for day in days:
            following = day + dt.timedelta(days=1)
            bounds: dict[str, tuple[object, object]] = {
                "change": (first_id_of(day), first_id_of(following)),
                "slot_sample": (day.isoformat(), following.isoformat()),
            }
            for parent, (low, high) in bounds.items():
                name = f"{parent}_{day:%Y%m%d}"
                cursor.execute("SELECT to_regclass(%s)", [name])
                row = cursor.fetchone()
                if row is not None and row[0] is not None:  # type: ignore[index]
                    continue
                _attach(cursor, parent, name, low, high)
                made.append(name)
    return made


def _attach(
    cursor: psycopg.ClientCursor[object], parent: str, name: str, low: object, high: object
) -> None:
    """Build one partition aside and attach it."""
    cursor.execute(
        sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)").format(
            sql.Identifier(name), sql.Identifier(parent)
        )
    )
    cursor.execute(
        sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            sql.Identifier(parent), sql.Identifier(name), sql.Literal(low), sql.Literal(high)
        )
    )

"""Create partitions of ``change`` and of samples, and assign identifiers that fall into them.

The upper bits of a transaction's identifier are the hour it was first seen, so that a range of
identifiers is a range of time and retention can drop whole days. A new partition is created as a
table and attached: CREATE … PARTITION OF would lock the parent against every receiver.
"""

import datetime as dt
import time
from collections.abc import Iterable, Iterator

import psycopg
from psycopg import sql

from replview.store.read.days import IDS_PER_HOUR, day_of, first_id_of, transaction_id

#: Number of identifiers that one value of the sequence stands for.
ID_BLOCK = 20_000
#: Seconds between two checks that tomorrow has its partitions.
_CHECK_SECONDS = 3600.0
#: Tables of samples that are partitioned by day, and by month.
SAMPLES_BY_DAY = ("slot_sample", "slot_sample_minute", "source_sample")
SAMPLES_BY_MONTH = "slot_sample_hour"
#: Advisory lock under which one process at a time creates partitions.
_PARTITION_LOCK = 0x7265706C76696577


class TransactionIds:
    """An allocator of transaction identifiers, which takes them from a sequence in blocks.

    Their hour is of the store's clock: a wrong local clock must not put them into days without a
    partition.
    """

    def __init__(self) -> None:
        self._block: Iterator[int] = iter(())
        #: Seconds from the local monotonic clock, which nobody can set, to the store's clock.
        self._offset_seconds = 0.0

    def next(self, connection: psycopg.Connection[object]) -> int:
        """Return the next identifier; one call in twenty thousand queries the store."""
        for value in self._block:
            return transaction_id(value, at=time.monotonic() + self._offset_seconds)
        with psycopg.ClientCursor(connection) as cursor:
            row = cursor.execute(
                "SELECT nextval('transaction_id_block'), "
                "extract(epoch FROM clock_timestamp())::float8"
            ).fetchone()
        assert row is not None
        start, seconds = int(row[0]), float(row[1])  # type: ignore[index]
        self._offset_seconds = seconds - time.monotonic()
        self._block = iter(range(start, start + ID_BLOCK))
        return self.next(connection)


class PartitionKeeper:
    """A keeper that creates, in time, the partitions that one receiver writes into."""

    def __init__(self) -> None:
        self._made: set[dt.date] = set()
        self._next_check = 0.0

    def ready_for(self, connection: psycopg.Connection[object], identifiers: Iterable[int]) -> None:
        """Create missing partitions, outside of any transaction.

        They are for today and tomorrow by the store's clock, checked once an hour, and for the days
        of these identifiers, since a clock may be set.
        """
        if time.monotonic() >= self._next_check:
            today_sql = "SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date"
            with psycopg.ClientCursor(connection) as cursor:
                row = cursor.execute(today_sql).fetchone()
            assert row is not None
            today: dt.date = row[0]  # type: ignore[index]
            tomorrow = today + dt.timedelta(days=1)
            ensure_partitions(connection, today, tomorrow)
            self._made |= {today, tomorrow}
            self._next_check = time.monotonic() + _CHECK_SECONDS
        hours = {identifier // IDS_PER_HOUR for identifier in identifiers}
        for day in {day_of(hour * IDS_PER_HOUR) for hour in hours} - self._made:
            ensure_partitions(connection, day, day)
            self._made.add(day)


def ensure_partitions(
    connection: psycopg.Connection[object], first: dt.date, last: dt.date
) -> list[str]:
    """Create missing partitions of all tables for these days; return the names of new ones.

    Must run outside of a transaction.
    """
    created = []
    days = [first + dt.timedelta(days=n) for n in range((last - first).days + 1)]
    with connection.transaction(), psycopg.ClientCursor(connection) as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_PARTITION_LOCK])
        for name, parent, low, high in _partitions_for(days):
            if cursor.execute("SELECT to_regclass(%s)", [name]).fetchone() == (None,):
                _attach(cursor, parent, name, low, high)
                created.append(name)
    return created


def _partitions_for(days: Iterable[dt.date]) -> Iterator[tuple[str, str, object, object]]:
    """Yield name, parent and bounds of each partition for these days; by month for hours."""
    months = set()
    for day in days:
        following = day + dt.timedelta(days=1)
        yield f"change_{day:%Y%m%d}", "change", first_id_of(day), first_id_of(following)
        for parent in SAMPLES_BY_DAY:
            yield f"{parent}_{day:%Y%m%d}", parent, day.isoformat(), following.isoformat()
        months.add(day.replace(day=1))
    for month in sorted(months):
        following = (month + dt.timedelta(days=32)).replace(day=1)
        name = f"{SAMPLES_BY_MONTH}_{month:%Y%m}"
        yield name, SAMPLES_BY_MONTH, month.isoformat(), following.isoformat()


def _attach(
    cursor: psycopg.ClientCursor[object], parent: str, name: str, low: object, high: object
) -> None:
    child, table = sql.Identifier(name), sql.Identifier(parent)
    create = sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
    cursor.execute(create.format(child, table))
    attach = sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})")
    cursor.execute(attach.format(table, child, sql.Literal(low), sql.Literal(high)))

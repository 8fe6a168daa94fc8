"""What an export would take, in rows, bytes and seconds, before it is begun; and a trial write."""

import datetime as dt
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg import errors, sql

from replview.features.exports.looking_ahead import days_of, files_of, unsent_of
from replview.features.exports.request import Wish
from replview.parquet.reading import StoreProblem, connect, tables_of
from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.places import PLACED_LSN
from replview.parquet.slices import Slice, SliceTable
from replview.parquet.writing.estimating import Estimate, estimate, spark_is_there
from replview.parquet.writing.planning import transactions_of
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target, test_write
from replview.store.connecting import store_conninfo
from replview.targets.policy import Refused

#: What a page may spend on counting.
_BUDGET = "5s"
#: What is nice to know is looked up where counting took no longer than this.
_MORE_BELOW_SECONDS = 1.0
#: Measured: a file's schema and footer; a transaction's row of a time, an xid, an actor.
_FILE_BYTES = 6_500
_TRANSACTION_BYTES = 45


class TooLong(Refused):
    """It cannot be counted soon enough for a page; it may be exported all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """One folder of files."""

    name: str
    rows: int
    size_bytes: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What would be written."""

    estimate: Estimate
    #: With their shapes in the slice.
    tables: list[SliceTable]
    #: Commit LSNs; None: no transaction has one.
    first_lsn: str | None
    last_lsn: str | None
    #: By relation; one that is missing is unknown.
    files: Mapping[int, int] = field(default_factory=dict)
    #: Files of the transactions.
    days: int | None = None
    #: (relation, column) → updates that did not send it; empty where nobody looked, too.
    unsent: Mapping[tuple[int, str], int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Counted changes of tables."""
        return self.estimate.rows

    @property
    def anything(self) -> bool:
        """Some transaction passes the filter."""
        return self.estimate.transactions > 0

    @property
    def spark(self) -> str:
        """Where Spark runs, where the slice is large enough for it; else empty."""
        return _spark() if self.estimate.spark else ""

    @property
    def nearest(self) -> dt.datetime | None:
        """Of an empty slice: when the nearest change outside of it committed."""
        time = (self.estimate.nearest or {}).get("time")
        return None if time is None else dt.datetime.fromisoformat(time)

    @property
    def datasets(self) -> list[Dataset]:
        """A folder a table, one of the transactions."""
        found = [
            Dataset(
                name=f"{one.schema}.{one.table}",
                rows=one.rows,
                size_bytes=one.bytes + self.files.get(table.relation_id, 0) * _FILE_BYTES,
                files=self.files.get(table.relation_id),
            )
            for one, table in zip(self.estimate.tables, self.tables, strict=False)
        ]
        rows, days = self.estimate.transactions, self.days
        size = None if days is None else days * _FILE_BYTES + rows * _TRANSACTION_BYTES
        return [*found, Dataset(name="transactions", rows=rows, size_bytes=size, files=days)]

    @property
    def size_bytes(self) -> int:
        """Of all, as far as it can be told."""
        return sum(one.size_bytes or 0 for one in self.datasets)

    def facts(self) -> dict[str, Any]:
        """For programs."""
        told = self.estimate.to_json()
        return told | {"first_lsn": self.first_lsn, "last_lsn": self.last_lsn}


def outlook_of(wish: Wish, *, patient: bool = False) -> Outlook:
    """What this slice would take. Raises ``Refused`` where it cannot be said, or not soon enough
    for a page unless ``patient``.
    """
    try:
        with connect(store_conninfo()) as connection:
            if not patient:
                connection.execute(sql.SQL("SET statement_timeout = {}").format(_BUDGET))
            return _outlook(connection, wish.slice)
    except StoreProblem as problem:
        raise Refused(problem.problem, problem.remedy) from None
    except errors.QueryCanceled:
        raise TooLong(
            f"counting this slice takes longer than {_BUDGET}",
            "Narrow it by time or LSN; the command replview export takes its time",
        ) from None


def spark_for(wish: Wish) -> str:
    """Where Spark runs, for a slice that is large enough for it; else empty."""
    try:
        return outlook_of(wish).spark
    except Refused:
        # What cannot be counted soon is large.
        return _spark() if spark_is_there() else ""


def _spark() -> str:
    return os.environ.get("REPLVIEW_SPARK") or "local[2]"


def _outlook(connection: Connection, part: Slice) -> Outlook:
    ends: Any = connection.execute(
        sql.SQL(
            "SELECT min({lsn})::text, max({lsn})::text FROM transaction t WHERE {where}"
        ).format(lsn=PLACED_LSN, where=transactions_of(connection, part))
    ).fetchone()
    begun = time.monotonic()
    told, tables = estimate(connection, part), tables_of(connection, part)
    found = Outlook(estimate=told, tables=tables, first_lsn=ends[0], last_lsn=ends[1])
    if time.monotonic() - begun > _MORE_BELOW_SECONDS:
        return found
    try:
        return replace(
            found,
            files=files_of(connection, part, tables, told),
            days=days_of(connection, part),
            unsent=unsent_of(connection, part, tables, told),
        )
    except errors.QueryCanceled:
        return found


def try_target(target: str) -> None:
    """Write a small file there, read it back, delete it. Raises ``Refused``."""
    try:
        test_write(Target.of(target))
    except TargetProblem as problem:
        raise Refused(problem.problem, problem.remedy) from None

"""The estimate of an export before it starts: rows, files, bytes and seconds."""

import datetime as dt
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any
from urllib.parse import urlsplit

from psycopg import errors, sql

from replview.features.exports.request import ExportRequest
from replview.parquet.reading import StoreProblem, connect, places, tables_of
from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.cutting import rows_of_update
from replview.parquet.reading.slice_tables import transactions_of
from replview.parquet.reading.typed_query import having
from replview.parquet.slices import Slice, SliceTable
from replview.parquet.writing.planning import (
    STREAM_TO_FILE,
    Estimate,
    estimate,
    rows_per_part,
    spark_is_there,
)
from replview.store.connecting import store_conninfo
from replview.targets.policy import Refused

#: Time limit of the statements that count for a page.
BUDGET = "5s"
#: Files, days and unsent values are counted only if counting the rows took less time than this.
_DETAILS_BELOW_SECONDS = 1.0
#: Measured bytes of a file's schema and footer, and of a transaction's row.
_FILE_BYTES = 6_500
_TRANSACTION_BYTES = 45
#: Maximum number of changes whose values are searched for unsent ones.
_UNSENT_CHANGES_LIMIT = 20_000
_TABLES_LIMIT = 50
_COLUMNS_LIMIT = 200

_ENDS_SQL = "SELECT min({lsn})::text, max({lsn})::text FROM transaction t WHERE {where}"
_DAYS_SQL = "SELECT {sums} FROM transaction t WHERE {where} GROUP BY {day}"
_UNSENT_SQL = """
    SELECT {counts} FROM transaction t JOIN change c ON c.transaction_id = t.id
    WHERE {where} AND c.relation_id = {relation} AND c.op = 'U' AND {not_aborted}
      AND c.transaction_id BETWEEN (SELECT min(t.id) FROM transaction t WHERE {where})
                               AND (SELECT max(t.id) FROM transaction t WHERE {where})
"""


class TooLong(Refused):
    """The slice cannot be counted in time for a page; it may be exported all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetEstimate:
    """The estimate for one folder of files."""

    name: str
    rows: int
    size_bytes: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The estimate for a slice, with its tables and LSNs."""

    estimate: Estimate
    #: The tables, with their shapes in the slice.
    tables: list[SliceTable]
    #: First and last commit LSN; None: no transaction has one.
    first_lsn: str | None
    last_lsn: str | None
    #: Number of files by relation; a missing relation is unknown.
    files: Mapping[int, int] = field(default_factory=dict)
    #: Number of files of the transactions.
    days: int | None = None
    #: Number of updates that did not send a value, by (relation, column); empty if not counted.
    unsent: Mapping[tuple[int, str], int] = field(default_factory=dict)

    def spark_for(self, target: str) -> str:
        """Return the Spark master that writes the slice there; empty: this process writes it."""
        return _spark_master(target) if self.estimate.spark else ""

    @property
    def nearest(self) -> dt.datetime | None:
        """Return the commit time of the change nearest to an empty slice; None: unknown."""
        time = (self.estimate.nearest or {}).get("time")
        return None if time is None else dt.datetime.fromisoformat(time)

    @property
    def datasets(self) -> list[DatasetEstimate]:
        """Return the estimates of one folder for each table, and one for the transactions."""
        tables = [
            DatasetEstimate(
                name=f"{table_estimate.schema}.{table_estimate.table}",
                rows=table_estimate.rows,
                size_bytes=table_estimate.bytes
                + self.files.get(table.relation_id, 0) * _FILE_BYTES,
                files=self.files.get(table.relation_id),
            )
            for table_estimate, table in zip(self.estimate.tables, self.tables, strict=False)
        ]
        rows, days = self.estimate.transactions, self.days
        size = None if days is None else days * _FILE_BYTES + rows * _TRANSACTION_BYTES
        return [
            *tables,
            DatasetEstimate(name="transactions", rows=rows, size_bytes=size, files=days),
        ]

    @property
    def size_bytes(self) -> int:
        """Return the estimated bytes of all datasets, as far as known."""
        return sum(dataset.size_bytes or 0 for dataset in self.datasets)

    def facts(self) -> dict[str, Any]:
        """Return the estimate as plain values for JSON."""
        document = asdict(self.estimate)
        return document | {"first_lsn": self.first_lsn, "last_lsn": self.last_lsn}


def outlook_of(export_request: ExportRequest, *, patient: bool = False) -> Outlook:
    """Return the estimate for a slice.

    Raises ``Refused`` where it cannot be counted or, unless ``patient``, not in time for a page.
    """
    try:
        with connect(store_conninfo()) as connection:
            if not patient:
                connection.execute(sql.SQL("SET statement_timeout = {}").format(BUDGET))
            return _outlook(connection, export_request.slice)
    except StoreProblem as problem:
        raise Refused(problem.cause, problem.remedy) from None
    except errors.QueryCanceled:
        raise TooLong(
            f"counting takes longer than {BUDGET}",
            "Narrow it by time or LSN; the command replview export has no time limit",
        ) from None


def spark_for(export_request: ExportRequest, target: str) -> str:
    """Return the Spark master if the slice is large enough for Spark; else empty."""
    try:
        return outlook_of(export_request).spark_for(target)
    except Refused:
        # A slice that cannot be counted in time is large.
        return _spark_master(target) if spark_is_there() else ""


def _spark_master(target: str) -> str:
    """Return the Spark master; empty if Spark may lack a connector for the target.

    PySpark brings none for object stores, and nobody has one for ``az://``.
    """
    configured, scheme = os.environ.get("REPLVIEW_SPARK", ""), urlsplit(target).scheme
    if scheme == "az" or (scheme not in ("", "file") and not configured):
        return ""
    return configured or "local[2]"


def _outlook(connection: StoreConnection, slice_: Slice) -> Outlook:
    where = transactions_of(connection, slice_)
    query = sql.SQL(_ENDS_SQL).format(lsn=places.PLACED_LSN, where=where)
    [(first, last)] = connection.execute(query).fetchall()
    started = time.monotonic()
    estimated, tables = estimate(connection, slice_), tables_of(connection, slice_)
    outlook = Outlook(estimate=estimated, tables=tables, first_lsn=first, last_lsn=last)
    if time.monotonic() - started > _DETAILS_BELOW_SECONDS:
        return outlook
    try:
        return replace(
            outlook,
            files=files_of(connection, slice_, tables, estimated),
            days=days_of(connection, slice_),
            unsent=unsent_of(connection, slice_, tables, estimated),
        )
    except errors.QueryCanceled:
        return outlook


def files_of(
    connection: StoreConnection, slice_: Slice, tables: Sequence[SliceTable], estimated: Estimate
) -> dict[int, int]:
    """Return the number of files by relation: each day has its own, and a large day has several."""
    files: dict[int, int] = {}
    if not tables or len(tables) > _TABLES_LIMIT:
        return files
    operations = places.wanted_operations(slice_, rows=True)
    weights = [(table.relation_id, rows_of_update(slice_, table)) for table in tables]
    counts = (
        places.counted(operations, relation_id, update_weight=weight, whose=slice_.whose)
        for relation_id, weight in weights
    )
    query = sql.SQL(_DAYS_SQL).format(
        sums=sql.SQL(", ").join(sql.SQL("sum({})").format(count) for count in counts),
        where=places.conditions(slice_, None, [table.relation_id for table in tables]),
        day=places.PLACED_DAY,
    )
    per_change = estimated.bytes / STREAM_TO_FILE / estimated.rows if estimated.rows else 1.0
    for day in connection.execute(query):
        for table, rows in zip(tables, day, strict=True):
            rows_per_file = rows_per_part(table.rows or 0, max(per_change, 1.0))
            files[table.relation_id] = files.get(table.relation_id, 0) + ceil(
                (rows or 0) / rows_per_file
            )
    return files


def days_of(connection: StoreConnection, slice_: Slice) -> int:
    """Return the number of days with commits; the transactions of each day are one file."""
    query = sql.SQL("SELECT count(DISTINCT {}) FROM transaction t WHERE {}").format(
        places.PLACED_DAY, transactions_of(connection, slice_)
    )
    [(days,)] = connection.execute(query).fetchall()
    return int(days)


def unsent_of(
    connection: StoreConnection, slice_: Slice, tables: Sequence[SliceTable], estimated: Estimate
) -> Mapping[tuple[int, str], int]:
    """Return the number of updates that did not send a value, by (relation, column).

    The result is empty where counting is expensive. It has no masked column, because an unsent
    value did not change.
    """
    unsent: dict[tuple[int, str], int] = {}
    if estimated.rows > _UNSENT_CHANGES_LIMIT or "update" not in places.wanted_operations(slice_):
        return unsent
    for table in tables[:_TABLES_LIMIT]:
        masked = slice_.masked_of(table.name)
        names = [column.source_name for column in table.columns if column.source_name not in masked]
        names = names[:_COLUMNS_LIMIT]
        if not names:
            continue
        count = sql.SQL("count(*) FILTER (WHERE c.version_id = ANY({}) AND NOT c.new ? {})")
        counts = [count.format(having(table, name), name) for name in names]
        query = sql.SQL(_UNSENT_SQL).format(
            counts=sql.SQL(", ").join(counts),
            where=places.conditions(slice_, None, [table.relation_id]),
            relation=table.relation_id,
            not_aborted=places.NOT_ABORTED,
        )
        row = connection.execute(query).fetchone() or ()
        unsent |= {
            (table.relation_id, name): number
            for name, number in zip(names, row, strict=True)
            if number
        }
    return unsent

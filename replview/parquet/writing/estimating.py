"""What an export will be, before it begins: rows, bytes, seconds, and by which means."""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from psycopg import sql

from replview.parquet.reading import tables_of
from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.places import PLACED_LSN, PLACED_TIME, conditions
from replview.parquet.slices import Narrowing, Slice
from replview.parquet.writing.planning import STREAM_TO_FILE, sizes_of, transactions_of

#: From so many rows on Spark writes, where it is there.
SPARK_FROM_ROWS = 1_000_000
#: Measured on two shared cores, the store among them: sessions, planning and manifests; changes a
#: second for a table of few columns; Spark's start.
_BEGIN_SECONDS = 0.5
_ROWS_PER_SECOND = 150_000.0
_STREAM_BYTES_PER_SECOND = 30_000_000.0
_SPARK_SECONDS = 6.0
#: Updates whose row before is looked up in the record.
_DERIVED_PER_SECOND = 2_500.0

_NEAREST = """
    (SELECT {time}, {lsn}::text FROM transaction t
     WHERE {where} AND t.commit_seq > {place} ORDER BY t.commit_seq LIMIT 1)
    UNION ALL
    (SELECT {time}, {lsn}::text FROM transaction t
     WHERE {where} AND t.commit_seq <= {place} ORDER BY t.commit_seq DESC LIMIT 1)
"""
_PLACE = """
    SELECT coalesce(max(t.commit_seq), 0) FROM transaction t WHERE {where}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEstimate:
    """A table's share."""

    schema: str
    table: str
    #: Counted changes.
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What is known of an export that has not begun."""

    #: Changes of tables; rows before updates come on top.
    rows: int
    transactions: int
    #: On disk, roughly.
    bytes: int
    seconds: float
    #: Whether Spark should write it: large enough, and installed with a Java.
    spark: bool
    tables: tuple[TableEstimate, ...]
    #: Of an empty slice: ``{"time", "lsn"}`` of the nearest change outside of its times and LSNs.
    nearest: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "tables": [asdict(each) for each in self.tables]}


def estimate(connection: Connection, part: Slice) -> Estimate:
    """Count a slice, by what its transactions say of themselves. Raises ``StoreProblem``."""
    tables = tables_of(connection, part)
    sizes = sizes_of(connection, part)
    each_bytes = sizes.bytes_per_change * STREAM_TO_FILE
    rows = sum(table.rows or 0 for table in tables)
    seconds = _BEGIN_SECONDS + max(
        rows / _ROWS_PER_SECOND, rows * sizes.bytes_per_change / _STREAM_BYTES_PER_SECOND
    )
    seconds += _looked_up(connection, part) / _DERIVED_PER_SECOND
    spark = rows >= SPARK_FROM_ROWS and spark_is_there()
    return Estimate(
        rows=rows,
        transactions=sizes.transactions,
        bytes=int(rows * each_bytes),
        seconds=round(seconds + (_SPARK_SECONDS if spark else 0.0), 1),
        spark=spark,
        tables=tuple(
            TableEstimate(
                schema=table.schema,
                table=table.table,
                rows=table.rows or 0,
                bytes=int((table.rows or 0) * each_bytes),
            )
            for table in tables
        ),
        nearest=None if sizes.transactions else _nearest(connection, part),
    )


def _looked_up(connection: Connection, part: Slice) -> int:
    """Updates whose row before must be worked out; the server sends it under FULL alone."""
    if part.before == "sent" or (part.operations and "update" not in part.operations):
        return 0
    tables = tables_of(connection, replace(part, operations=("update",)))
    return sum(
        table.rows or 0
        for table in tables
        if any(version.replica_identity != "FULL" for version in table.versions)
    )


def spark_is_there() -> bool:
    """Whether PySpark and, unless a Spark Connect server has it, a Java are installed."""
    elsewhere = os.environ.get("REPLVIEW_SPARK", "").startswith("sc://")
    java = elsewhere or shutil.which("java") is not None or "JAVA_HOME" in os.environ
    return java and importlib.util.find_spec("pyspark") is not None


def _nearest(connection: Connection, part: Slice) -> dict[str, Any] | None:
    """Where the same tables, actors and operations have something nearest to an empty slice."""
    open_ended = replace(
        part, after_seq=0, through_seq=(1 << 62), since=None, until=None, from_lsn=None, to_lsn=None
    )
    found = connection.execute(
        sql.SQL(_NEAREST).format(
            time=PLACED_TIME,
            lsn=PLACED_LSN,
            where=transactions_of(connection, open_ended),
            place=_place(connection, part),
        )
    ).fetchall()
    if not found:
        return None
    middle = part.since or part.until
    if middle is not None:
        found.sort(key=lambda row: abs(row[0] - middle))
    return {"time": found[0][0].isoformat(), "lsn": found[0][1]}


def _place(connection: Connection, part: Slice) -> int:
    """The place in history before which an empty slice is."""
    before = replace(
        part, after_seq=0, through_seq=(1 << 62), since=None, from_lsn=None, actors=(), tables=(),
        operations=(), narrowed=Narrowing(), until=part.since or part.until,
        to_lsn=part.from_lsn if part.from_lsn is not None else part.to_lsn,
    )  # fmt: skip
    if before.until is None and before.to_lsn is None:
        return part.after_seq
    query = sql.SQL(_PLACE).format(where=conditions(before))
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else part.after_seq

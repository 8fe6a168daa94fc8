"""What more a page tells of a slice before it is written: files, and values that were not sent."""

from collections.abc import Mapping, Sequence
from math import ceil

from psycopg import sql

from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.places import (
    NOT_ABORTED,
    PLACED_TIME,
    conditions,
    counted,
    wanted_operations,
)
from replview.parquet.slices import Slice, SliceTable
from replview.parquet.writing.estimating import Estimate
from replview.parquet.writing.planning import STREAM_TO_FILE, rows_per_part, transactions_of

#: Slices with more changes are not looked through for values that were not sent.
_LOOK_THROUGH = 20_000
_TABLES = 50
_COLUMNS = 200

_DAYS = """
    SELECT {sums} FROM transaction t WHERE {where}
    GROUP BY ({time} AT TIME ZONE 'UTC')::date
"""
_UNSENT = """
    SELECT {counts} FROM transaction t JOIN change c ON c.transaction_id = t.id
    WHERE {where} AND c.relation_id = {relation} AND c.op = 'U' AND {not_aborted}
      AND c.transaction_id BETWEEN (SELECT min(t.id) FROM transaction t WHERE {where})
                               AND (SELECT max(t.id) FROM transaction t WHERE {where})
"""


def files_of(
    connection: Connection, part: Slice, tables: Sequence[SliceTable], told: Estimate
) -> dict[int, int]:
    """Relation → the files its rows go to: days are written apart, and so are large days."""
    found: dict[int, int] = {}
    if not tables or len(tables) > _TABLES:
        return found
    operations = wanted_operations(part, rows=True)
    sums = [
        sql.SQL("sum({})").format(
            counted(operations, table.relation_id, update_weight=_weight(part, table))
        )
        for table in tables
    ]
    query = sql.SQL(_DAYS).format(
        sums=sql.SQL(", ").join(sums),
        where=conditions(part, None, [table.relation_id for table in tables]),
        time=PLACED_TIME,
    )
    per_change = told.bytes / STREAM_TO_FILE / told.rows if told.rows else 1.0
    for day in connection.execute(query):
        for table, rows in zip(tables, day, strict=True):
            each = rows_per_part(table.rows or 0, max(per_change, 1.0))
            found[table.relation_id] = found.get(table.relation_id, 0) + ceil((rows or 0) / each)
    return found


def days_of(connection: Connection, part: Slice) -> int:
    """Days of commits: the transactions of each are a file."""
    query = sql.SQL("SELECT count(DISTINCT ({} AT TIME ZONE 'UTC')::date) FROM transaction t"
                    " WHERE {}").format(PLACED_TIME, transactions_of(connection, part))  # fmt: skip
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def unsent_of(
    connection: Connection, part: Slice, tables: Sequence[SliceTable], told: Estimate
) -> Mapping[tuple[int, str], int]:
    """(relation, column) → updates that did not send it; empty where looking is not cheap."""
    found: dict[tuple[int, str], int] = {}
    if told.rows > _LOOK_THROUGH or "update" not in wanted_operations(part):
        return found
    for table in tables[:_TABLES]:
        names = [column.source_name for column in table.columns][:_COLUMNS]
        if not names:
            continue
        counts = [
            sql.SQL("count(*) FILTER (WHERE c.version_id = ANY({}) AND NOT c.new ? {})").format(
                [
                    version.id
                    for version in table.versions
                    if any(column["name"] == name for column in version.columns)
                ],
                name,
            )
            for name in names
        ]
        query = sql.SQL(_UNSENT).format(
            counts=sql.SQL(", ").join(counts),
            where=conditions(part, None, [table.relation_id]),
            relation=table.relation_id,
            not_aborted=NOT_ABORTED,
        )
        row = connection.execute(query).fetchone() or ()
        found |= {(table.relation_id, name): n for name, n in zip(names, row, strict=True) if n}
    return found


def _weight(part: Slice, table: SliceTable) -> int:
    """Rows that come of an update."""
    whole = any(version.replica_identity == "FULL" for version in table.versions)
    return 2 if whole or part.before == "derived" else 1

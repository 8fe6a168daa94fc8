"""What becomes of prepared transactions when a life of a slot ends and the next one begins."""

from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from decoder.scalars import LSN

_HAND_OVER = """
UPDATE transaction SET incarnation_id = %s
WHERE incarnation_id = %s AND state = 'prepared' AND prepare_lsn < %s
"""
_GIVE_UP = """
WITH lost AS (
    UPDATE transaction SET state = 'unknown', stored_at = clock_timestamp()
    WHERE incarnation_id = %s AND state = 'prepared' RETURNING id
)
INSERT INTO transition (transaction_id, state, recorded_at)
SELECT id, 'unknown', clock_timestamp() FROM lost
"""
_ENDED_BEYOND = """
SELECT id FROM transaction
WHERE incarnation_id = %(former)s AND gid IS NOT NULL AND prepare_lsn < %(until)s
  AND end_lsn > %(until)s AND state IN ('committed', 'rolled back', 'skipped')
"""
# In the same partition as the original: that one is there.
_NEW_ID = """
SELECT (%s::bigint >> 32 << 32) + nextval('transaction_id_block') %% (1::bigint << 32)
"""
#: The tables that hold a transaction, by the column that names it.
_TABLES = (
    ("change", "transaction_id"),
    ("large_value", "transaction_id"),
    ("aborted_subtransaction", "transaction_id"),
)


def hand_over_prepared(
    connection: psycopg.Connection[Any], former_id: int, new_id: int, until: LSN | None
) -> None:
    """Prepared transactions of a life that ends: into the next one, or their end is unknown.

    Up to ``until`` both lives have the same history. What was prepared before and ended beyond it
    is prepared again for the new life's server, which never had that end: it goes over as a copy.
    """
    if until is not None:
        connection.execute(_HAND_OVER, [new_id, former_id, str(until)])
        beyond = {"former": former_id, "until": str(until)}
        for (original,) in connection.execute(_ENDED_BEYOND, beyond).fetchall():
            _copy_as_prepared(connection, original, new_id)
    connection.execute(_GIVE_UP, [former_id])


def _copy_as_prepared(
    connection: psycopg.Connection[Any], original: int, incarnation_id: int
) -> None:
    """A transaction once more, as it was before it ended."""
    row = connection.execute(_NEW_ID, [original]).fetchone()
    assert row is not None
    ending = ["commit_seq", "commit_lsn", "end_lsn", "commit_time", "ended_at"]
    changed = {
        "id": row[0],
        "incarnation_id": incarnation_id,
        "state": "prepared",
        **dict.fromkeys(ending),
    }
    connection.execute(
        "INSERT INTO transaction SELECT r.* FROM transaction t, "
        "LATERAL jsonb_populate_record(t, %s) r WHERE t.id = %s",
        [Jsonb(changed), original],
    )
    for table, column in _TABLES:
        connection.execute(
            sql.SQL(
                "INSERT INTO {table} SELECT r.* FROM {table} t, "
                "LATERAL jsonb_populate_record(t, %s) r WHERE t.{column} = %s"
            ).format(table=sql.Identifier(table), column=sql.Identifier(column)),
            [Jsonb({column: row[0]}), original],
        )
    connection.execute(
        "INSERT INTO transition (transaction_id, state, lsn, source_time, recorded_at) "
        "SELECT %s, state, lsn, source_time, recorded_at FROM transition "
        "WHERE transaction_id = %s AND state IN ('streaming', 'prepared') ORDER BY id",
        [row[0], original],
    )

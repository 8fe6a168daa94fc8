"""The incarnations of a slot are stored here: LSNs and commit_seq compare only within one."""

from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb, JsonbLoader

from decoder.scalars import LSN, lsn_from_text, lsn_text
from replview.store.write.lease import Lease, beat

_HAND_OVER = """
UPDATE transaction SET incarnation_id = %s
WHERE incarnation_id = %s AND state = 'prepared' AND prepare_lsn < %s
"""
_MARK_UNKNOWN = """
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
# The new identifier is in the same partition as the original's, which exists.
_NEW_ID = """
SELECT (%s::bigint >> 32 << 32) + nextval('transaction_id_block') %% (1::bigint << 32)
"""
#: Tables with rows of a transaction, by ``transaction_id``.
_TABLES = ("change", "large_value", "aborted_subtransaction")


@dataclass(frozen=True, slots=True)
class SlotRow:
    """The row of a slot, with the columns that its receiver needs."""

    id: int
    source_id: int
    name: str
    #: ``pgoutput``, ``test_decoding`` or ``wal2json``.
    plugin: str
    #: ``walsender`` or ``sql``.
    interface: str
    publications: list[str]
    options: dict[str, Any]
    owned: bool
    temporary: bool
    column_rules: dict[str, dict[str, str]]
    #: True when changes of aborted transactions and subtransactions are kept, marked.
    keep_aborted: bool
    checkpoint_lsn: LSN | None
    incarnation_id: int | None
    number: int | None
    system_identifier: str | None
    timeline: int | None
    commit_seq: int


@dataclass(frozen=True, slots=True)
class SessionIncarnation:
    """An incarnation that a session records into."""

    id: int
    number: int
    commit_seq: int
    checkpoint_lsn: LSN
    #: First reception of transactions that are sent again: xid → microseconds since 2000-01-01 UTC.
    first_seen: dict[int, int] = field(default_factory=dict)


def read_slot(connection: psycopg.Connection[Any], slot_id: int) -> SlotRow:
    """Return the slot's row. Raises ``LookupError`` if the store does not have it."""
    with connection.cursor(row_factory=dict_row) as cursor:
        # Django's connections return JSON as text.
        cursor.adapters.register_loader("jsonb", JsonbLoader)
        row = cursor.execute(
            """
            SELECT s.id, s.source_id, s.name, s.plugin, s.interface, s.publications, s.options,
                   s.owned, s.temporary, s.column_rules, s.keep_aborted, s.checkpoint_lsn::text,
                   s.incarnation_id, i.number, i.system_identifier, i.timeline,
                   coalesce(i.commit_seq, 0) AS commit_seq
            FROM slot s LEFT JOIN slot_incarnation i ON i.id = s.incarnation_id
            WHERE s.id = %s
            """,
            [slot_id],
        ).fetchone()
    if row is None:
        raise LookupError(f"slot {slot_id} is not in the store")
    return SlotRow(**{**row, "checkpoint_lsn": lsn_from_text(row["checkpoint_lsn"])})


def resume(connection: psycopg.Connection[Any], lease: Lease, slot: SlotRow) -> SessionIncarnation:
    """Continue the current incarnation: hide what a former session received only in part."""
    assert slot.incarnation_id is not None
    assert slot.number is not None
    with connection.transaction():
        beat(connection, lease)
        first_seen = _discard(connection, slot, slot.incarnation_id)
        # Read it again under the lock: the receiver's former session may have committed since.
        row = connection.execute(
            "SELECT i.commit_seq, s.checkpoint_lsn::text FROM slot s "
            "JOIN slot_incarnation i ON i.id = s.incarnation_id WHERE s.id = %s",
            [slot.id],
        ).fetchone()
    assert row is not None
    checkpoint_lsn = lsn_from_text(row[1]) or LSN(0)
    return SessionIncarnation(slot.incarnation_id, slot.number, row[0], checkpoint_lsn, first_seen)


def begin(
    connection: psycopg.Connection[Any],
    lease: Lease,
    slot: SlotRow,
    *,
    system_identifier: str,
    timeline: int,
    started_lsn: LSN,
    reason: str,
    keep_prepared_until: LSN | None = None,
) -> SessionIncarnation:
    """Begin a new incarnation at ``started_lsn``, and hide what the former one left open.

    Transactions prepared before ``keep_prepared_until`` go over to the new incarnation, which will
    receive their end; the outcome of other prepared ones is unknown.
    """
    number, first_seen = (slot.number or 0) + 1, dict[int, int]()
    with connection.transaction():
        beat(connection, lease)
        if slot.incarnation_id is not None:
            first_seen = _discard(connection, slot, slot.incarnation_id)
        row = connection.execute(
            """
            INSERT INTO slot_incarnation (slot_id, number, system_identifier, timeline,
                started_lsn, started_at, reason, commit_seq)
            VALUES (%s, %s, %s, %s, %s, now(), %s, 0) RETURNING id
            """,
            [slot.id, number, system_identifier, timeline, str(started_lsn), reason],
        ).fetchone()
        assert row is not None
        if slot.incarnation_id is not None:
            hand_over_prepared(connection, slot.incarnation_id, row[0], keep_prepared_until)
        connection.execute(
            "UPDATE slot SET incarnation_id = %s, checkpoint_lsn = %s, server_lsn = NULL "
            "WHERE id = %s",
            [row[0], str(started_lsn), slot.id],
        )
    return SessionIncarnation(int(row[0]), number, 0, started_lsn, first_seen)


def last_seq_until(connection: psycopg.Connection[Any], incarnation_id: int, lsn: LSN) -> int:
    """Return the commit_seq of the last transaction that ended at or before ``lsn``, else 0."""
    row = connection.execute(
        "SELECT commit_seq FROM transaction WHERE incarnation_id = %s AND commit_seq IS NOT NULL "
        "AND end_lsn <= %s AND state <> 'snapshot' ORDER BY commit_seq DESC LIMIT 1",
        [incarnation_id, str(lsn)],
    ).fetchone()
    return 0 if row is None else int(row[0])


def dropped_at_budget(connection: psycopg.Connection[Any], incarnation_id: int) -> bool:
    """Return whether an incarnation ended because replview dropped the slot at its WAL budget."""
    row = connection.execute(
        "SELECT 1 FROM slot_event WHERE incarnation_id = %s AND kind = 'budget' "
        "AND detail ->> 'dropped_incarnation' = %s LIMIT 1",
        [incarnation_id, str(incarnation_id)],
    ).fetchone()
    return row is not None


def _discard(
    connection: psycopg.Connection[Any], slot: SlotRow, incarnation_id: int
) -> dict[int, int]:
    """Hide transactions received only in part, since the server sends them again.

    Returns when each was first seen: xid → microseconds since 2000-01-01 UTC.
    """
    rows = connection.execute(
        """
        UPDATE transaction SET state = 'discarded'
        WHERE incarnation_id = %s AND state IN ('receiving', 'streaming')
        RETURNING xid, (extract(epoch FROM received_at - '2000-01-01 00:00Z') * 1e6)::bigint,
                  inserts + updates + deletes + truncates + messages + aborted_changes,
                  aborted_changes, id
        """,
        [incarnation_id],
    ).fetchall()
    if not rows:
        return {}
    changes = sum(row[2] for row in rows)
    correct_slot(connection, slot.id, -sum(row[3] for row in rows), changes)
    subject = "transaction was" if len(rows) == 1 else "transactions were"
    log_event(
        connection,
        slot.id,
        "discarded",
        f"{len(rows):,} {subject} half received ({changes:,} changes) when the last session ended: "
        "discarded; the server sends again what still stands.",
        incarnation_id=incarnation_id,
        after_commit_seq=slot.commit_seq,
        detail={
            "xids": [row[0] for row in rows][:100],
            "changes": changes,
            "transactions": {str(row[4]): [row[0], row[1]] for row in rows[:1000]},
        },
    )
    return {row[0]: row[1] for row in rows if row[0] is not None}


def correct_slot(
    connection: psycopg.Connection[Any], slot_id: int, rolled_back: int, discarded: int
) -> None:
    """Add to the slot's numbers of stored changes that were rolled back or discarded."""
    connection.execute(
        "UPDATE slot SET changes_rolled_back = changes_rolled_back + %s, "
        "changes_discarded = changes_discarded + %s WHERE id = %s",
        [rolled_back, discarded, slot_id],
    )


def log_event(
    connection: psycopg.Connection[Any],
    slot_id: int,
    kind: str,
    message: str,
    *,
    incarnation_id: int | None = None,
    after_commit_seq: int = 0,
    lsn: int | None = None,
    detail: dict[str, Any] | None = None,
) -> None:
    """Add a line to the slot's log. ``message`` is one plain sentence without source values."""
    connection.execute(
        """
        INSERT INTO slot_event
            (slot_id, incarnation_id, at, kind, message, detail, lsn, after_commit_seq)
        VALUES (%s, %s, clock_timestamp(), %s, %s, %s, %s, %s)
        """,
        [
            slot_id, incarnation_id, kind, message, Jsonb(detail or {}),
            lsn_text(lsn), after_commit_seq,
        ],
    )  # fmt: skip


def hand_over_prepared(
    connection: psycopg.Connection[Any], former_id: int, new_id: int, until: LSN | None
) -> None:
    """Move the prepared transactions of an incarnation that ends, or mark their outcome as unknown.

    Up to ``until`` both incarnations have the same history. A transaction that was prepared before
    ``until`` and ended after it is prepared again on the new incarnation's server, which never had
    that end: it is copied.
    """
    if until is not None:
        connection.execute(_HAND_OVER, [new_id, former_id, str(until)])
        beyond = {"former": former_id, "until": str(until)}
        for (original,) in connection.execute(_ENDED_BEYOND, beyond).fetchall():
            _copy_as_prepared(connection, original, new_id)
    connection.execute(_MARK_UNKNOWN, [former_id])


def _copy_as_prepared(
    connection: psycopg.Connection[Any], original: int, incarnation_id: int
) -> None:
    """Copy a transaction, in the state before it ended, into another incarnation."""
    row = connection.execute(_NEW_ID, [original]).fetchone()
    assert row is not None
    ending = ["commit_seq", "commit_lsn", "end_lsn", "commit_time", "ended_at"]
    changed = {"id": row[0], "incarnation_id": incarnation_id, "state": "prepared"}
    copied = {("transaction", "id"): changed | dict.fromkeys(ending)}
    copied |= {(table, "transaction_id"): {"transaction_id": row[0]} for table in _TABLES}
    for (table, name), values in copied.items():
        copy = sql.SQL(
            "INSERT INTO {table} SELECT r.* FROM {table} t, "
            "LATERAL jsonb_populate_record(t, %s) r WHERE t.{name} = %s"
        ).format(table=sql.Identifier(table), name=sql.Identifier(name))
        connection.execute(copy, [Jsonb(values), original])
    connection.execute(
        "INSERT INTO transition (transaction_id, state, lsn, source_time, recorded_at) "
        "SELECT %s, state, lsn, source_time, recorded_at FROM transition "
        "WHERE transaction_id = %s AND state IN ('streaming', 'prepared') ORDER BY id",
        [row[0], original],
    )

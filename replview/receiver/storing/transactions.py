"""Store the rows of ``transaction``: by COPY when they are new, by UPDATE when they grow or end.

Some of the ends are COMMIT PREPARED and ROLLBACK PREPARED of transactions stored long ago.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import psycopg
from psycopg import sql

from decoder.events import OpenTransaction, PreparedCommitted, PreparedRolledBack
from decoder.scalars import datetime_from_us, lsn_text, now_us
from replview.receiver.storing.portions import Portion, StateTransition
from replview.store.read.rows import NOT_ABORTED
from replview.store.write import copy_rows
from replview.store.write.copy_rows import CopiedTransaction

#: Columns that an UPDATE sets: plain values, LSNs, times, and JSON.
_PLAIN_COLUMNS = (
    "state", "gid", "commit_seq", "origin", "actor", "actor_grade", "inserts", "updates", "deletes",
    "truncates", "messages", "size_bytes", "aborted_changes",
)  # fmt: skip
_LSN_COLUMNS = ("first_lsn", "prepare_lsn", "commit_lsn", "end_lsn")
_TIME_COLUMNS = ("commit_time", "prepared_at", "ended_at")
_JSON_COLUMNS = ("context", "actors")
_ASSIGNMENTS = sql.SQL(", ").join(
    sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name))
    for name in (*_PLAIN_COLUMNS, *_LSN_COLUMNS, *_TIME_COLUMNS, *_JSON_COLUMNS, "relations")
)
# psycopg would render a composed statement again at each execution, so these are texts.
_UPDATE_TRANSACTION = (
    sql.SQL("UPDATE transaction SET {}, stored_at = clock_timestamp() WHERE id = %(id)s")
    .format(_ASSIGNMENTS)
    .as_string()
)
# Counts changes by entry of ``actors``, numbered from 1.
_COUNTS_BY_ENTRY = (
    sql.SQL("""
SELECT width_bucket(c.seq, %s::int[]), c.relation_id::text, c.op::text, count(*) FROM change c
WHERE c.transaction_id = %s AND {not_aborted} GROUP BY 1, 2, 3
""")
    .format(not_aborted=sql.SQL(NOT_ABORTED))
    .as_string()
)
_END_PREPARED = """
UPDATE transaction SET
    state = CASE WHEN %(state)s = 'committed' AND context ? '$skipped' THEN 'skipped'
                 ELSE %(state)s END,
    commit_seq = %(commit_seq)s,
    commit_lsn = %(commit_lsn)s, end_lsn = %(end_lsn)s, commit_time = %(commit_time)s,
    ended_at = %(ended_at)s, stored_at = clock_timestamp()
WHERE id = (SELECT id FROM transaction
            WHERE incarnation_id = %(incarnation_id)s AND gid = %(gid)s AND xid = %(xid)s
              AND state = 'prepared'
            ORDER BY prepare_lsn DESC LIMIT 1)
RETURNING id, state, inserts + updates + deletes + truncates + messages
"""
#: Inserts an aborted subtransaction; the transaction's own xid marks the whole transaction.
TOMBSTONE = """
INSERT INTO aborted_subtransaction (transaction_id, subxid, abort_lsn, aborted_at, changes, swept)
VALUES (%s, %s, %s, %s, %s, false) ON CONFLICT DO NOTHING
"""
_PREPARED_EXISTS = (
    "SELECT FROM transaction WHERE incarnation_id = %s AND state = 'prepared' AND xid = %s"
)
_WAS_ABORTED = """
SELECT FROM transaction WHERE incarnation_id = %s AND xid = %s AND state = 'aborted'
    AND received_at > now() - interval '1 day'
"""
_IS_STORED = """
SELECT EXISTS (SELECT FROM transaction
               WHERE incarnation_id = %(incarnation_id)s AND gid = %(gid)s AND xid = %(xid)s
                 AND (prepare_lsn = %(lsn)s OR %(lsn)s::pg_lsn IS NULL)
                 AND state IN ('prepared', 'committed', 'rolled back', 'skipped'))
"""


def store_rows(connection: psycopg.Connection[Any], portion: Portion) -> None:
    """Store the portion's transactions as they are now, inside the store transaction."""
    insert_rows(connection, [row for row in portion.rows.values() if not row.stored])
    update_rows(connection, [row for row in portion.rows.values() if row.stored])


def insert_rows(connection: psycopg.Connection[Any], rows: Sequence[CopiedTransaction]) -> None:
    """Insert new rows of ``transaction``, by COPY."""
    if rows:
        stored_at_us = now_us()
        with connection.cursor().copy(copy_rows.COPY_TRANSACTIONS) as copy:
            packed = [row.pack(stored_at_us) for row in rows]
            copy.write(copy_rows.COPY_HEADER + b"".join(packed) + copy_rows.COPY_TRAILER)


def update_rows(connection: psycopg.Connection[Any], rows: Sequence[CopiedTransaction]) -> None:
    """Update rows of ``transaction`` that are stored already."""
    if rows:
        connection.cursor().executemany(_UPDATE_TRANSACTION, [_parameters(row) for row in rows])


def count_by_actor(connection: psycopg.Connection[Any], row: CopiedTransaction) -> None:
    """Add each actor's totals to its first entry in ``actors``, after the changes are stored."""
    entries, first_entries = row.actors or [], dict[str | None, dict[str, Any]]()
    for entry in entries:
        if first_entries.setdefault(entry["actor"], entry) is entry:
            entry |= {"counts": [0] * 5, "relations": {}}
    params = [[entry["seq"] for entry in entries], row.id]
    for entry_number, relation, op, number in connection.execute(
        _COUNTS_BY_ENTRY, params
    ).fetchall():
        actor_entry, kind = first_entries[entries[entry_number - 1]["actor"]], "IUDTM".index(op)
        actor_entry["counts"][kind] += number
        if relation is not None:
            actor_entry["relations"].setdefault(relation, [0] * 4)[kind] += number
    if entries[0]["actor"] is None and not any(entries[0]["counts"]):
        # All changes before the first claim were rolled back.
        entries[1]["seq"] = 0
        row.actors = entries[1:] if len(entries) > 2 else None


def store_transitions(connection: psycopg.Connection[Any], portion: Portion) -> None:
    """Store the state changes of the portion's streamed and two-phase transactions."""
    if portion.transitions:
        connection.cursor().executemany(
            "INSERT INTO transition (transaction_id, state, lsn, source_time, recorded_at) "
            "VALUES (%s, %s, %s, %s, clock_timestamp())",
            [
                (
                    transition.transaction_id,
                    transition.state,
                    lsn_text(transition.lsn),
                    datetime_of(transition.time_us),
                )
                for transition in portion.transitions
            ],
        )


def datetime_of(time_us: int | None) -> dt.datetime | None:
    """Return a time as psycopg takes it; None where no datetime can hold it."""
    return None if time_us is None else datetime_from_us(time_us)


def _parameters(row: CopiedTransaction) -> dict[str, object]:
    documents = {name: getattr(row, name) for name in _JSON_COLUMNS}
    return {
        "id": row.id,
        "relations": row.relations_json().decode(),
        **{name: getattr(row, name) for name in _PLAIN_COLUMNS},
        **{name: lsn_text(getattr(row, name)) for name in _LSN_COLUMNS},
        **{name: datetime_of(getattr(row, f"{name}_us")) for name in _TIME_COLUMNS},
        **{name: document if document is None else orjson.dumps(document).decode()
           for name, document in documents.items()},
    }  # fmt: skip


class PreparedEndings:
    """The stored prepared transactions of one incarnation, found by gid and xid."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        *,
        incarnation_id: int,
        next_id: Callable[[], int],
    ) -> None:
        self._connection = connection
        self._incarnation_id = incarnation_id
        self._next_id = next_id

    def is_stored(self, transaction: OpenTransaction) -> bool:
        """Return whether this prepare is already stored.

        For a streamed transaction: whether it is stored as prepared, so that no other transaction
        can have its xid.
        """
        if transaction.kind == "streamed":
            waits = self._connection.execute(
                _PREPARED_EXISTS, [self._incarnation_id, transaction.xid]
            )
            return waits.fetchone() is not None
        prepared = {
            "incarnation_id": self._incarnation_id,
            "gid": transaction.gid,
            "xid": transaction.xid,
            # test_decoding does not send this position.
            "lsn": lsn_text(transaction.prepare_lsn),
        }
        row = self._connection.execute(_IS_STORED, prepared).fetchone()
        return row is not None and bool(row[0])

    def was_aborted(self, xid: int) -> bool:
        """Return whether the abort of a streamed transaction is stored, from a former session.

        The server may send the abort again, since it moves no position. Only the last day counts,
        since xids wrap around.
        """
        cursor = self._connection.execute(_WAS_ABORTED, [self._incarnation_id, xid])
        return cursor.fetchone() is not None

    def note_reused_gids(self, portion: Portion) -> None:
        """Note, for each transaction prepared here, the earlier transaction with the same gid."""
        if not portion.prepared:
            return
        rows = self._connection.execute(
            "SELECT gid, max(id) FROM transaction WHERE gid = ANY(%s) AND incarnation_id IN "
            "(SELECT id FROM slot_incarnation WHERE slot_id = "
            "(SELECT slot_id FROM slot_incarnation WHERE id = %s)) "
            "AND state <> 'discarded' GROUP BY gid",
            [[gid for gid, _ in portion.prepared], self._incarnation_id],
        ).fetchall()
        earlier_ids = dict(rows)
        for (gid, _), row in portion.prepared.items():
            if gid in earlier_ids and earlier_ids[gid] != row.id:
                row.context = {**(row.context or {}), "$gid_before": earlier_ids[gid]}

    def commit(self, portion: Portion, event: PreparedCommitted, commit_seq: int) -> None:
        """Commit a prepared transaction: give it its place in history."""
        # The prepare may be in this portion, and not stored yet.
        row = portion.prepared.pop((event.gid, event.xid), None)
        ended_row = None
        if row is None:
            ended_row = self._end(
                event,
                state="committed",
                commit_seq=commit_seq,
                commit_lsn=event.commit_lsn,
                end_lsn=event.end_lsn,
                commit_time_us=event.commit_time_us,
            )
        if ended_row is None:
            row = row or self._unknown(portion, event)
            row.state = "committed" if row.left_out is None else "skipped"
            row.commit_seq = commit_seq
            row.commit_lsn, row.end_lsn = event.commit_lsn, event.end_lsn
            row.set_commit_time(event.commit_time_us)
            ended_row = row.id, row.state, row.changes
        portion.transitions.append(
            StateTransition(ended_row[0], ended_row[1], event.commit_lsn, event.commit_time_us)
        )

    def roll_back(self, portion: Portion, event: PreparedRolledBack) -> None:
        """End a prepared transaction as rolled back; its changes are deleted later."""
        end_lsn, time_us = event.rollback_end_lsn, event.rollback_time_us
        row = portion.prepared.pop((event.gid, event.xid), None)
        ended_row = None
        if row is None:
            ended_row = self._end(event, state="rolled back", end_lsn=end_lsn, ended_at_us=time_us)
        if ended_row is None:
            row = row or self._unknown(portion, event)
            row.state, row.end_lsn, row.ended_at_us = "rolled back", end_lsn, time_us
            ended_row = row.id, row.state, row.changes
        transaction_id, state, changes = ended_row
        portion.rolled_back_changes += changes
        portion.transitions.append(StateTransition(transaction_id, state, end_lsn, time_us))
        self._connection.execute(
            TOMBSTONE, [transaction_id, event.xid, lsn_text(end_lsn), datetime_of(time_us), changes]
        )

    def _end(
        self,
        event: PreparedCommitted | PreparedRolledBack,
        *,
        state: str,
        end_lsn: int,
        commit_seq: int | None = None,
        commit_lsn: int | None = None,
        commit_time_us: int | None = None,
        ended_at_us: int | None = None,
    ) -> tuple[int, str, int] | None:
        """End a stored transaction; return its id, state and number of changes, or None."""
        return self._connection.execute(
            _END_PREPARED,
            {
                "state": state,
                "commit_seq": commit_seq,
                "commit_lsn": lsn_text(commit_lsn),
                "end_lsn": lsn_text(end_lsn),
                "commit_time": datetime_of(commit_time_us),
                "ended_at": datetime_of(ended_at_us),
                "incarnation_id": self._incarnation_id,
                "gid": event.gid,
                "xid": event.xid,
            },
        ).fetchone()

    def _unknown(
        self, portion: Portion, event: PreparedCommitted | PreparedRolledBack
    ) -> CopiedTransaction:
        """Return a row for the end of a transaction whose prepare was never received."""
        row = CopiedTransaction(
            id=self._next_id(),
            incarnation_id=self._incarnation_id,
            received_at_us=now_us(),
            xid=event.xid,
            gid=event.gid,
            state="prepared",
            context={"$prepare": "not seen: prepared before this slot received two-phase commits"},
        )
        portion.rows[row.id] = row
        return row

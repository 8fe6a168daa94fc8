"""One portion → one store transaction, fenced by the slot's epoch.

Changes, transaction rows and the checkpoint commit together; only what was committed here may be
confirmed to the server. Any failure leaves the store as it was: the receiver then starts anew from
the stored checkpoint.
"""

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import orjson
import psycopg
from psycopg import sql

from decoder.events import PreparedCommitted, PreparedRolledBack, RelationSeen
from decoder.scalars import LSN, datetime_from_us
from replview.receiver.encoding import ChangeEncoder
from replview.receiver.recorder import MessageRow, Portion
from replview.receiver.table_plans import TablePlans
from replview.store import change_rows, transaction_rows
from replview.store.large_values import store_large_values
from replview.store.lease import Fenced, Lease
from replview.store.partitions import TransactionIds, ensure_partitions
from replview.store.shapes import StoredShape
from replview.store.transaction_rows import TransactionRow

#: Seconds from 1970 to 2000.
_POSTGRES_EPOCH_SECONDS = 946_684_800
_PARTITIONS_AHEAD_SECONDS = 3600.0

_COPY_CHANGES = sql.SQL("COPY change ({}) FROM STDIN (FORMAT BINARY)").format(
    sql.SQL(", ").join(map(sql.Identifier, change_rows.COPY_COLUMNS))
)
_COPY_TRANSACTIONS = sql.SQL("COPY transaction ({}) FROM STDIN (FORMAT BINARY)").format(
    sql.SQL(", ").join(map(sql.Identifier, transaction_rows.COPY_COLUMNS))
)
_FENCE = """
UPDATE slot SET heartbeat_at = clock_timestamp(), checkpoint_lsn = %(checkpoint)s,
    server_lsn = greatest(server_lsn, %(server_lsn)s),
    transactions_stored = transactions_stored + %(transactions)s,
    changes_stored = changes_stored + %(changes)s,
    last_commit_time = coalesce(%(commit_time)s, last_commit_time),
    last_stored_at = CASE WHEN %(transactions)s > 0 THEN clock_timestamp()
                          ELSE last_stored_at END
WHERE id = %(slot_id)s AND epoch = %(epoch)s
RETURNING desired
"""
_UPDATE_TRANSACTION = """
UPDATE transaction SET state = %(state)s, gid = %(gid)s, commit_seq = %(commit_seq)s,
    first_lsn = %(first_lsn)s, prepare_lsn = %(prepare_lsn)s, commit_lsn = %(commit_lsn)s,
    end_lsn = %(end_lsn)s, commit_time = %(commit_time)s, prepared_at = %(prepared_at)s,
    ended_at = %(ended_at)s, origin = %(origin)s, actor = %(actor)s,
    actor_grade = %(actor_grade)s, context = %(context)s, inserts = %(inserts)s,
    updates = %(updates)s, deletes = %(deletes)s, truncates = %(truncates)s,
    messages = %(messages)s, size_bytes = %(size_bytes)s, relations = %(relations)s,
    aborted_changes = %(aborted_changes)s, stored_at = clock_timestamp()
WHERE id = %(id)s
"""
_END_PREPARED = """
UPDATE transaction SET state = %(state)s, commit_seq = %(commit_seq)s,
    commit_lsn = %(commit_lsn)s, end_lsn = %(end_lsn)s, commit_time = %(commit_time)s,
    ended_at = %(ended_at)s, stored_at = clock_timestamp()
WHERE id = (SELECT id FROM transaction
            WHERE incarnation_id = %(incarnation_id)s AND gid = %(gid)s AND xid = %(xid)s
              AND state = 'prepared'
            ORDER BY prepare_lsn DESC LIMIT 1)
RETURNING id
"""


class StoreRefused(Exception):
    """The store is there and refuses a batch: trying again at once would not help."""


#: Told of each shape that is new to the store or back in force.
ShapeListener = Callable[[RelationSeen, StoredShape], None]


def now_us() -> int:
    """Our clock, in microseconds since 2000-01-01 UTC."""
    return int((time.time() - _POSTGRES_EPOCH_SECONDS) * 1_000_000)


class StoreWriter:
    """Writes the portions of one session under one lease."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        lease: Lease,
        *,
        incarnation_id: int,
        commit_seq: int,
        plans: TablePlans,
        on_shape: ShapeListener,
    ) -> None:
        self._connection = connection
        self._lease = lease
        self._incarnation_id = incarnation_id
        self._plans = plans
        self._on_shape = on_shape
        self._ids = TransactionIds()
        self._next_partition_check = 0.0
        #: The last place in history given out.
        self.commit_seq = commit_seq

    def next_id(self) -> int:
        """An identifier for a transaction first seen now."""
        return self._ids.next(self._connection)

    def prepare(self) -> None:
        """Make the partitions of today and tomorrow; looks again once an hour."""
        if time.monotonic() < self._next_partition_check:
            return
        today = dt.datetime.now(tz=dt.UTC).date()
        ensure_partitions(self._connection, today, today + dt.timedelta(days=1))
        self._next_partition_check = time.monotonic() + _PARTITIONS_AHEAD_SECONDS

    def write(self, portion: Portion, server_lsn: int) -> str:
        """Store one portion; returns what is desired of the slot.

        Raises ``Fenced``, ``StoreRefused``, or ``psycopg.OperationalError`` when the store is away.
        """
        try:
            return self._write(portion, server_lsn)
        except (psycopg.OperationalError, psycopg.InterfaceError):
            raise  # the store is away
        except psycopg.Error as error:
            # The server's message may quote a value: only its class is told on.
            raise StoreRefused(type(error).__name__) from None

    def _write(self, portion: Portion, server_lsn: int) -> str:
        self.prepare()
        commit_seq = self.commit_seq
        shapes: list[tuple[RelationSeen, StoredShape]] = []
        with self._connection.transaction():
            desired = self._fence(portion, server_lsn)
            self._store_types(portion)
            for seen in portion.relations:
                stored = self._plan(seen)
                if stored is not None:
                    shapes.append((seen, stored))
            if portion.runs or any(isinstance(entry, MessageRow) for entry in portion.committed):
                self._copy_changes(portion)
            self._store_tombstones(portion)
            self._assign_places(portion)
            self._end_rolled_back(portion)
            self._store_rows(portion)
            if self.commit_seq != commit_seq:
                self._connection.execute(
                    "UPDATE slot_incarnation SET commit_seq = %s WHERE id = %s",
                    [self.commit_seq, self._incarnation_id],
                )
        for row in portion.rows.values():
            row.stored = True
        # Only now: changes of a former shape may have stood in this very portion.
        for relation in {seen.relation.oid: seen.relation for seen, _ in shapes}.values():
            self._plans.forget_others(relation)
        for seen, stored in shapes:
            self._on_shape(seen, stored)
        return desired

    def _fence(self, portion: Portion, server_lsn: int) -> str:
        """Move the checkpoint, if the slot is still ours."""
        commit_time_us = portion.last_commit_time_us
        row = self._connection.execute(
            _FENCE,
            {
                "checkpoint": str(LSN(portion.checkpoint_lsn)),
                "server_lsn": str(LSN(server_lsn)),
                "transactions": len(portion.committed),
                "changes": portion.changes,
                "commit_time": _datetime(commit_time_us),
                "slot_id": self._lease.slot_id,
                "epoch": self._lease.epoch,
            },
        ).fetchone()
        if row is None:
            raise Fenced(f"slot {self._lease.slot_id} was taken over by another receiver")
        return str(row[0])

    def _plan(self, seen: RelationSeen) -> StoredShape | None:
        """Have a plan for the relation; None where there was one and nothing is new."""
        if self._plans.get(seen.relation) is not None and not seen.changed:
            return None
        _, stored = self._plans.make(self._connection, seen.relation, lsn=seen.lsn, xid=seen.xid)
        return stored

    def _store_types(self, portion: Portion) -> None:
        for seen in portion.types:
            self._connection.execute(
                """
                INSERT INTO type_name (slot_id, system_identifier, oid, schema, name)
                SELECT slot_id, system_identifier, %s, %s, %s
                FROM slot_incarnation WHERE id = %s
                ON CONFLICT (slot_id, system_identifier, oid)
                DO UPDATE SET schema = excluded.schema, name = excluded.name
                """,
                [seen.type.oid, seen.type.namespace, seen.type.name, self._incarnation_id],
            )

    def _copy_changes(self, portion: Portion) -> None:
        with self._connection.cursor().copy(_COPY_CHANGES) as copy:
            copy.write(change_rows.COPY_HEADER)
            encoder = ChangeEncoder(self._plans, copy.write)
            for row, changes in portion.runs:
                encoder.encode(row, changes)
            for entry in portion.committed:
                if isinstance(entry, MessageRow):
                    encoder.encode_message(entry.row, entry.lsn, entry.document)
            encoder.flush()
            copy.write(change_rows.COPY_TRAILER)
        store_large_values(self._connection, encoder.asides)

    def _store_tombstones(self, portion: Portion) -> None:
        for tombstone in portion.tombstones:
            row = portion.rows[tombstone.transaction_id]
            # Counted while its changes were encoded; None: nothing was, or too many to count.
            changes = row.subxid_changes.pop(tombstone.subxid, None)
            row.aborted_changes += changes or 0
            self._connection.execute(
                """
                INSERT INTO aborted_subtransaction
                    (transaction_id, subxid, abort_lsn, aborted_at, changes, swept)
                VALUES (%s, %s, %s, %s, %s, false) ON CONFLICT DO NOTHING
                """,
                [
                    tombstone.transaction_id,
                    tombstone.subxid,
                    _lsn(tombstone.abort_lsn),
                    _datetime(tombstone.abort_time_us),
                    changes,
                ],
            )

    def _assign_places(self, portion: Portion) -> None:
        """Give out commit_seq, in the order in which the transactions ended."""
        for entry in portion.committed:
            self.commit_seq += 1
            if isinstance(entry, TransactionRow):
                entry.commit_seq = self.commit_seq
            elif isinstance(entry, MessageRow):
                entry.row.commit_seq = self.commit_seq
            else:
                self._commit_prepared(portion, entry, self.commit_seq)

    def _commit_prepared(self, portion: Portion, event: PreparedCommitted, commit_seq: int) -> None:
        # Its prepare may be in this very portion, not yet in the store.
        for row in portion.rows.values():
            if row.state == "prepared" and (row.gid, row.xid) == (event.gid, event.xid):
                row.state, row.commit_seq = "committed", commit_seq
                row.commit_lsn, row.end_lsn = event.commit_lsn, event.end_lsn
                row.set_commit_time(event.commit_time_us)
                return
        found = self._connection.execute(
            _END_PREPARED,
            {
                "state": "committed",
                "commit_seq": commit_seq,
                "commit_lsn": _lsn(event.commit_lsn),
                "end_lsn": _lsn(event.end_lsn),
                "commit_time": _datetime(event.commit_time_us),
                "ended_at": None,
                "incarnation_id": self._incarnation_id,
                "gid": event.gid,
                "xid": event.xid,
            },
        ).fetchone()
        if found is None:
            row = self._unknown_prepared(portion, event.gid, event.xid, "committed")
            row.commit_seq = commit_seq
            row.commit_lsn, row.end_lsn = event.commit_lsn, event.end_lsn
            row.set_commit_time(event.commit_time_us)

    def _end_rolled_back(self, portion: Portion) -> None:
        for event in portion.rolled_back:
            if not self._roll_back_in_portion(portion, event):
                self._roll_back_stored(portion, event)

    def _roll_back_in_portion(self, portion: Portion, event: PreparedRolledBack) -> bool:
        for row in portion.rows.values():
            if row.state == "prepared" and (row.gid, row.xid) == (event.gid, event.xid):
                row.state, row.end_lsn = "rolled back", event.rollback_end_lsn
                row.ended_at_us = event.rollback_time_us
                return True
        return False

    def _roll_back_stored(self, portion: Portion, event: PreparedRolledBack) -> None:
        found = self._connection.execute(
            _END_PREPARED,
            {
                "state": "rolled back",
                "commit_seq": None,
                "commit_lsn": None,
                "end_lsn": _lsn(event.rollback_end_lsn),
                "commit_time": None,
                "ended_at": _datetime(event.rollback_time_us),
                "incarnation_id": self._incarnation_id,
                "gid": event.gid,
                "xid": event.xid,
            },
        ).fetchone()
        if found is None:
            row = self._unknown_prepared(portion, event.gid, event.xid, "rolled back")
            row.end_lsn = event.rollback_end_lsn
            row.ended_at_us = event.rollback_time_us

    def _unknown_prepared(self, portion: Portion, gid: str, xid: int, state: str) -> TransactionRow:
        """The end of a transaction whose prepare we never saw is recorded as just that."""
        row = TransactionRow(
            id=self.next_id(),
            incarnation_id=self._incarnation_id,
            received_at_us=now_us(),
            xid=xid,
            gid=gid,
            state=state,
            context={"$prepare": "not seen: prepared before this slot received two-phase commits"},
        )
        portion.rows[row.id] = row
        return row

    def _store_rows(self, portion: Portion) -> None:
        new = [row for row in portion.rows.values() if not row.stored]
        if new:
            stored_at_us = now_us()
            with self._connection.cursor().copy(_COPY_TRANSACTIONS) as copy:
                packed = [row.pack(stored_at_us) for row in new]
                copy.write(change_rows.COPY_HEADER + b"".join(packed) + change_rows.COPY_TRAILER)
        known = [_parameters(row) for row in portion.rows.values() if row.stored]
        if known:
            self._connection.cursor().executemany(_UPDATE_TRANSACTION, known)


def _parameters(row: TransactionRow) -> dict[str, object]:
    """The parameters of ``_UPDATE_TRANSACTION``."""
    return {
        "id": row.id,
        "state": row.state,
        "gid": row.gid,
        "commit_seq": row.commit_seq,
        "first_lsn": _lsn(row.first_lsn),
        "prepare_lsn": _lsn(row.prepare_lsn),
        "commit_lsn": _lsn(row.commit_lsn),
        "end_lsn": _lsn(row.end_lsn),
        "commit_time": _datetime(row.commit_time_us),
        "prepared_at": _datetime(row.prepared_at_us),
        "ended_at": _datetime(row.ended_at_us),
        "origin": row.origin,
        "actor": row.actor,
        "actor_grade": row.actor_grade,
        "context": None if row.context is None else orjson.dumps(row.context).decode(),
        "inserts": row.inserts,
        "updates": row.updates,
        "deletes": row.deletes,
        "truncates": row.truncates,
        "messages": row.messages,
        "size_bytes": row.size_bytes,
        "relations": row.relations_json().decode(),
        "aborted_changes": row.aborted_changes,
    }


def _lsn(value: int | None) -> str | None:
    return None if value is None else str(LSN(value))


def _datetime(time_us: int | None) -> dt.datetime | None:
    return None if time_us is None else datetime_from_us(time_us)

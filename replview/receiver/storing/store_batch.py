"""Write one portion in one store transaction, fenced by the slot's epoch.

Changes, transaction rows and the checkpoint commit together; only what was committed here may be
confirmed to the server. Any failure leaves the store as it was: the receiver then starts again from
the stored checkpoint.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from decoder.events import Event, PreparedCommitted, RelationSeen
from decoder.scalars import LSN, lsn_text
from replview.receiver.actors import note_neighbours, settle_actors, take_claims_back
from replview.receiver.culprits import Culprit, StoreTrial, blames_data
from replview.receiver.mask_rules import MARK
from replview.receiver.quarantine import settle
from replview.receiver.reports import ReceiverFacts
from replview.receiver.storing.catalog_looks import AlteredTable
from replview.receiver.storing.encoding import copying_changes, give_back, take_back
from replview.receiver.storing.portions import MessageRow, Portion, SlotLogNote
from replview.receiver.storing.table_plans import TablePlans
from replview.receiver.storing.transactions import (
    TOMBSTONE,
    PreparedEndings,
    count_by_actor,
    datetime_of,
    store_rows,
    store_transitions,
)
from replview.receiver.storing.unsettled_shapes import UnsettledShapes
from replview.runtime.failpoints import Point, failpoint
from replview.store.read.days import IDS_PER_HOUR
from replview.store.write.copy_rows import CopiedTransaction, store_large_values
from replview.store.write.incarnations import correct_slot
from replview.store.write.lease import Fenced, Lease
from replview.store.write.partitions import PartitionKeeper, TransactionIds
from replview.store.write.shapes import StoredShape

_FENCE = (
    sql.SQL("""
UPDATE slot SET heartbeat_at = clock_timestamp(), checkpoint_lsn = %(checkpoint)s,
    server_lsn = greatest(server_lsn, %(server_lsn)s),
    transactions_stored = transactions_stored + %(transactions)s,
    changes_stored = changes_stored + %(changes)s,
    bytes_stored = bytes_stored + %(size_bytes)s,
    receiver_facts = coalesce(%(facts)s::jsonb, receiver_facts),
    last_commit_time = coalesce(%(commit_time)s, last_commit_time),
    last_stored_at = CASE WHEN %(transactions)s > 0 THEN clock_timestamp()
                          ELSE last_stored_at END
WHERE id = %(slot_id)s AND epoch = %(epoch)s
RETURNING desired, outside_writes, {mark},
    (SELECT catalog_mark FROM source WHERE source.id = slot.source_id)
""")
    .format(mark=sql.SQL(MARK))
    .as_string()
)


# Counts the changes of aborted subtransactions that were not counted while they were received.
_SUBXID_COUNTS = """
SELECT c.relation_id, c.op::text, count(*) FROM change c
JOIN aborted_subtransaction a ON a.transaction_id = c.transaction_id AND a.subxid = c.subxid
WHERE c.transaction_id = %s AND a.changes IS NULL GROUP BY 1, 2
"""

_NOTE_POSITION = """
UPDATE slot_incarnation SET commit_seq = %s, hours_in_order = hours_in_order AND %s AND
    last_hour <= %s, last_hour = greatest(last_hour, %s) WHERE id = %s
"""
#: Called inside the store transaction with each shape that is new to the store or back in force:
#: the table's name, the position (0/0: not known), the version, and the last place in history.
ShapeListener = Callable[[str, LSN, StoredShape, int], None]
#: Called inside the store transaction for each line of the slot's log, with its place in history.
NoteListener = Callable[[SlotLogNote, int], None]


class StoreRefused(Exception):
    """The store refuses a batch although it can be reached: an immediate retry would not help."""

    def __init__(self, error: psycopg.Error) -> None:
        # The server's message may quote a value, so only its class is passed on.
        super().__init__(type(error).__name__)
        self.sqlstate = error.sqlstate or ""
        self.blames_data = blames_data(error)


class StoreWriter:
    """A writer of the portions of one session, under one lease."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        lease: Lease,
        *,
        incarnation_id: int,
        commit_seq: int,
        plans: TablePlans,
        on_shape: ShapeListener,
        on_note: NoteListener = lambda note, commit_seq: None,
    ) -> None:
        self._connection = connection
        self._lease = lease
        self._incarnation_id = incarnation_id
        self._plans = plans
        self._unsettled = UnsettledShapes(plans)
        self._on_shape = on_shape
        self._on_note = on_note
        self._ids = TransactionIds()
        #: Looks up and ends stored transactions that end apart from their changes.
        self.endings = PreparedEndings(
            connection, incarnation_id=incarnation_id, next_id=self.next_id
        )
        self._partitions = PartitionKeeper()
        #: The last commit_seq that was assigned.
        self.commit_seq = commit_seq
        #: ``slot.outside_writes`` when ``commit_seq`` was read; None: not read yet.
        self._outside_writes: int | None = None
        #: ``source.catalog_mark`` as last read.
        self._catalog_mark = ""
        self._facts = ReceiverFacts()
        #: Streamed transactions with aborted changes that are counted only at their end.
        self._to_recount: set[CopiedTransaction] = set()

    def next_id(self) -> int:
        """Return an identifier for a new transaction."""
        return self._ids.next(self._connection)

    def write(self, portion: Portion, server_lsn: int) -> str:
        """Store one portion in one store transaction, and return the slot's desired state.

        The states are ``running``, ``stopped``, ``removing``. Raises ``Fenced`` when another
        receiver has taken the slot over, ``StoreRefused`` when the store refuses the batch, and
        ``psycopg.Error`` when the store cannot be reached.
        """
        try:
            self._plans.look(self._connection, self._catalog_mark)
            started_at = time.monotonic()
            desired = self._write(portion, server_lsn)
            self._facts.stored(portion, time.monotonic() - started_at)
            return desired
        except psycopg.Error as error:
            # Check the connection, not the error's class: a full disk and a value beyond a limit
            # are OperationalErrors too, and retrying those at once would never end.
            if self._connection.closed:
                raise
            raise StoreRefused(error) from None

    def find_culprit(
        self,
        error: Exception,
        events: Sequence[Event],
        frames: Iterable[Sequence[bytes]],
        in_stream: bool,
    ) -> Culprit | None:
        """Return the change that made the store roll a batch back; None: no change is to blame."""
        if isinstance(error, StoreRefused) and not error.blames_data:
            return None
        flat = [frame for portion_frames in frames for frame in portion_frames]
        try:
            trial = StoreTrial(self._connection, self._plans)
            return trial.find(events, flat, in_stream=in_stream)
        except psycopg.Error:
            return None  # no change is to blame, or the store cannot be reached

    def _write(self, portion: Portion, server_lsn: int) -> str:
        self._partitions.ready_for(self._connection, portion.rows)
        with self._connection.transaction():
            desired = self._fence(portion, server_lsn)
            commit_seq = self.commit_seq
            self._store_types(portion)
            planned = [(seen, self._plan(seen)) for seen in portion.relations]
            shapes = [(seen, stored) for seen, stored in planned if stored is not None]
            if portion.runs or any(isinstance(entry, MessageRow) for entry in portion.committed):
                self._copy_changes(portion)
            self._store_tombstones(portion)
            self._assign_places(portion)
            for event in portion.rolled_back:
                self.endings.roll_back(portion, event)
            self.endings.note_reused_gids(portion)
            self._settle_shapes(portion)
            altered = self._plans.store_altered(self._connection, portion.checkpoint_lsn)
            self._correct_slot(portion)
            self._settle_actors(portion)
            store_rows(self._connection, portion)
            store_transitions(self._connection, portion)
            if portion.settled:
                settle(self._connection, portion.settled)
            if self.commit_seq != commit_seq:
                parameters = [self.commit_seq, *_hours(portion), self._incarnation_id]
                self._connection.execute(_NOTE_POSITION, parameters)
            self._call_listeners(shapes, altered, portion.notes)
        for row in portion.rows.values():
            row.stored = True
        # Do this last: this portion may contain changes of a former shape.
        for relation in {seen.relation.oid: seen.relation for seen, _ in shapes}.values():
            self._plans.forget_others(relation)
        return desired

    def _fence(self, portion: Portion, server_lsn: int) -> str:
        """Move the checkpoint and lock the slot's row.

        Raises ``Fenced`` if the epoch is another.
        """
        commit_time_us = portion.last_commit_time_us
        row = self._connection.execute(
            _FENCE,
            {
                "checkpoint": str(LSN(portion.checkpoint_lsn)),
                "server_lsn": str(LSN(server_lsn)),
                "transactions": len(portion.committed),
                "changes": portion.changes,
                "size_bytes": portion.size_bytes,
                "facts": self._facts.to_tell(),
                "commit_time": datetime_of(commit_time_us),
                "slot_id": self._lease.slot_id,
                "epoch": self._lease.epoch,
            },
        ).fetchone()
        if row is None:
            raise Fenced(f"slot {self._lease.slot_id} was taken over by another receiver")
        if row[1] != self._outside_writes:
            self._read_place()
            self._outside_writes = row[1]
        self._plans.keep_up(self._connection, str(row[2]))
        self._catalog_mark = str(row[3])
        return str(row[0])

    def _read_place(self) -> None:
        """Read the last commit_seq: a baseline may have assigned one since the last write."""
        row = self._connection.execute(
            "SELECT commit_seq FROM slot_incarnation WHERE id = %s", [self._incarnation_id]
        ).fetchone()
        assert row is not None
        self.commit_seq = int(row[0])

    def _plan(self, seen: RelationSeen) -> StoredShape | None:
        """Make a plan for the relation, and return its stored shape; None if nothing is new."""
        if self._plans.get(seen.relation) is not None and not seen.changed:
            return None
        self._plans.forget_looks(seen.relation)
        transaction = seen.transaction
        top = None if transaction is None else transaction.xid
        planned = self._plans.make(
            self._connection, seen.relation, lsn=seen.lsn, xid=seen.xid, top=top
        )
        if transaction is not None:
            self._unsettled.register(planned, transaction)
        return planned.stored

    def _settle_shapes(self, portion: Portion) -> None:
        """Complete the shapes of transactions that end in this portion."""
        if not self._unsettled.by_xid:
            return
        for row in portion.rows.values():
            if row.state not in ("streaming", "receiving"):
                self._unsettled.settle(self._connection, row.xid, row.state, row.id)
        for entry in portion.committed:
            if isinstance(entry, PreparedCommitted):
                self._unsettled.settle(self._connection, entry.xid, "committed")
        for event in portion.rolled_back:
            self._unsettled.settle(self._connection, event.xid, "rolled back")

    def _call_listeners(
        self,
        shapes: Sequence[tuple[RelationSeen, StoredShape]],
        altered: Sequence[tuple[AlteredTable, StoredShape]],
        notes: Sequence[SlotLogNote],
    ) -> None:
        """Call the listeners, once the portion's transactions have their commit_seq."""
        for seen, stored in shapes:
            name = f"{seen.relation.namespace}.{seen.relation.name}"
            self._on_shape(name, seen.lsn, stored, self.commit_seq)
        for table, stored in altered:
            name = f"{table.shape.schema}.{table.shape.table}"
            self._on_shape(name, table.lsn, stored, self.commit_seq)
        for note in notes:
            self._on_note(note, self.commit_seq)

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
        failpoint(Point.BEFORE_COPY)
        with copying_changes(self._connection, self._plans) as encoder:
            for row, changes in portion.runs:
                # Keep the order of the stream, since not every claim that repeats another one is
                # kept.
                _take_claims_back(portion, row, changes[0].seq)
                encoder.encode(row, changes)
                if row.streamed:
                    note_neighbours(row, changes)
            for entry in portion.committed:
                if isinstance(entry, MessageRow):
                    encoder.encode_message(entry.row, entry.lsn, entry.document)
        store_large_values(self._connection, encoder.asides)
        failpoint(Point.AFTER_COPY)

    def _store_tombstones(self, portion: Portion) -> None:
        stones = []
        for tombstone in portion.tombstones:
            row = portion.rows[tombstone.transaction_id]
            changes: int | None = 0
            if tombstone.subxid == row.xid:
                changes = row.changes
                give_back(row)
            elif (counts := row.subxid_changes.pop(tombstone.subxid, None)) is not None:
                changes = take_back(row, counts)
            elif tombstone.subxid <= row.forgotten_subxid:
                changes = None
                self._to_recount.add(row)
            portion.rolled_back_changes += changes or 0
            abort_lsn, aborted_at = tombstone.abort_lsn, datetime_of(tombstone.abort_time_us)
            stones.append((row.id, tombstone.subxid, lsn_text(abort_lsn), aborted_at, changes))
        if stones:
            self._connection.cursor().executemany(TOMBSTONE, stones)
        for row in [row for row in self._to_recount if row.state != "streaming"]:
            self._to_recount.remove(row)
            if row.state in ("committed", "prepared"):
                rows = self._connection.execute(_SUBXID_COUNTS, [row.id]).fetchall()
                counts = {(relation_id, op): number for relation_id, op, number in rows}
                portion.rolled_back_changes += take_back(row, counts)

    def _settle_actors(self, portion: Portion) -> None:
        for row in portion.rows.values():
            if row.claims is not None:
                _take_claims_back(portion, row, row.last_seq + 1)
                settle_actors(row)
                if row.actors and row.state in ("committed", "prepared"):
                    count_by_actor(self._connection, row)

    def _correct_slot(self, portion: Portion) -> None:
        """Subtract changes that were rolled back or discarded from the slot's counters."""
        discarded = sum(row.changes + row.aborted_changes for row in portion.discarded)
        rolled_back = portion.rolled_back_changes - sum(
            row.aborted_changes for row in portion.discarded
        )
        if rolled_back or discarded:
            correct_slot(self._connection, self._lease.slot_id, rolled_back, discarded)

    def _assign_places(self, portion: Portion) -> None:
        """Assign commit_seq, in the order in which the transactions ended."""
        for entry in portion.committed:
            self.commit_seq += 1
            if isinstance(entry, CopiedTransaction):
                entry.commit_seq = self.commit_seq
            elif isinstance(entry, MessageRow):
                entry.row.commit_seq = self.commit_seq
            else:
                self.endings.commit(portion, entry, self.commit_seq)


def _take_claims_back(portion: Portion, row: CopiedTransaction, seq: int) -> None:
    """Remove the claims of savepoints that were rolled back before this change of the row."""
    savepoints = portion.savepoints.get(row.id)
    while savepoints and savepoints[0].last_seq < seq:
        savepoint = savepoints.popleft()
        take_claims_back(row, savepoint.subxid, savepoint.last_seq)


def _hours(portion: Portion) -> tuple[bool, int, int]:
    """Return what ``slot_incarnation`` must know of the hours in the transactions' identifiers.

    Returns whether the hours ascend, and the first hour, for transactions that were not open before
    their commit; and the last hour of all.
    """
    first, last, in_order = IDS_PER_HOUR, 0, True
    for entry in portion.committed:
        if isinstance(entry, CopiedTransaction):
            hour = entry.id // IDS_PER_HOUR
            if not entry.streamed and entry.gid is None:
                first, in_order = min(first, hour), in_order and hour >= last
            last = max(last, hour)
    return in_order, first, last

"""The methods that decode messages on the hot path and add them to the current run.

Each method returns the number of frames it took. It returns 0, and changes nothing,
if the readable decoder must decode the message.
"""

from collections.abc import Sequence

from decoder.events import (
    ChangeEvent,
    ChangeRun,
    Event,
    OpenTransaction,
    TransactionCommitted,
    TransactionOpened,
)
from decoder.fast.hot import (
    BEGIN_FRAME,
    COMMIT_FRAME,
    UPDATE,
    InsertRun,
    insert_run_of,
    read_delete,
    read_update,
)
from decoder.lifecycle import Lifecycle, SessionState
from decoder.messages import RelationMessage
from decoder.scalars import LSN
from decoder.values import ValueDecoder


def begins(events: list[Event]) -> bool:
    """Return whether the last event opens a transaction."""
    return bool(events) and type(events[-1]) is TransactionOpened


class FastRoad:
    """The state of one session, and the methods that read row changes straight from a frame."""

    __slots__ = (
        "_changes",
        "_events",
        "_held",
        "_insert_shapes",
        "_lifecycle",
        "_run_size_bytes",
        "_run_transaction",
        "_session",
        "_shape_of",
        "_values",
        "keeps_empty",
        "passed_lsn",
    )

    def __init__(self, session: SessionState, values: ValueDecoder) -> None:
        self._session = session
        self._values = values
        self._lifecycle = Lifecycle(self._session)
        self._events: list[Event] = []
        #: A TransactionOpened event without changes so far, kept for the next ``feed()``.
        self._held: list[Event] = []
        #: The end LSN of the last transaction that was left out because it has no changes. Servers
        #: before 15 send such transactions; later ones report their progress in keepalives only.
        self.passed_lsn = 0
        #: True to give out empty transactions too, because rows were filtered out of the frames.
        self.keeps_empty = False
        self._changes: list[ChangeEvent] = []
        self._run_transaction: OpenTransaction | None = None
        self._run_size_bytes = 0
        #: An Insert message up to its column count, without an xid → its relation and decoder.
        self._insert_shapes: dict[bytes, tuple[RelationMessage, InsertRun]] = {}
        self._shape_of: dict[int, bytes] = {}

    @property
    def open_streams(self) -> tuple[OpenTransaction, ...]:
        """Return the streamed transactions that have started and not ended, oldest first."""
        return tuple(self._lifecycle.streams.values())

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction or a stream block is open."""
        return self._lifecycle.current is not None

    @property
    def in_stream(self) -> bool:
        """Return whether a stream block is open."""
        return self._session.stream_xid is not None

    def _in_run(self, kind: str) -> OpenTransaction:
        """Return the current transaction, after ending the run of any other transaction."""
        transaction = self._lifecycle.transaction(kind)
        if transaction is not self._run_transaction:
            self._end_run()
            self._run_transaction = transaction
        return transaction

    def _end_run(self) -> None:
        transaction = self._run_transaction
        if transaction is None:
            return
        changes = self._changes
        if changes:
            if transaction.first_lsn is None:
                first_lsn = next((change.lsn for change in changes if change.lsn), None)
                transaction.first_lsn = None if first_lsn is None else LSN(first_lsn)
            run = (transaction, changes, self._run_size_bytes)
            self._events.append(tuple.__new__(ChangeRun, run))
            self._changes = []
        self._run_transaction = None
        self._run_size_bytes = 0

    def _fast_begin(self, frame: bytes) -> int:
        if len(frame) != BEGIN_FRAME.size:
            return 0
        wal_start, final_lsn, time_us, xid = BEGIN_FRAME.unpack(frame)
        if self._run_transaction is not None:
            self._end_run()
        self._events.append(self._lifecycle.open_plain(xid, LSN(final_lsn), time_us, wal_start))
        return 1

    def _fast_commit(self, frame: bytes, current: OpenTransaction) -> int:
        if len(frame) != COMMIT_FRAME.size or current.kind != "plain":
            return 0
        flags, commit_lsn, end_lsn, time_us = COMMIT_FRAME.unpack(frame)
        if flags:
            return 0
        if self._run_transaction is not None:
            self._end_run()
        self._committed(
            self._lifecycle.close_plain(current, LSN(commit_lsn), LSN(end_lsn), time_us)
        )
        return 1

    def _committed(self, event: TransactionCommitted) -> None:
        """Add a commit event, or leave out a plain transaction without any change."""
        events, transaction = self._events, event.transaction
        is_reported = transaction.seq or self.keeps_empty
        if is_reported or transaction.kind != "plain" or not begins(events):
            events.append(event)
            return
        del events[-1]
        self.passed_lsn = event.end_lsn

    def _insert_run(self, frames: Sequence[bytes], index: int, transaction: OpenTransaction) -> int:
        frame = frames[index]
        subxid: int | None = None
        if self._session.stream_xid is None:
            head = shape = frame[25:33]
        else:
            head = frame[25:37]
            shape = b"I" + head[5:]
            subxid = int.from_bytes(head[1:5], "big")
            if subxid == transaction.xid:
                subxid = None
        insert_shape = self._insert_shapes.get(shape)
        if insert_shape is None:
            return 0
        relation, run = insert_shape
        if transaction is not self._run_transaction:
            self._end_run()
            self._run_transaction = transaction
        end, size_bytes = run(
            frames, index, head, relation, subxid, self._values, transaction.seq, self._changes
        )
        transaction.seq += end - index
        self._run_size_bytes += size_bytes
        return end - index

    def _fast_change(self, frame: bytes, tag: int, transaction: OpenTransaction) -> int:
        position, subxid = 26, None
        if self._session.stream_xid is not None:
            position = 30
            subxid = int.from_bytes(frame[26:30], "big")
            if subxid == transaction.xid:
                subxid = None
        oid = int.from_bytes(frame[position : position + 4], "big")
        relation = self._session.relations.get(oid)
        if relation is None:
            return 0
        read = read_update if tag == UPDATE else read_delete
        row = read(frame, position + 4, relation, self._values)
        if row is None:
            return 0
        if transaction is not self._run_transaction:
            self._end_run()
            self._run_transaction = transaction
        transaction.seq += 1
        lsn = int.from_bytes(frame[1:9], "big")
        op = "U" if tag == UPDATE else "D"
        change = (transaction.seq, lsn, subxid, relation, op, *row)
        self._changes.append(tuple.__new__(ChangeEvent, change))
        self._run_size_bytes += len(frame) - 25
        return 1

    def _learn_insert_shape(self, relation: RelationMessage) -> None:
        """Remember the first bytes of an Insert into ``relation``, in place of the former ones."""
        oid, columns = relation.oid.to_bytes(4, "big"), len(relation.columns)
        self._insert_shapes.pop(self._shape_of.get(relation.oid, b""), None)
        shape = self._shape_of[relation.oid] = b"I" + oid + b"N" + columns.to_bytes(2, "big")
        self._insert_shapes[shape] = (relation, insert_run_of(columns))

"""Messages of the hot road, from the frame into the run being collected.

Each method returns how many frames it took; none, if the readable decoder must
look. Nothing has changed then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from decoder.binary import UserType
from decoder.events import Change, OpenTransaction
from decoder.fast.collecting import Collector
from decoder.fast.hot import BEGIN_FRAME, COMMIT_FRAME, UPDATE, read_delete, read_update
from decoder.fast.unrolled import InsertRun, insert_run_of
from decoder.messages import Relation
from decoder.scalars import LSN
from decoder.stream import Streaming


class FastRoad(Collector):
    """Takes Begin, Commit, Insert, Update and Delete straight from the frame."""

    __slots__ = ("_insert_shapes", "_shape_of")

    def __init__(
        self,
        *,
        proto_version: int,
        streaming: Streaming,
        encoding: str,
        binary: bool,
        user_types: Mapping[int, UserType] | None,
    ) -> None:
        super().__init__(
            proto_version=proto_version,
            streaming=streaming,
            encoding=encoding,
            binary=binary,
            user_types=user_types,
        )
        #: An Insert up to its column count, without an xid → what reads its kind.
        self._insert_shapes: dict[bytes, tuple[Relation, InsertRun]] = {}
        self._shape_of: dict[int, bytes] = {}

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
        self._events.append(
            self._lifecycle.close_plain(current, LSN(commit_lsn), LSN(end_lsn), time_us)
        )
        return 1

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
        known = self._insert_shapes.get(shape)
        if known is None:
            return 0
        relation, run = known
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
        self._changes.append(tuple.__new__(Change, change))
        self._run_size_bytes += len(frame) - 25
        return 1

    def _learn_insert_shape(self, relation: Relation) -> None:
        """How an Insert into ``relation`` begins, and no longer as it did."""
        oid, columns = relation.oid.to_bytes(4, "big"), len(relation.columns)
        self._insert_shapes.pop(self._shape_of.get(relation.oid, b""), None)
        shape = self._shape_of[relation.oid] = b"I" + oid + b"N" + columns.to_bytes(2, "big")
        self._insert_shapes[shape] = (relation, insert_run_of(columns))

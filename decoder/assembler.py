"""The assembler turns pgoutput messages into transaction events: plain, streamed and two-phase.

It keeps only the identity of an open transaction: the changes in the frames of one
``feed()`` call leave with the events of the same call.
"""

import sys
from collections.abc import Mapping, Sequence

from decoder.binary import UserType
from decoder.boundaries import Prepare
from decoder.events import (
    ChangeEvent,
    Event,
    RelationSeen,
    StandaloneMessage,
    TransactionCommitted,
    Truncation,
    TypeSeen,
)
from decoder.fast.hot import BEGIN, COMMIT, DELETE, INSERT, TAG_AT, UPDATE, XLOGDATA
from decoder.fast.road import FastRoad, begins
from decoder.lifecycle import SessionState, Streaming
from decoder.messages import (
    Delete,
    Insert,
    LogicalMessage,
    RelationMessage,
    Truncate,
    TupleData,
    Type,
    Update,
    Value,
)
from decoder.reader import ProtocolError
from decoder.replication import XLogData, decode_frame
from decoder.scalars import LSN, XID
from decoder.values import ValueDecoder, leave_out_non_key, tuple_values


class Assembler(FastRoad):
    """A converter from the frames of one replication session to transaction events.

    Make one for each START_REPLICATION or peek: a new session repeats
    relations, types and unfinished streams. After a ``ProtocolError``, discard the
    assembler.
    """

    __slots__ = ("_fast",)

    def __init__(
        self,
        *,
        proto_version: int,
        streaming: Streaming = "off",
        encoding: str = "utf-8",
        binary: bool = False,
        user_types: Mapping[int, UserType] | None = None,
        fast: bool = True,
    ) -> None:
        """Take ``proto_version`` and ``streaming`` as given to START_REPLICATION.

        ``encoding`` is Python's name for the session's ``client_encoding``.
        ``binary``: the stream was started with ``binary=true``; without it a
        binary value becomes an ``Undecoded``. ``user_types`` defines the types that
        are not built in, for a binary stream. ``fast=False`` reads
        every message with the readable decoder: the same events, slowly.

        Raises ``ValueError`` for options that do not go together and
        ``LookupError`` for an unknown encoding.
        """
        session = SessionState(proto_version=proto_version, streaming=streaming, encoding=encoding)
        super().__init__(session, ValueDecoder(encoding, binary=binary, user_types=user_types))
        self._fast = fast

    def feed(self, frames: Sequence[bytes]) -> list[Event]:
        """Take any number of whole XLogData frames, in order; return their events.

        Consecutive changes of one transaction come as one ``ChangeRun``. A plain
        transaction without changes, which servers before 15 send, makes no event.
        The caller does not pass keepalives. Raises ``ProtocolError`` for a frame that is
        malformed or not allowed at this point.
        """
        events, self._held = self._held, []
        self._events = events
        lifecycle, insert_run = self._lifecycle, self._insert_run
        shortest = TAG_AT if self._fast else sys.maxsize
        index, count = 0, len(frames)
        try:
            while index < count:
                frame = frames[index]
                tag = frame[TAG_AT] if len(frame) > shortest and frame[0] == XLOGDATA else 0
                current = lifecycle.current
                taken = 0
                if current is not None:
                    if tag == INSERT:
                        taken = insert_run(frames, index, current)
                    elif tag == COMMIT:
                        taken = self._fast_commit(frame, current)
                    elif tag in (UPDATE, DELETE):
                        taken = self._fast_change(frame, tag, current)
                elif tag == BEGIN:
                    taken = self._fast_begin(frame)
                if not taken:
                    self._readable(frame)
                    taken = 1
                index += taken
        except ProtocolError as error:
            self._locate(error, frames[index])
            raise
        self._end_run()
        if begins(events) and lifecycle.current is not None and lifecycle.current.kind == "plain":
            self._held = [events.pop()]
        self._events = []
        return events

    def _locate(self, error: ProtocolError, frame: bytes) -> None:
        """Set on the error the frame, transaction and table that it is about."""
        error.frame = frame
        transaction = self._lifecycle.current
        if transaction is not None:
            error.xid, error.gid = transaction.xid, transaction.gid
            error.final_lsn = transaction.final_lsn
        if frame[TAG_AT : TAG_AT + 1] in (b"I", b"U", b"D"):
            start = TAG_AT + (5 if self._session.stream_xid is not None else 1)
            oid = int.from_bytes(frame[start : start + 4], "big")
            relation = self._session.relations.get(oid)
            error.relation = "" if relation is None else f"{relation.namespace}.{relation.name}"

    # The readable path, for messages that the hot path does not take.

    def _readable(self, frame: bytes) -> None:
        data = decode_frame(frame)
        if not isinstance(data, XLogData):
            raise ProtocolError("CopyData", 0, "XLogData")
        message = self._session.decode(data.payload)
        match message:
            case Insert() | Update() | Delete():
                self._row(message, data)
            case Truncate():
                self._truncate(message, data)
            case LogicalMessage():
                self._message(message, data)
            case RelationMessage():
                self._relation(message, data.wal_start)
            case Type():
                self._session.types[message.oid] = message
                self._values.name_type(message.oid, message.namespace, message.name)
                self._events.append(TypeSeen(message, self._lifecycle.current))
            case _:
                if isinstance(message, Prepare) and self._lifecycle.current is None:
                    self._end_run()
                    self._events.append(self._lifecycle.begin_empty(message, data.wal_start))
                event = self._lifecycle.take(message, data.wal_start)
                if event is not None:
                    self._end_run()
                    if isinstance(event, TransactionCommitted):
                        self._committed(event)
                    else:
                        self._events.append(event)

    def _row(self, message: Insert | Update | Delete, data: XLogData) -> None:
        kind = type(message).__name__
        relation = self._session.relation(message.relation_oid, kind)
        old_kind = None if isinstance(message, Insert) else message.old_kind
        old = None if isinstance(message, Insert) else message.old
        old_values = None if old is None else self._row_values(old, relation, kind)
        if old_values is not None and old_kind == "K":
            leave_out_non_key(old_values, relation)
        new_values = None
        if not isinstance(message, Delete):
            new_values = self._row_values(message.new, relation, kind)
        change = (relation, kind[0], old_kind, old_values, new_values)
        self._add(kind, [change], message.xid, data)

    def _row_values(self, row: TupleData, relation: RelationMessage, kind: str) -> list[Value]:
        if len(row.kinds) != len(relation.columns):
            expected = f"{len(relation.columns)} columns, as in its Relation"
            raise ProtocolError(kind, None, f"{expected}, not {len(row.kinds)}")
        return tuple_values(row, relation, self._values)

    def _truncate(self, message: Truncate, data: XLogData) -> None:
        truncation = Truncation(message.cascade, message.restart_identity)
        relations = [self._session.relation(oid, "Truncate") for oid in message.relation_oids]
        changes = [(relation, "T", None, None, truncation) for relation in relations]
        self._add("Truncate", changes, message.xid, data)

    def _message(self, message: LogicalMessage, data: XLogData) -> None:
        if message.transactional:
            self._add("LogicalMessage", [(None, "M", None, None, message)], message.xid, data)
            return
        self._end_run()
        self._events.append(StandaloneMessage(message, data.wal_start))

    def _relation(self, message: RelationMessage, wal_start: LSN) -> None:
        current = self._lifecycle.current
        relation, changed = self._session.learn_relation(message)
        xid = message.xid
        if xid is None and current is not None:
            xid = current.xid
        # The changes so far have the old shape.
        self._end_run()
        self._learn_insert_shape(relation)
        self._events.append(RelationSeen(relation, wal_start, xid, current, changed))

    def _add(
        self, kind: str, changes: Sequence[tuple[object, ...]], xid: XID | None, data: XLogData
    ) -> None:
        """Add the changes of one message; an entry is a ``ChangeEvent`` from ``relation`` on."""
        transaction = self._in_run(kind)
        subxid = None if xid == transaction.xid else xid
        for change in changes:
            transaction.seq += 1
            row = (transaction.seq, int(data.wal_start), subxid, *change)
            self._changes.append(ChangeEvent._make(row))
        self._run_size_bytes += len(data.payload)

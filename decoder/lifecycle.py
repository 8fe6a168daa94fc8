"""The state of a session: its options, shapes and types, and which transactions are open."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from decoder import boundaries as b
from decoder.decode import Message, decode_message
from decoder.events import (
    Event,
    OpenTransaction,
    PreparedCommitted,
    PreparedRolledBack,
    SubtransactionAborted,
    TransactionAborted,
    TransactionCommitted,
    TransactionOpened,
    TransactionPrepared,
    UnknownAborted,
)
from decoder.messages import RelationMessage, Type
from decoder.reader import ProtocolError
from decoder.scalars import LSN, XID

Streaming: TypeAlias = Literal["off", "on", "parallel"]

_STREAMING_NEEDS_PROTOCOL: dict[str, int] = {"off": 1, "on": 2, "parallel": 4}
# A named tuple's own constructor costs twice as much.
_new = tuple.__new__


class SessionState:
    """The options of one session, the stream block it is in, and its caches.

    Make a new one for each START_REPLICATION or peek, because a new session sends every
    Relation and Type again.
    """

    __slots__ = ("encoding", "parallel", "relations", "stream_xid", "types")

    def __init__(self, *, proto_version: int, streaming: Streaming, encoding: str) -> None:
        """Raise ``ValueError`` for options that no server accepts together."""
        if not 1 <= proto_version <= 4:
            raise ValueError(f"proto_version must be 1 to 4, not {proto_version}")
        oldest_protocol = _STREAMING_NEEDS_PROTOCOL.get(streaming)
        if oldest_protocol is None or proto_version < oldest_protocol:
            raise ValueError(f"streaming={streaming!r} does not go with protocol {proto_version}")
        self.parallel = streaming == "parallel"
        self.encoding = encoding
        #: The top-level transaction whose stream block is open.
        self.stream_xid: XID | None = None
        #: The latest Relation message of each oid, even one from a stream that aborted.
        self.relations: dict[int, RelationMessage] = {}
        #: The latest Type message of each oid.
        self.types: dict[int, Type] = {}

    def decode(self, payload: bytes) -> Message:
        """Decode a message at this point, and change nothing. Raises ``ProtocolError``."""
        return decode_message(
            payload,
            in_stream=self.stream_xid is not None,
            parallel=self.parallel,
            encoding=self.encoding,
        )

    def relation(self, oid: int, kind: str) -> RelationMessage:
        """Return the relation in force for ``oid``. Raises ``ProtocolError`` if none was sent."""
        relation = self.relations.get(oid)
        if relation is None:
            raise ProtocolError(kind, None, f"a Relation message for oid {oid} before it")
        return relation

    def learn_relation(self, relation: RelationMessage) -> tuple[RelationMessage, bool]:
        """Put a relation in force; return it, and whether its shape differs from the known one.

        A relation of the same shape replaces the known object too, because ALTER TABLE may have
        changed something that no message shows.
        """
        former = self.relations.get(relation.oid)
        self.relations[relation.oid] = relation
        return relation, former != relation


class Lifecycle:
    """The transactions and stream blocks that the messages have opened and not yet ended.

    A message that is not allowed at this point raises ``ProtocolError``: accepting it
    would put changes into the wrong transaction.
    """

    __slots__ = ("_session", "_takers", "current", "streams")

    def __init__(self, session: SessionState) -> None:
        self._session = session
        #: The transaction that the next row messages belong to; ``None`` outside any.
        self.current: OpenTransaction | None = None
        #: Streamed transactions that have started and not ended, by top-level xid.
        self.streams: dict[XID, OpenTransaction] = {}
        self._takers: dict[type[Message], Callable[[Any, int], Event | None]] = {
            b.Begin: self._begin,
            b.Commit: self._commit,
            b.Origin: self._origin,
            b.BeginPrepare: self._begin_prepare,
            b.Prepare: self._prepare,
            b.CommitPrepared: self._commit_prepared,
            b.RollbackPrepared: self._rollback_prepared,
            b.StreamStart: self._stream_start,
            b.StreamStop: self._stream_stop,
            b.StreamCommit: self._stream_commit,
            b.StreamAbort: self._stream_abort,
            b.StreamPrepare: self._stream_prepare,
        }

    def take(self, message: Message, wal_start: int) -> Event | None:
        """Apply one message and return its event, if it makes one. Raises ``ProtocolError``."""
        return self._takers[type(message)](message, wal_start)

    def transaction(self, kind: str) -> OpenTransaction:
        """Return the current transaction. Raises ``ProtocolError`` for ``kind`` outside any."""
        if self.current is None:
            raise ProtocolError(kind, None, "it inside a transaction")
        return self.current

    def open_plain(
        self, xid: XID, final_lsn: LSN, commit_time_us: int, wal_start: int
    ) -> TransactionOpened:
        """Open the transaction of a decoded Begin; the caller has checked that none is open."""
        transaction = OpenTransaction(xid, "plain", final_lsn, commit_time_us)
        if wal_start:
            transaction.first_lsn = LSN(wal_start)
        self.current = transaction
        return _new(TransactionOpened, (transaction,))

    def close_plain(
        self, transaction: OpenTransaction, commit_lsn: LSN, end_lsn: LSN, commit_time_us: int
    ) -> TransactionCommitted:
        """Close ``transaction``, which is plain and current, with the fields of its Commit."""
        if commit_lsn != transaction.final_lsn:
            raise ProtocolError("Commit", 2, f"LSN {transaction.final_lsn}, as in its Begin")
        if end_lsn <= commit_lsn:
            raise ProtocolError("Commit", 10, f"an end after LSN {commit_lsn}")
        self.current = None
        return _new(TransactionCommitted, (transaction, commit_lsn, end_lsn, commit_time_us))

    def _open(self, transaction: OpenTransaction, wal_start: int) -> TransactionOpened:
        if wal_start:
            transaction.first_lsn = LSN(wal_start)
        self.current = transaction
        return TransactionOpened(transaction)

    def _outside(self, kind: str) -> None:
        if self.current is not None:
            raise ProtocolError(kind, None, f"it outside transaction {self.current.xid}")

    def _ending(self, kind: str, begun_as: str) -> OpenTransaction:
        transaction = self.transaction(kind)
        if transaction.kind != begun_as:
            raise ProtocolError(kind, None, f"the end of a {transaction.kind} transaction")
        return transaction

    def _streamed(self, kind: str, xid: XID) -> OpenTransaction:
        self._outside(kind)
        transaction = self.streams.pop(xid, None)
        if transaction is None:
            raise ProtocolError(kind, None, f"a StreamStart of transaction {xid} before it")
        return transaction

    def _begin(self, message: b.Begin, wal_start: int) -> Event:
        self._outside("Begin")
        return self.open_plain(message.xid, message.final_lsn, message.commit_time_us, wal_start)

    def _commit(self, message: b.Commit, wal_start: int) -> Event:
        transaction = self._ending("Commit", "plain")
        return self.close_plain(
            transaction, message.commit_lsn, message.end_lsn, message.commit_time_us
        )

    def _origin(self, message: b.Origin, wal_start: int) -> None:
        transaction = self.transaction("Origin")
        transaction.origin = message.name
        # The server sends 0/0 in a stream, where the position is not known yet.
        transaction.origin_lsn = message.origin_lsn or None

    def _begin_prepare(self, message: b.BeginPrepare, wal_start: int) -> Event:
        self._outside("BeginPrepare")
        transaction = OpenTransaction(message.xid, "prepared", message.prepare_lsn)
        transaction.gid = message.gid
        transaction.prepare_lsn = message.prepare_lsn
        return self._open(transaction, wal_start)

    def begin_empty(self, message: b.Prepare, wal_start: int) -> Event:
        """Open a prepared transaction for which the server sends only the Prepare message.

        PostgreSQL 18 does this when the transaction has an xid and changed nothing, for example
        after SELECT FOR UPDATE.
        """
        return self._begin_prepare(message, wal_start)

    def _prepare(self, message: b.Prepare, wal_start: int) -> Event:
        transaction = self._ending("Prepare", "prepared")
        begun = (transaction.xid, transaction.gid, transaction.prepare_lsn)
        if begun != (message.xid, message.gid, message.prepare_lsn):
            raise ProtocolError("Prepare", None, "the xid, gid and LSN of its BeginPrepare")
        self.current = None
        return self._prepared(transaction, message)

    def _stream_prepare(self, message: b.StreamPrepare, wal_start: int) -> Event:
        transaction = self._streamed("StreamPrepare", message.xid)
        transaction.gid = message.gid
        transaction.prepare_lsn = message.prepare_lsn
        return self._prepared(transaction, message)

    @staticmethod
    def _prepared(transaction: OpenTransaction, message: b.Prepare | b.StreamPrepare) -> Event:
        return TransactionPrepared(
            transaction, message.gid, message.prepare_lsn, message.end_lsn, message.prepare_time_us
        )

    def _commit_prepared(self, message: b.CommitPrepared, wal_start: int) -> Event:
        self._outside("CommitPrepared")
        # After a reconnect the server may stream again a transaction that it prepared in an earlier
        # session, and does not end that stream.
        self.streams.pop(message.xid, None)
        return PreparedCommitted(
            message.gid, message.xid, message.commit_lsn, message.end_lsn, message.commit_time_us
        )

    def _rollback_prepared(self, message: b.RollbackPrepared, wal_start: int) -> Event:
        self._outside("RollbackPrepared")
        self.streams.pop(message.xid, None)
        return PreparedRolledBack(
            message.gid,
            message.xid,
            message.prepare_end_lsn,
            message.rollback_end_lsn,
            message.prepare_time_us,
            message.rollback_time_us,
        )

    def _stream_start(self, message: b.StreamStart, wal_start: int) -> Event | None:
        self._outside("StreamStart")
        open_stream = self.streams.get(message.xid)
        if message.first_segment == (open_stream is not None):
            # Either the blocks before this one are missing, or they came already.
            expected = "a later" if open_stream else "the first"
            raise ProtocolError("StreamStart", 5, f"{expected} segment of {message.xid}")
        self._session.stream_xid = message.xid
        if open_stream is not None:
            self.current = open_stream
            return None
        transaction = self.streams[message.xid] = OpenTransaction(message.xid, "streamed")
        return self._open(transaction, wal_start)

    def _stream_stop(self, message: b.StreamStop, wal_start: int) -> None:
        self._ending("StreamStop", "streamed")
        self.current = self._session.stream_xid = None

    def _stream_commit(self, message: b.StreamCommit, wal_start: int) -> Event:
        if message.end_lsn <= message.commit_lsn:
            raise ProtocolError("StreamCommit", 14, f"an end after LSN {message.commit_lsn}")
        transaction = self._streamed("StreamCommit", message.xid)
        return TransactionCommitted(
            transaction, message.commit_lsn, message.end_lsn, message.commit_time_us
        )

    def _stream_abort(self, message: b.StreamAbort, wal_start: int) -> Event:
        # The server sends 0/0 where it found no abort record, after a crash.
        lsn = message.abort_lsn or None
        time_us = message.abort_time_us if lsn else None
        if message.xid not in self.streams:
            # PostgreSQL 18 sends these for transactions it never streamed.
            return UnknownAborted(message.xid, message.subxid, lsn, time_us)
        self._outside("StreamAbort")
        if message.subxid != message.xid:
            transaction = self.streams[message.xid]
            return SubtransactionAborted(transaction, message.subxid, lsn, time_us)
        return TransactionAborted(self.streams.pop(message.xid), lsn, time_us)

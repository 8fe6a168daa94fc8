"""The pgoutput messages that begin and end transactions and stream blocks.

Every time is microseconds since 2000-01-01 UTC and may be ±infinity (see
``scalars``). Confirm a transaction's ``end_lsn``: confirming the commit's own
position makes the server send it again.

Source: PostgreSQL documentation, "Logical Replication Message Formats"; proto.c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from decoder.scalars import LSN, XID


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """A committed transaction follows (``B``). Source: ``logicalrep_write_begin()``."""

    #: Where its commit record is.
    final_lsn: LSN
    commit_time_us: int
    xid: XID


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The transaction is complete (``C``). Source: ``logicalrep_write_commit()``."""

    commit_lsn: LSN
    end_lsn: LSN
    commit_time_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The transaction was replicated here from elsewhere (``O``).

    Source: ``logicalrep_write_origin()``.
    """

    #: Its commit position at its origin; 0/0 in a stream, where it is not known yet.
    origin_lsn: LSN
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginPrepare:
    """A prepared transaction follows (``b``). Source: ``logicalrep_write_begin_prepare()``."""

    prepare_lsn: LSN
    end_lsn: LSN
    prepare_time_us: int
    xid: XID
    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """The prepared transaction is complete (``P``). Source: ``logicalrep_write_prepare()``."""

    prepare_lsn: LSN
    end_lsn: LSN
    prepare_time_us: int
    xid: XID
    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPrepared:
    """A prepared transaction committed (``K``). Source: ``logicalrep_write_commit_prepared()``."""

    commit_lsn: LSN
    end_lsn: LSN
    commit_time_us: int
    xid: XID
    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPrepared:
    """A prepared transaction rolled back (``r``).

    Source: ``logicalrep_write_rollback_prepared()``.
    """

    #: The *end* of the PREPARE record, not its start.
    prepare_end_lsn: LSN
    rollback_end_lsn: LSN
    prepare_time_us: int
    rollback_time_us: int
    xid: XID
    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """A block of a transaction still in progress follows (``S``).

    Source: ``logicalrep_write_stream_start()``.
    """

    xid: XID
    #: The first block of this transaction in this session.
    first_segment: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStop:
    """The block is over, the transaction is not (``E``).

    Source: ``logicalrep_write_stream_stop()``.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCommit:
    """A streamed transaction committed (``c``). Source: ``logicalrep_write_stream_commit()``."""

    xid: XID
    commit_lsn: LSN
    end_lsn: LSN
    commit_time_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAbort:
    """A streamed transaction, or one of its subtransactions, rolled back (``A``).

    Source: ``logicalrep_write_stream_abort()``.
    """

    #: The top-level transaction.
    xid: XID
    #: What rolled back; equal to ``xid`` when the whole transaction did.
    subxid: XID
    #: Where in the WAL. Sent only under ``streaming=parallel``.
    abort_lsn: LSN | None = None
    #: Sent with ``abort_lsn``.
    abort_time_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPrepare:
    """A streamed transaction was prepared (``p``).

    Source: ``logicalrep_write_stream_prepare()``.
    """

    prepare_lsn: LSN
    end_lsn: LSN
    prepare_time_us: int
    xid: XID
    gid: str


BoundaryMessage: TypeAlias = (
    Begin
    | Commit
    | Origin
    | BeginPrepare
    | Prepare
    | CommitPrepared
    | RollbackPrepared
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
    | StreamPrepare
)

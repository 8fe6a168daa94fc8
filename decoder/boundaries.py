"""The pgoutput messages that begin and end transactions and stream blocks.

Every time is microseconds since 2000-01-01 UTC and may be ±infinity (see
``scalars``). Confirm a transaction's ``end_lsn``: confirming the commit's own
position makes the server send it again.

Source: PostgreSQL documentation, "Logical Replication Message Formats"; proto.c,
``logicalrep_write_…()`` of each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, TypeVar

from decoder.reader import Reader
from decoder.scalars import LSN, XID


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """A committed transaction follows (``B``)."""

    #: The position of the commit record.
    final_lsn: LSN
    commit_time_us: int
    xid: XID


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The transaction is complete (``C``)."""

    commit_lsn: LSN
    end_lsn: LSN
    commit_time_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The transaction was replicated here from elsewhere (``O``)."""

    #: The commit position on the origin; 0/0 in a stream, where it is not known yet.
    origin_lsn: LSN
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginPrepare:
    """A prepared transaction follows (``b``)."""

    prepare_lsn: LSN
    end_lsn: LSN
    prepare_time_us: int
    xid: XID
    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(BeginPrepare):
    """The prepared transaction is complete (``P``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPrepare(BeginPrepare):
    """A streamed transaction was prepared (``p``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPrepared:
    """A prepared transaction committed (``K``)."""

    commit_lsn: LSN
    end_lsn: LSN
    commit_time_us: int
    xid: XID
    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPrepared:
    """A prepared transaction rolled back (``r``)."""

    #: The *end* of the PREPARE record, not its start.
    prepare_end_lsn: LSN
    rollback_end_lsn: LSN
    prepare_time_us: int
    rollback_time_us: int
    xid: XID
    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """A block of a transaction still in progress follows (``S``)."""

    xid: XID
    #: True for the first block of this transaction in this session.
    first_segment: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStop:
    """The block is over, the transaction is not (``E``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCommit:
    """A streamed transaction committed (``c``)."""

    xid: XID
    commit_lsn: LSN
    end_lsn: LSN
    commit_time_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAbort:
    """A streamed transaction, or one of its subtransactions, rolled back (``A``)."""

    #: The top-level transaction.
    xid: XID
    #: The transaction that rolled back; equal to ``xid`` when the whole transaction did.
    subxid: XID
    #: The position in the WAL. Sent only under ``streaming=parallel``.
    abort_lsn: LSN | None = None
    #: Sent with ``abort_lsn``.
    abort_time_us: int | None = None


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


def decode_begin(read: Reader) -> Begin:
    """Decode the body of a ``B`` message."""
    return Begin(final_lsn=read.lsn(), commit_time_us=read.int64(), xid=read.xid())


def decode_commit(read: Reader) -> Commit:
    """Decode the body of a ``C`` message."""
    read.no_flags()
    return Commit(commit_lsn=read.lsn(), end_lsn=read.lsn(), commit_time_us=read.int64())


AnyPrepare = TypeVar("AnyPrepare", bound=BeginPrepare)


def decode_prepare(kind: type[AnyPrepare], read: Reader) -> AnyPrepare:
    """Decode the body of a ``b``, ``P`` or ``p`` message; only ``b`` has no flags byte."""
    if kind is not BeginPrepare:
        read.no_flags()
    return kind(
        prepare_lsn=read.lsn(),
        end_lsn=read.lsn(),
        prepare_time_us=read.int64(),
        xid=read.xid(),
        gid=read.name("gid"),
    )


def decode_commit_prepared(read: Reader) -> CommitPrepared:
    """Decode the body of a ``K`` message."""
    read.no_flags()
    return CommitPrepared(
        commit_lsn=read.lsn(),
        end_lsn=read.lsn(),
        commit_time_us=read.int64(),
        xid=read.xid(),
        gid=read.name("gid"),
    )


def decode_rollback_prepared(read: Reader) -> RollbackPrepared:
    """Decode the body of an ``r`` message."""
    read.no_flags()
    return RollbackPrepared(
        prepare_end_lsn=read.lsn(),
        rollback_end_lsn=read.lsn(),
        prepare_time_us=read.int64(),
        rollback_time_us=read.int64(),
        xid=read.xid(),
        gid=read.name("gid"),
    )


def decode_stream_start(read: Reader) -> StreamStart:
    """Decode the body of an ``S`` message, whose flag must be 0 or 1."""
    xid = read.xid()
    first_segment = read.uint8("first segment")
    if first_segment > 1:
        raise read.error("first segment 0 or 1", back=1)
    return StreamStart(xid=xid, first_segment=bool(first_segment))


def decode_stream_commit(read: Reader) -> StreamCommit:
    """Decode the body of a ``c`` message."""
    xid = read.xid()
    read.no_flags()
    return StreamCommit(
        xid=xid, commit_lsn=read.lsn(), end_lsn=read.lsn(), commit_time_us=read.int64()
    )


def decode_stream_abort(body: bytes, *, parallel: bool) -> StreamAbort:
    """Decode the body of an ``A`` message, the tag byte already removed.

    ``parallel`` is true when the stream was started with ``streaming=parallel``.
    The message does not contain that, and guessing from its length would accept a
    truncated one.
    """
    read = Reader(body, "StreamAbort")
    message = StreamAbort(
        xid=read.xid(),
        subxid=read.xid(),
        abort_lsn=read.lsn() if parallel else None,
        abort_time_us=read.int64() if parallel else None,
    )
    read.end()
    return message


#: Tag byte → the message's name and its decode function. ``A`` is missing because
#: its decoder needs the options of the stream.
BOUNDARY_DECODERS: Final[dict[bytes, tuple[str, Callable[[Reader], BoundaryMessage]]]] = {
    b"B": ("Begin", decode_begin),
    b"C": ("Commit", decode_commit),
    b"O": ("Origin", lambda read: Origin(origin_lsn=read.lsn(), name=read.name("origin"))),
    b"b": ("BeginPrepare", partial(decode_prepare, BeginPrepare)),
    b"P": ("Prepare", partial(decode_prepare, Prepare)),
    b"K": ("CommitPrepared", decode_commit_prepared),
    b"r": ("RollbackPrepared", decode_rollback_prepared),
    b"S": ("StreamStart", decode_stream_start),
    b"E": ("StreamStop", lambda read: StreamStop()),
    b"c": ("StreamCommit", decode_stream_commit),
    b"p": ("StreamPrepare", partial(decode_prepare, StreamPrepare)),
}

"""Decode functions for the messages that begin and end transactions and stream blocks.

Source: PostgreSQL, proto.c, the ``logicalrep_write_…`` function of each message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from decoder.boundaries import (
    Begin,
    BeginPrepare,
    BoundaryMessage,
    Commit,
    CommitPrepared,
    Origin,
    Prepare,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
)
from decoder.reader import Reader


def decode_begin(read: Reader) -> Begin:
    return Begin(final_lsn=read.lsn(), commit_time_us=read.int64(), xid=read.xid())


def decode_commit(read: Reader) -> Commit:
    read.no_flags()
    return Commit(commit_lsn=read.lsn(), end_lsn=read.lsn(), commit_time_us=read.int64())


def decode_origin(read: Reader) -> Origin:
    return Origin(origin_lsn=read.lsn(), name=read.name("origin"))


def decode_begin_prepare(read: Reader) -> BeginPrepare:
    return BeginPrepare(
        prepare_lsn=read.lsn(),
        end_lsn=read.lsn(),
        prepare_time_us=read.int64(),
        xid=read.xid(),
        gid=read.name("gid"),
    )


def decode_prepare(read: Reader) -> Prepare:
    read.no_flags()
    return Prepare(
        prepare_lsn=read.lsn(),
        end_lsn=read.lsn(),
        prepare_time_us=read.int64(),
        xid=read.xid(),
        gid=read.name("gid"),
    )


def decode_commit_prepared(read: Reader) -> CommitPrepared:
    read.no_flags()
    return CommitPrepared(
        commit_lsn=read.lsn(),
        end_lsn=read.lsn(),
        commit_time_us=read.int64(),
        xid=read.xid(),
        gid=read.name("gid"),
    )


def decode_rollback_prepared(read: Reader) -> RollbackPrepared:
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
    xid = read.xid()
    first_segment = read.uint8("first segment")
    if first_segment > 1:
        raise read.error("first segment 0 or 1", back=1)
    return StreamStart(xid=xid, first_segment=bool(first_segment))


def decode_stream_stop(read: Reader) -> StreamStop:
    return StreamStop()


def decode_stream_commit(read: Reader) -> StreamCommit:
    xid = read.xid()
    read.no_flags()
    return StreamCommit(
        xid=xid, commit_lsn=read.lsn(), end_lsn=read.lsn(), commit_time_us=read.int64()
    )


def decode_stream_abort(body: bytes, *, parallel: bool) -> StreamAbort:
    """Decode the body of an ``A`` message, the tag byte already removed.

    ``parallel`` says whether the stream was started with ``streaming=parallel``.
    The message does not say, and guessing from its length would accept a
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


def decode_stream_prepare(read: Reader) -> StreamPrepare:
    read.no_flags()
    return StreamPrepare(
        prepare_lsn=read.lsn(),
        end_lsn=read.lsn(),
        prepare_time_us=read.int64(),
        xid=read.xid(),
        gid=read.name("gid"),
    )


#: Tag byte → the message's name and its decode function. ``A`` needs to know
#: the stream's options and is not here.
BOUNDARY_DECODERS: Final[dict[bytes, tuple[str, Callable[[Reader], BoundaryMessage]]]] = {
    b"B": ("Begin", decode_begin),
    b"C": ("Commit", decode_commit),
    b"O": ("Origin", decode_origin),
    b"b": ("BeginPrepare", decode_begin_prepare),
    b"P": ("Prepare", decode_prepare),
    b"K": ("CommitPrepared", decode_commit_prepared),
    b"r": ("RollbackPrepared", decode_rollback_prepared),
    b"S": ("StreamStart", decode_stream_start),
    b"E": ("StreamStop", decode_stream_stop),
    b"c": ("StreamCommit", decode_stream_commit),
    b"p": ("StreamPrepare", decode_stream_prepare),
}

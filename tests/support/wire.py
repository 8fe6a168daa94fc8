"""Builds frames as a server would, for tests that need bytes no capture has."""

from __future__ import annotations

import struct
from collections.abc import Sequence

RELATION_OID = 16384
XID = 727
_XLOGDATA = struct.Struct(">cQQq")


def xlogdata_frame(lsn: int, payload: bytes) -> bytes:
    """A pgoutput message as the frame in which a stream sends it, without a clock."""
    return _XLOGDATA.pack(b"w", lsn, lsn, 0) + payload


def begin(lsn: int = 0x100, xid: int = XID) -> bytes:
    return xlogdata_frame(lsn, struct.pack(">cQqI", b"B", lsn, 0, xid))


def commit(lsn: int = 0x100) -> bytes:
    return xlogdata_frame(lsn + 8, struct.pack(">cBQQq", b"C", 0, lsn, lsn + 8, 0))


def stream_start(xid: int = XID, *, first: bool = True) -> bytes:
    return xlogdata_frame(0, struct.pack(">cI?", b"S", xid, first))


def stream_stop() -> bytes:
    return xlogdata_frame(0, b"E")


def relation(
    columns: int, *, oid: int = RELATION_OID, keys: int = 1, xid: int | None = None
) -> bytes:
    """``public.t`` with columns of type text, the first ``keys`` of which are its key."""
    body = struct.pack(">I", oid) + b"public\0t\0d" + struct.pack(">H", columns)
    for number in range(columns):
        body += struct.pack(">?", number < keys) + b"c%d\0" % number
        body += struct.pack(">Ii", 25, -1)
    return xlogdata_frame(0, b"R" + prefix(xid) + body)


def prefix(xid: int | None) -> bytes:
    return b"" if xid is None else struct.pack(">I", xid)


def column(value: bytes | str | None) -> bytes:
    """Bytes are a text value; a ``str`` of one letter is the kind alone; ``None`` is NULL."""
    if isinstance(value, bytes):
        return b"t" + struct.pack(">I", len(value)) + value
    return b"n" if value is None else value.encode()


def row(values: Sequence[bytes | str | None]) -> bytes:
    return struct.pack(">H", len(values)) + b"".join(map(column, values))


def change(
    tag: bytes, *tuples: bytes, lsn: int = 0x50, oid: int = RELATION_OID, xid: int | None = None
) -> bytes:
    """An I, U or D: each of ``tuples`` with its letter."""
    payload = tag + prefix(xid) + struct.pack(">I", oid) + b"".join(tuples)
    return xlogdata_frame(lsn, payload)


def insert(
    values: Sequence[bytes | str | None], *, lsn: int = 0x50, xid: int | None = None
) -> bytes:
    return change(b"I", b"N" + row(values), lsn=lsn, xid=xid)

"""This module maps each tag byte to its decode function, for pgoutput protocol 1 to 4.

Each function takes a body, the tag byte already removed, and reads it to its
last byte. This is the readable decoder; ``fast.hot`` does the same for the row
changes, which are nearly all messages of a stream.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from decoder.boundaries import BOUNDARY_DECODERS, BoundaryMessage, decode_stream_abort
from decoder.messages import (
    Column,
    Delete,
    Insert,
    LogicalMessage,
    OldKind,
    RelationMessage,
    ReplicaIdentity,
    Truncate,
    TupleData,
    Type,
    Update,
    decode_tuple,
)
from decoder.reader import ProtocolError, Reader
from decoder.scalars import XID

RowMessage: TypeAlias = (
    RelationMessage | Type | Insert | Update | Delete | Truncate | LogicalMessage
)
Message: TypeAlias = RowMessage | BoundaryMessage

_REPLICA_IDENTITIES: Final[dict[int, ReplicaIdentity]] = {
    ord("d"): "DEFAULT",
    ord("n"): "NOTHING",
    ord("f"): "FULL",
    ord("i"): "INDEX",
}
_IS_KEY: Final = 1
_TRANSACTIONAL: Final = 1
_CASCADE: Final = 1
_RESTART_IDENTITY: Final = 2
#: PostgreSQL's MaxHeapAttributeNumber.
_MAX_COLUMNS: Final = 1600


def decode_message(
    payload: bytes, *, in_stream: bool = False, parallel: bool = False, encoding: str = "utf-8"
) -> Message:
    """Decode one pgoutput message, tag byte first.

    ``in_stream``: the message came between StreamStart and StreamStop, so it carries a
    transaction id. ``parallel``: the stream was started with
    ``streaming=parallel``. The message itself contains neither. ``encoding`` is
    the encoding of names.

    Raises ``ProtocolError`` if it is malformed, or has bytes left over.
    """
    if not payload:
        raise ProtocolError("Message", 0, "a tag byte")
    tag, body = payload[:1], payload[1:]
    if tag == b"A":
        return decode_stream_abort(body, parallel=parallel)
    boundary = BOUNDARY_DECODERS.get(tag)
    if boundary is not None:
        kind, decode_boundary = boundary
        read = Reader(body, kind, encoding=encoding)
        boundary_message = decode_boundary(read)
        read.end()
        return boundary_message
    row = _ROW_DECODERS.get(tag)
    if row is None:
        raise ProtocolError("Message", 0, f"a pgoutput tag byte, not {tag!r}")
    kind, decode_row = row
    read = Reader(body, kind, encoding=encoding)
    message = decode_row(read, read.xid() if in_stream else None)
    read.end()
    return message


def decode_relation(read: Reader, xid: XID | None) -> RelationMessage:
    """Decode the body of an ``R`` message, whose columns must have different names."""
    oid = read.uint32("relation oid")
    namespace = read.identifier("schema") or "pg_catalog"
    name = read.identifier("table")
    identity = _REPLICA_IDENTITIES.get(read.uint8("replica identity"))
    if identity is None:
        raise read.error("replica identity d, n, f or i", back=1)
    count = read.uint16("column count")
    if count > _MAX_COLUMNS:
        raise read.error(f"at most {_MAX_COLUMNS} columns, not {count}", back=2)
    columns = tuple(_decode_column(read) for _ in range(count))
    if len({column.name for column in columns}) < count:
        raise read.error("columns of different names")
    return RelationMessage(
        oid=oid, namespace=namespace, name=name, replica_identity=identity, columns=columns, xid=xid
    )


def _decode_column(read: Reader) -> Column:
    flags = read.uint8("column flags")
    return Column(
        name=read.identifier("column"),
        type_oid=read.uint32("type oid"),
        typmod=read.int32("type modifier"),
        is_key=bool(flags & _IS_KEY),
    )


def decode_type(read: Reader, xid: XID | None) -> Type:
    """Decode the body of a ``Y`` message."""
    return Type(
        oid=read.uint32("type oid"),
        namespace=read.identifier("schema") or "pg_catalog",
        name=read.identifier("type"),
        xid=xid,
    )


def decode_insert(read: Reader, xid: XID | None) -> Insert:
    """Decode the body of an ``I`` message."""
    oid = read.uint32("relation oid")
    _expect_new(read)
    return Insert(relation_oid=oid, new=decode_tuple(read), xid=xid)


def decode_update(read: Reader, xid: XID | None) -> Update:
    """Decode the body of a ``U`` message, with or without an old tuple."""
    oid = read.uint32("relation oid")
    old_kind: OldKind | None = None
    old: TupleData | None = None
    tag = read.uint8("tuple kind")
    if tag in (ord("K"), ord("O")):
        old_kind = "K" if tag == ord("K") else "O"
        old = decode_tuple(read)
        _expect_new(read)
    elif tag != ord("N"):
        raise read.error("tuple kind K, O or N", back=1)
    return Update(relation_oid=oid, old_kind=old_kind, old=old, new=decode_tuple(read), xid=xid)


def decode_delete(read: Reader, xid: XID | None) -> Delete:
    """Decode the body of a ``D`` message."""
    oid = read.uint32("relation oid")
    tag = read.uint8("tuple kind")
    if tag not in (ord("K"), ord("O")):
        raise read.error("tuple kind K or O", back=1)
    old_kind: OldKind = "K" if tag == ord("K") else "O"
    return Delete(relation_oid=oid, old_kind=old_kind, old=decode_tuple(read), xid=xid)


def _expect_new(read: Reader) -> None:
    if read.uint8("tuple kind") != ord("N"):
        raise read.error("tuple kind N", back=1)


def decode_truncate(read: Reader, xid: XID | None) -> Truncate:
    """Decode the body of a ``T`` message."""
    count = read.uint32("relation count")
    flags = read.uint8("flags")
    return Truncate(
        relation_oids=tuple(read.uint32("relation oid") for _ in range(count)),
        cascade=bool(flags & _CASCADE),
        restart_identity=bool(flags & _RESTART_IDENTITY),
        xid=xid,
    )


def decode_logical_message(read: Reader, xid: XID | None) -> LogicalMessage:
    """Decode the body of an ``M`` message."""
    flags = read.uint8("flags")
    return LogicalMessage(
        transactional=bool(flags & _TRANSACTIONAL),
        lsn=read.lsn(),
        prefix=read.name("prefix"),
        content=read.take(read.uint32("content length"), "content"),
        xid=xid,
    )


_ROW_DECODERS: Final[dict[bytes, tuple[str, Callable[[Reader, XID | None], RowMessage]]]] = {
    b"R": ("RelationMessage", decode_relation),
    b"Y": ("Type", decode_type),
    b"I": ("Insert", decode_insert),
    b"U": ("Update", decode_update),
    b"D": ("Delete", decode_delete),
    b"T": ("Truncate", decode_truncate),
    b"M": ("LogicalMessage", decode_logical_message),
}

"""The pgoutput messages that describe and change rows, and the values a column may have.

``boundaries`` holds the messages that begin and end transactions. ``xid`` is the
subtransaction's and is sent only inside a stream block; elsewhere it is ``None``.

Source: PostgreSQL documentation, "Logical Replication Message Formats"; proto.c,
``logicalrep_write_…()`` of each.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias

from decoder.reader import Reader
from decoder.scalars import LSN, XID

NULL: Final = ord("n")
UNCHANGED_TOAST: Final = ord("u")
TEXT: Final = ord("t")
BINARY: Final = ord("b")


class NoValue(Enum):
    """The reason why a column has no value, where the reason is not SQL NULL."""

    #: An update did not change a TOASTed value, so the server did not send it.
    UNCHANGED = "unchanged"
    #: The tuple is a key, and the column is not part of it.
    NOT_SENT = "not sent"

    def __repr__(self) -> str:
        return self.name


UNCHANGED: Final = NoValue.UNCHANGED
NOT_SENT: Final = NoValue.NOT_SENT


@dataclass(frozen=True, slots=True)
class Undecoded:
    """A value kept as the server's bytes, because they cannot be read as text.

    ``format`` is ``binary`` where ``decoder.binary`` does not know the type, and ``text``
    where the bytes are not valid in the stream's encoding.
    """

    raw: bytes
    format: Literal["binary", "text"]
    type_oid: int


#: A column's value: the server's exact text, ``None`` for SQL NULL, or a reason for no value.
Value: TypeAlias = str | NoValue | Undecoded | None


@dataclass(frozen=True, slots=True)
class TupleData:
    """The columns of a row as sent. Source: proto.c, ``logicalrep_write_tuple()``."""

    #: A byte for each column: ``n`` null, ``u`` unchanged TOAST, ``t`` text, ``b`` binary.
    kinds: bytes
    #: The bytes of each column; ``None`` for ``n`` and ``u``.
    data: tuple[bytes | None, ...]


def decode_tuple(read: Reader) -> TupleData:
    """Decode the TupleData at the cursor: a column count, then each column."""
    kinds = bytearray()
    data: list[bytes | None] = []
    for _ in range(read.uint16("column count")):
        kind = read.uint8("column kind")
        if kind in (TEXT, BINARY):
            data.append(read.take(read.uint32("value length"), "value"))
        elif kind in (NULL, UNCHANGED_TOAST):
            data.append(None)
        else:
            raise read.error("a column of kind n, u, t or b", back=1)
        kinds.append(kind)
    return TupleData(bytes(kinds), tuple(data))


ReplicaIdentity = Literal["DEFAULT", "NOTHING", "FULL", "INDEX"]
#: ``K``: an old tuple holds the replica identity's columns. ``O``: it holds the whole row.
OldKind = Literal["K", "O"]


@dataclass(frozen=True, slots=True)
class Column:
    """A published column of a relation."""

    name: str
    #: ``pg_type.oid``; a domain has its own. 0 when not sent.
    type_oid: int
    #: ``pg_attribute.atttypmod``; -1 means none, or not sent.
    typmod: int
    #: True when the column is part of the replica identity. Under FULL every column is; under
    #: NOTHING, or DEFAULT without a primary key, none is.
    is_key: bool
    #: The type's name, such as ``character varying(40)``, from an output plugin that sends no
    #: oid or typmod. pgoutput does not send it.
    type_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationMessage:
    """The shape of a table, in force for the changes that follow (``R``).

    Two relations are equal when their shapes are: ``xid`` does not count. The server sends
    the same shape repeatedly, so a new message is not a new shape.
    """

    #: ``pg_class.oid``; 0 where the output plugin does not send it.
    oid: int
    #: The schema. The server sends ``pg_catalog`` as an empty string; here it
    #: is spelled out.
    namespace: str
    name: str
    #: ``None`` where the output plugin does not send it; pgoutput always does.
    replica_identity: ReplicaIdentity | None
    #: Published columns only, in column order.
    columns: tuple[Column, ...]
    xid: XID | None = field(default=None, compare=False)
    #: The columns' names, in column order.
    names: tuple[str, ...] = field(init=False, compare=False, repr=False)
    #: The positions of the replica identity's columns.
    key_indexes: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        keys = tuple(index for index, column in enumerate(self.columns) if column.is_key)
        object.__setattr__(self, "names", tuple(column.name for column in self.columns))
        object.__setattr__(self, "key_indexes", keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A type that is not built in (``Y``). A domain is sent under its *base* type's name."""

    oid: int
    #: The schema; ``pg_catalog`` is spelled out, as in ``RelationMessage``.
    namespace: str
    #: An array type is named after its element type, with an underscore before it.
    name: str
    xid: XID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """A row appeared (``I``)."""

    relation_oid: int
    new: TupleData
    xid: XID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A row changed (``U``)."""

    relation_oid: int
    #: ``None`` when no old tuple was sent because the key did not change.
    old_kind: OldKind | None
    old: TupleData | None
    new: TupleData
    xid: XID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A row vanished (``D``)."""

    relation_oid: int
    old_kind: OldKind
    old: TupleData
    xid: XID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Tables were emptied by one TRUNCATE (``T``)."""

    relation_oids: tuple[int, ...]
    cascade: bool
    restart_identity: bool
    xid: XID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalMessage:
    """A message that a session wrote with ``pg_logical_emit_message()`` (``M``)."""

    #: A message that is not transactional is sent at once, ahead of its
    #: transaction, and survives its rollback.
    transactional: bool
    lsn: LSN
    prefix: str
    #: Raw bytes in the encoding of the database, not of the session.
    content: bytes
    #: The *top-level* transaction, even when the message was written inside a savepoint.
    xid: XID | None = None

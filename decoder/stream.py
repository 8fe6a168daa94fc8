"""What a replication session remembers between messages, to understand the next."""

from __future__ import annotations

from typing import Literal, TypeAlias

from decoder.decode import Message, decode_message
from decoder.errors import ProtocolError
from decoder.messages import Relation, Type
from decoder.scalars import XID

Streaming: TypeAlias = Literal["off", "on", "parallel"]

_STREAMING_NEEDS_PROTOCOL: dict[str, int] = {"off": 1, "on": 2, "parallel": 4}


class SessionState:
    """The options of one session, the stream block it is in, and its caches.

    Valid for one START_REPLICATION (or one peek): a new session sends every
    Relation and Type anew.
    """

    __slots__ = ("encoding", "parallel", "relations", "stream_xid", "types")

    def __init__(self, *, proto_version: int, streaming: Streaming, encoding: str) -> None:
        """Raises ``ValueError`` for options that no server accepts together."""
        if not 1 <= proto_version <= 4:
            raise ValueError(f"proto_version must be 1 to 4, not {proto_version}")
        needed = _STREAMING_NEEDS_PROTOCOL.get(streaming)
        if needed is None or proto_version < needed:
            raise ValueError(f"streaming={streaming!r} does not go with protocol {proto_version}")
        self.parallel = streaming == "parallel"
        self.encoding = encoding
        #: The top-level transaction whose stream block is open.
        self.stream_xid: XID | None = None
        #: By oid; the latest arrival is in force, even one from a stream that aborted.
        self.relations: dict[int, Relation] = {}
        #: By oid.
        self.types: dict[int, Type] = {}

    def decode(self, payload: bytes) -> Message:
        """Decode one message as it reads at this point of the session.

        Raises ``ProtocolError``. Changes nothing.
        """
        return decode_message(
            payload,
            in_stream=self.stream_xid is not None,
            parallel=self.parallel,
            encoding=self.encoding,
        )

    def relation(self, oid: int, kind: str) -> Relation:
        """The relation in force for ``oid``. Raises ``ProtocolError`` if it was never sent."""
        relation = self.relations.get(oid)
        if relation is None:
            raise ProtocolError(kind, None, f"a Relation message for oid {oid} before it")
        return relation

    def learn_relation(self, relation: Relation) -> tuple[Relation, bool]:
        """Put a relation in force: the one to use from here on, and whether it is new.

        A repeated shape keeps the object already in use.
        """
        known = self.relations.get(relation.oid)
        if known == relation and known is not None:
            return known, False
        self.relations[relation.oid] = relation
        return relation, True

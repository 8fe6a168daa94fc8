"""What a session must ask of the source's catalog, because no stream tells it."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo as libpq

from decoder.binary import UserType
from decoder.messages import Column, Relation
from decoder.scalars import LSN
from replview.catalog.columns import (
    FIRST_MADE_OID,
    format_types,
    read_user_types,
    type_bases,
)
from replview.catalog.connections import CONNECT_TIMEOUT_SECONDS, connect, cut_after
from replview.catalog.publications import read_publications
from replview.catalog.server import ServerFacts, read_position, read_server_facts
from replview.catalog.slots import SlotFacts, read_slots
from replview.catalog.stream_shape import (
    AlteredTables,
    ColumnsMade,
    altered_tables,
    columns_made,
    is_later,
)
from replview.catalog.tables import PRIMARY_KEY, NamedTable, read_named_table
from replview.receiver.connecting import given_up_after

Answer = TypeVar("Answer")
#: Of built-in types with their modifiers, whose names are asked for once.
_MOST_TYPES = 10_000
#: A source that takes longer for one question has frozen.
_ANSWER_SECONDS = 20.0
#: The same of its position, for which a batch waits: tried twice and connected anew in between, it
#: takes less than the time after which a lease is lost.
_POSITION_SECONDS = 1.5
_POSITION_CONNECT_SECONDS = 2


class SourceCatalog:
    """An ordinary connection to the source, opened when first asked, for what no stream tells."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = libpq.make_conninfo(conninfo, **given_up_after(conninfo))
        self._connection: psycopg.Connection[Any] | None = None
        #: Names of types that stay what they are: most tables have no others.
        self._built_in: dict[tuple[int, int], str] = {}

    def connection(
        self, connect_timeout_seconds: int = CONNECT_TIMEOUT_SECONDS
    ) -> psycopg.Connection[Any]:
        """Return the connection; it is opened when first asked for, and again where it was lost.
        Raises ``psycopg.Error``.
        """
        if self._connection is None or self._connection.closed:
            self._connection = connect(
                self._conninfo, connect_timeout_seconds=connect_timeout_seconds
            )
        return self._connection

    def facts(self, slot_name: str) -> tuple[ServerFacts, SlotFacts | None]:
        """Return what is known of the server, and of the slot of this name; None where there is no
        such slot. Raises ``psycopg.Error``.
        """
        connection = self.connection()
        with cut_after(_ANSWER_SECONDS, connection):
            slots = [facts for facts in read_slots(connection) if facts.slot_name == slot_name]
            return read_server_facts(connection), slots[0] if slots else None

    def primary_key(self, relation_oid: int, xid: int | None) -> Sequence[str] | None:
        """The table's primary key now; None where the catalog cannot be asked. One that was made
        later than its table, by a transaction that began after this one, is none: what it was here
        nobody knows any more.
        """
        found = self._ask(lambda connection: PRIMARY_KEY.rows(connection, relation_oid))
        if found and xid is not None and found[0]["xid"] != found[0]["created"]:
            made, following = found[0]["xid"], found[0]["following"]
            return [] if is_later(made, xid, following=following) else [r["name"] for r in found]
        return None if found is None else [row["name"] for row in found]

    def columns_made(self, relation_oid: int, by: int | None) -> ColumnsMade | None:
        """As ``catalog.stream_shape`` has it; None where the catalog cannot be asked."""
        return self._ask(lambda connection: columns_made(connection, relation_oid, by))

    def altered_tables(
        self, oids: Collection[int], marks: Mapping[int, str]
    ) -> AlteredTables | None:
        """Return what ``catalog.stream_shape.altered_tables`` does; None where the catalog cannot
        be read.
        """
        return self._ask(lambda connection: altered_tables(connection, oids, marks))

    def named_table(self, schema: str, table: str) -> NamedTable | None:
        """The table of this name now. Raises ``psycopg.Error`` where nobody can say."""
        try:
            return read_named_table(self.connection(), schema, table)
        except psycopg.OperationalError:
            return read_named_table(self.connection(), schema, table)

    def type_names(self, wanted: Sequence[tuple[int, int]]) -> Mapping[tuple[int, int], str]:
        """Types as SQL writes them; empty where the catalog cannot be asked."""
        known = self._built_in
        if asked := [pair for pair in wanted if pair not in known]:
            found = self._ask(lambda connection: format_types(connection, asked)) or {}
            if len(known) > _MOST_TYPES:
                known = self._built_in = {}
            known |= {pair: name for pair, name in found.items() if pair[0] < FIRST_MADE_OID}
        else:
            found = {}
        return {pair: known[pair] for pair in wanted if pair in known} | found

    def type_bases(self, oids: Sequence[int]) -> Mapping[int, dict[str, Any]]:
        """What types that are not built in are over; empty where the catalog cannot be asked."""
        if all(oid < FIRST_MADE_OID for oid in oids):
            return {}
        return self._ask(lambda connection: type_bases(connection, oids)) or {}

    def published_tables(self, publications: Sequence[str]) -> int | None:
        """How many tables these publish; None where the catalog cannot be asked."""

        def count(connection: psycopg.Connection[Any]) -> int:
            found = [p for p in read_publications(connection) if p.name in publications]
            return len({(table.schema, table.name) for p in found for table in p.tables})

        return self._ask(count)

    def position(self) -> LSN | None:
        """How far the server's WAL goes; None where the catalog does not tell in about 5 s."""
        return self._ask(read_position, _POSITION_SECONDS, _POSITION_CONNECT_SECONDS)

    def _ask(
        self,
        question: Callable[[psycopg.Connection[Any]], Answer],
        seconds: float = _ANSWER_SECONDS,
        connect_timeout_seconds: int = CONNECT_TIMEOUT_SECONDS,
    ) -> Answer | None:
        """Ask once more if the connection was lost: idle for long, it may have been for long."""
        for _ in range(2):
            with suppress(psycopg.Error):
                connection = self.connection(connect_timeout_seconds)
                with cut_after(seconds, connection):
                    return question(connection)
            if self._connection is not None and not self._connection.closed:
                break
        return None

    def user_types(self) -> dict[int, UserType]:
        rows = read_user_types(self.connection())
        return {row.oid: UserType(row.kind, row.over_oid) for row in rows}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


#: Asks the catalog; raises ``psycopg.Error`` where it cannot be asked.
TableReader = Callable[[str, str], NamedTable | None]


class NamedTables:
    """The tables of one session that are known by name alone, asked for once for each shape.

    A plugin that writes text tells of a table only its name, and of a type only how it is written.
    The catalog may have gone on since; what it does not have any more stays unknown.
    """

    def __init__(self, read: TableReader) -> None:
        self._read = read
        self._tables: dict[tuple[str, str], NamedTable | None] = {}

    def columns_of(self, schema: str, table: str) -> Sequence[Column] | None:
        """A table's columns now, as ``decoder.plugins.shapes.ColumnsOf`` wants them."""
        self._tables[schema, table] = found = self._read(schema, table)
        if found is None:
            return None
        return [Column(c.name, c.type_oid, c.typmod, c.is_key, c.type_name) for c in found.columns]

    def learn(self, relation: Relation) -> None:
        """Ask for the table of a shape that is new; the writer asks nothing."""
        if relation.oid == 0:
            name = relation.namespace, relation.name
            self._tables[name] = self._read(*name)

    def oid_of(self, relation: Relation) -> int:
        """The table's oid; for one that is gone a negative number, always the same for a name."""
        if relation.oid:
            return relation.oid
        found = self._tables.get((relation.namespace, relation.name))
        if found is not None:
            return found.oid
        name = f"{relation.namespace}\0{relation.name}".encode()
        return -1 - int.from_bytes(hashlib.sha256(name).digest()[:4], "big")

    def column_of(self, relation: Relation, column: Column) -> Column:
        """The column with its type's oid, where the catalog has one that reads alike."""
        found = self._tables.get((relation.namespace, relation.name))
        if column.type_name is None or found is None:
            return column
        like = column.name, column.type_name.split("(")[0]
        for known in found.columns:
            if (known.name, known.type_name.split("(")[0]) == like:
                return Column(
                    column.name, known.type_oid, known.typmod, column.is_key, known.type_name
                )
        return column

    def primary_key(self, relation: Relation) -> Sequence[str]:
        """The table's primary key now, in the order of its columns in the table."""
        found = self._tables.get((relation.namespace, relation.name))
        return [] if found is None else [column.name for column in found.columns if column.is_key]

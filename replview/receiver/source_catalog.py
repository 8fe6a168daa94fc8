"""A session asks the source's catalog for facts that the stream does not contain."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo as libpq

from decoder.binary import UserType
from decoder.messages import Column, RelationMessage
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
#: Number of built-in types (with modifiers) whose names are cached.
_MAX_TYPES = 10_000
#: Seconds after which a query to the source's catalog is cancelled.
_ANSWER_SECONDS = 20.0
#: Seconds for the query of the server's position, which a batch waits for: two attempts with a new
#: connection in between take less than the time after which a lease expires.
_POSITION_SECONDS = 1.5
_POSITION_CONNECT_SECONDS = 2
#: Reads a table by schema and name; raises ``psycopg.Error`` where the catalog cannot be queried.
TableReader = Callable[[str, str], NamedTable | None]


class SourceCatalog:
    """An ordinary connection to the source's catalog, opened at the first query."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = libpq.make_conninfo(conninfo, **given_up_after(conninfo))
        self._connection: psycopg.Connection[Any] | None = None
        #: Names of built-in types, which never change: most tables have no others.
        self._built_in: dict[tuple[int, int], str] = {}

    def connection(
        self, connect_timeout_seconds: int = CONNECT_TIMEOUT_SECONDS
    ) -> psycopg.Connection[Any]:
        """Return the connection, opened anew if it was lost. Raises ``psycopg.Error``."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(
                self._conninfo, connect_timeout_seconds=connect_timeout_seconds
            )
        return self._connection

    def facts(self, slot_name: str) -> tuple[ServerFacts, SlotFacts | None]:
        """Return the facts of the server, and of the slot. Raises ``psycopg.Error``.

        The slot's facts are None if the server has no slot of this name.
        """
        connection = self.connection()
        with cut_after(_ANSWER_SECONDS, connection):
            slots = [facts for facts in read_slots(connection) if facts.slot_name == slot_name]
            return read_server_facts(connection), slots[0] if slots else None

    def primary_key(self, relation_oid: int, xid: int | None) -> Sequence[str] | None:
        """Return the table's current primary key; None where the catalog cannot be queried.

        It is empty if the key was added after the table was created, by a transaction that began
        after ``xid``: which key the table had at ``xid`` is then unknown.
        """
        rows = self._ask(lambda connection: PRIMARY_KEY.rows(connection, relation_oid))
        if rows and xid is not None and rows[0]["xid"] != rows[0]["created"]:
            added_xid, following = rows[0]["xid"], rows[0]["following"]
            return (
                [] if is_later(added_xid, xid, following=following) else [r["name"] for r in rows]
            )
        return None if rows is None else [r["name"] for r in rows]

    def columns_made(self, relation_oid: int, by: int | None) -> ColumnsMade | None:
        """Return how the table's columns were made; None where the catalog cannot be queried."""
        return self._ask(lambda connection: columns_made(connection, relation_oid, by))

    def altered_tables(
        self, oids: Collection[int], marks: Mapping[int, str]
    ) -> AlteredTables | None:
        """Return ``catalog.stream_shape.altered_tables``; None where the catalog cannot be read."""
        return self._ask(lambda connection: altered_tables(connection, oids, marks))

    def named_table(self, schema: str, table: str) -> NamedTable | None:
        """Return the table that has this name now. Raises ``psycopg.Error``."""
        try:
            return read_named_table(self.connection(), schema, table)
        except psycopg.OperationalError:
            return read_named_table(self.connection(), schema, table)

    def type_names(self, wanted: Sequence[tuple[int, int]]) -> Mapping[tuple[int, int], str]:
        """Return the names of types in SQL; empty where the catalog cannot be queried."""
        built_in = self._built_in
        if missing := [pair for pair in wanted if pair not in built_in]:
            names = self._ask(lambda connection: format_types(connection, missing)) or {}
            if len(built_in) > _MAX_TYPES:
                built_in = self._built_in = {}
            built_in |= {pair: name for pair, name in names.items() if pair[0] < FIRST_MADE_OID}
        else:
            names = {}
        return {pair: built_in[pair] for pair in wanted if pair in built_in} | names

    def type_bases(self, oids: Sequence[int]) -> Mapping[int, dict[str, Any]]:
        """Return the base types of types that are not built in; empty where the query fails."""
        if all(oid < FIRST_MADE_OID for oid in oids):
            return {}
        return self._ask(lambda connection: type_bases(connection, oids)) or {}

    def published_tables(self, publications: Sequence[str]) -> int | None:
        """Return how many tables are published; None where the catalog cannot be queried."""

        def count(connection: psycopg.Connection[Any]) -> int:
            chosen = [p for p in read_publications(connection) if p.name in publications]
            return len({(table.schema, table.name) for p in chosen for table in p.tables})

        return self._ask(count)

    def position(self) -> LSN | None:
        """Return the server's current WAL position; None where it does not answer in about 5 s."""
        return self._ask(read_position, _POSITION_SECONDS, _POSITION_CONNECT_SECONDS)

    def _ask(
        self,
        question: Callable[[psycopg.Connection[Any]], Answer],
        seconds: float = _ANSWER_SECONDS,
        connect_timeout_seconds: int = CONNECT_TIMEOUT_SECONDS,
    ) -> Answer | None:
        """Run a query, and once more if the connection was lost; None if that failed too.

        The connection is idle for long stretches, so its loss shows only at the next query.
        """
        for _ in range(2):
            with suppress(psycopg.Error):
                connection = self.connection(connect_timeout_seconds)
                with cut_after(seconds, connection):
                    return question(connection)
            if self._connection is not None and not self._connection.closed:
                break
        return None

    def user_types(self) -> dict[int, UserType]:
        """Return the source's user-defined types by oid. Raises ``psycopg.Error``."""
        rows = read_user_types(self.connection())
        return {row.oid: UserType(row.kind, row.over_oid) for row in rows}

    def close(self) -> None:
        """Close the connection, if it was opened."""
        if self._connection is not None:
            self._connection.close()


class NamedTables:
    """The tables of a session whose plugin names them without oid, queried once for each shape.

    A plugin that writes text sends of a table only its name, and of a type only its name in SQL.
    The catalog may have changed since; what it no longer has stays unknown.
    """

    def __init__(self, read: TableReader) -> None:
        self._read = read
        self._tables: dict[tuple[str, str], NamedTable | None] = {}

    def columns_of(self, schema: str, table: str) -> Sequence[Column] | None:
        """Return a table's current columns, in the form of ``decoder.plugins.shapes.ColumnsOf``."""
        self._tables[schema, table] = named_table = self._read(schema, table)
        if named_table is None:
            return None
        return [
            Column(c.name, c.type_oid, c.typmod, c.is_key, c.type_name) for c in named_table.columns
        ]

    def learn(self, relation: RelationMessage) -> None:
        """Query the table of a new shape now, so that the writer need not query the source."""
        if relation.oid == 0:
            name = relation.namespace, relation.name
            self._tables[name] = self._read(*name)

    def oid_of(self, relation: RelationMessage) -> int:
        """Return the table's oid; for a table that is gone, a negative hash of its name."""
        if relation.oid:
            return relation.oid
        named_table = self._tables.get((relation.namespace, relation.name))
        if named_table is not None:
            return named_table.oid
        name = f"{relation.namespace}\0{relation.name}".encode()
        return -1 - int.from_bytes(hashlib.sha256(name).digest()[:4], "big")

    def column_of(self, relation: RelationMessage, column: Column) -> Column:
        """Return the column with its type's oid, if the catalog has one of that name and type."""
        named_table = self._tables.get((relation.namespace, relation.name))
        if column.type_name is None or named_table is None:
            return column
        name_and_type = column.name, column.type_name.split("(")[0]
        for candidate in named_table.columns:
            if (candidate.name, candidate.type_name.split("(")[0]) == name_and_type:
                return Column(
                    column.name,
                    candidate.type_oid,
                    candidate.typmod,
                    column.is_key,
                    candidate.type_name,
                )
        return column

    def primary_key(self, relation: RelationMessage) -> Sequence[str]:
        """Return the table's current primary key, in the order of the table's columns."""
        named_table = self._tables.get((relation.namespace, relation.name))
        return (
            []
            if named_table is None
            else [column.name for column in named_table.columns if column.is_key]
        )

"""Read a table's rows as of one position of the WAL, on a walsender's session.

A temporary slot is created for its snapshot, and dropped as soon as the transaction uses that: the
snapshot contains exactly what committed before the slot's consistent point. PostgreSQL's own
subscriptions copy a table in the same way (tablesync.c). Since the session is a walsender's, text
has the same form as in the stream.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import conninfo as libpq
from psycopg import errors, sql

from decoder.messages import Column, RelationMessage
from decoder.scalars import LSN, us_from_datetime
from replview.catalog.columns import format_types, type_bases
from replview.catalog.connections import cut_after
from replview.catalog.naming import quoted
from replview.catalog.published import Published, read_published
from replview.catalog.server import ServerFacts, read_server_facts
from replview.catalog.stream_shape import (
    ColumnsMade,
    StreamShape,
    columns_made,
    read_stream_shape,
    rows_moved,
)
from replview.catalog.tables import primary_key_columns
from replview.receiver.connecting import PROBES, encodings_for, replication_conninfo
from replview.receiver.problems import no_logical, refused, trouble, unpublished
from replview.receiver.sessions.simple_queries import SimpleQueries
from replview.runtime.failpoints import Point, failpoint

#: Seconds after which a query to the source's catalog is cancelled.
_ANSWER_SECONDS = 60.0
#: Seconds that creating the slot may take: it waits, several times, for open transactions to end.
#: Meanwhile the slot holds back WAL and the catalog's xmin.
WAIT_SECONDS = 300.0
#: Milliseconds to wait for the table's lock, behind DDL that holds it or waits for it.
_LOCK_MS = 5000
_PAUSE_SECONDS = 0.25
#: Settings that override the role's own, which could end a long read or silently omit rows.
_SETTINGS = (
    "SET statement_timeout = 0",
    "SET lock_timeout = 0",
    "SET idle_in_transaction_session_timeout = 0",
    "SET row_security = off",
)

#: Called about four times a second during waits; it raises an exception to end the wait.
Tick = Callable[[], None]


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table's shape, and the position and query to read its rows with."""

    lsn: LSN
    #: When the snapshot was taken, by the source's clock: microseconds since 2000-01-01 UTC.
    taken_at_us: int
    relation: RelationMessage
    #: Primary key, names of types and their base types, as ``TablePlans`` needs them.
    primary_key: Sequence[str]
    type_names: dict[tuple[int, int], str]
    type_bases: dict[int, dict[str, Any]]
    columns_made: ColumnsMade
    #: Estimate of the server's statistics; None: there is none.
    estimated_rows: int | None
    #: Python's name of the encoding of the rows.
    encoding: str
    query: bytes


class SnapshotReader:
    """A walsender session that reads one table."""

    def __init__(self, conninfo: str, tick: Tick) -> None:
        """Connect to the source as a walsender session. Raises ``psycopg.Error``."""
        self._conninfo = conninfo
        self._tick = tick
        self.connection: psycopg.Connection[Any] = psycopg.Connection.connect(
            libpq.make_conninfo(replication_conninfo(conninfo, client_encoding="UTF8"), **PROBES),
            autocommit=True,
            prepare_threshold=None,
            # Such a connection has only the simple query protocol.
            cursor_factory=psycopg.ClientCursor,
        )
        self._queries = SimpleQueries(self.connection)

    def identify(self) -> tuple[str, int]:
        """Return the system identifier and the timeline. Raises ``psycopg.Error``.

        Raises ``SourceProblem`` where no snapshot can be taken.
        """
        with cut_after(_ANSWER_SECONDS, self.connection):
            row = self.connection.execute("IDENTIFY_SYSTEM").fetchone()
            assert row is not None
            for setting in _SETTINGS:
                self.connection.execute(setting.encode())
            if self.connection.info.server_version >= 170000:
                self.connection.execute("SET transaction_timeout = 0")
            server = read_server_facts(self.connection)
        self._check(server)
        return str(row[0]), int(row[1])

    def open(self, schema: str, table: str, publications: Sequence[str]) -> TableSnapshot:
        """Take the snapshot and lock the table against whatever would move its rows.

        Raises ``SourceProblem``, ``psycopg.Error``, and what ``tick`` raises.
        """
        lsn = self._take_snapshot()
        failpoint(Point.AFTER_SNAPSHOT)
        with cut_after(_ANSWER_SECONDS, self.connection):
            self.connection.execute("SET LOCAL search_path = pg_catalog")
            row = self.connection.execute("SELECT clock_timestamp()").fetchone()
            assert row is not None
            published = self._published(schema, table, publications)
            sent = published.sent_columns(self.connection.info.server_version)
            shape = read_stream_shape(self.connection, published.table.oid, sent)
            if shape is None:
                raise trouble("no_such_table", table=f"{schema}.{table}")
            self._lock(schema, table, shape)
            moved, estimated = rows_moved(self.connection, published.table.oid)
            if moved:
                raise trouble("moved", table=f"{schema}.{table}")
            relation = _relation(published, shape)
            types = [(c.type_oid, c.typmod) for c in relation.columns]
            type_names = format_types(self.connection, types)
            bases = type_bases(self.connection, [oid for oid, _ in types])
            primary_key = primary_key_columns(self.connection, relation.oid)
            columns = columns_made(self.connection, relation.oid, None)
            encoding = self._set_encoding()
            self.connection.execute("SET LOCAL search_path TO DEFAULT")
        query = _copy_query(published, shape).as_string(self.connection).encode(encoding)
        return TableSnapshot(
            lsn, us_from_datetime(row[0]), relation, primary_key, type_names, bases, columns,
            estimated, encoding, query,
        )  # fmt: skip

    def rows(
        self, snapshot: TableSnapshot, max_rows: Callable[[], int], max_bytes: int
    ) -> Iterator[list[bytes]]:
        """Yield the table's rows in pieces; nothing is read before the next piece is requested.

        Raises ``psycopg.Error``, and what ``tick`` raises.
        """
        self._queries.send(snapshot.query)
        piece: list[bytes] = []
        size, row_limit = 0, max_rows()
        while self._queries.running:
            rows = self._queries.read(row_limit - len(piece), max_bytes - size)
            piece += rows
            size += sum(map(len, rows))
            if len(piece) >= row_limit or size >= max_bytes:
                yield piece
                piece, size, row_limit = [], 0, max_rows()
            elif not rows and self._queries.running:
                self._queries.wait(_PAUSE_SECONDS)
                self._tick()
        if piece:
            yield piece

    def close(self) -> None:
        """Close the connection, after cancelling a query that is still running on the server."""
        if self._queries.running:
            self._queries.cancel()
        self.connection.close()

    def _check(self, server: ServerFacts) -> None:
        if server.in_recovery:
            raise trouble("standby")
        if server.wal_level != "logical":
            raise no_logical(server.wal_level)

    def _take_snapshot(self) -> LSN:
        """Begin a transaction that sees exactly what committed before the position it returns."""
        name = quoted(f"replview_baseline_{secrets.token_hex(6)}")
        option = "(SNAPSHOT 'use')"
        if self.connection.info.server_version < 150000:
            option = "USE_SNAPSHOT"
        create = f"CREATE_REPLICATION_SLOT {name} TEMPORARY LOGICAL pgoutput {option}"
        with cut_after(_ANSWER_SECONDS, self.connection):
            self.connection.execute("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
        ((row,),) = self._run(create.encode(), WAIT_SECONDS)
        # Drop the slot at once: it would retain WAL for as long as the table is read.
        with cut_after(_ANSWER_SECONDS, self.connection):
            self.connection.execute(f"DROP_REPLICATION_SLOT {name}".encode())
        assert row[1] is not None
        return LSN.parse(row[1].decode())

    def _run(self, query: bytes, seconds: float) -> list[list[tuple[bytes | None, ...]]]:
        """Run a query that may wait for other sessions, ticking; cancel it after ``seconds``."""
        deadline = time.monotonic() + seconds
        self._queries.send(query)
        while self._queries.running:
            self._queries.wait(_PAUSE_SECONDS)
            self._queries.read()
            if not self._queries.running:
                break
            if time.monotonic() > deadline:
                self._queries.cancel()
                span = f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
                raise trouble("waited", span=span)
            self._tick()
        return self._queries.results

    def _published(self, schema: str, table: str, publications: Sequence[str]) -> Published:
        _, tables = read_published(self.connection, publications)
        published = tables.get((schema, table))
        if published is None:
            raise unpublished(schema, table, publications)
        return published

    def _lock(self, schema: str, table: str, shape: StreamShape) -> None:
        """Lock the table against DDL until the rows are read; reads and writes go on."""
        only = sql.SQL("" if shape.partitioned else "ONLY ")
        self.connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(_LOCK_MS))
        try:
            self.connection.execute(
                sql.SQL("LOCK TABLE {}{} IN ACCESS SHARE MODE").format(
                    only, sql.Identifier(schema, table)
                )
            )
        except errors.LockNotAvailable:
            raise trouble("locked", table=f"{schema}.{table}") from None
        except errors.UndefinedTable:
            raise trouble("no_such_table", table=f"{schema}.{table}") from None
        except errors.InsufficientPrivilege as error:
            refusal = refused(error, schema, table, self.connection.info.user)
            raise refusal or error from None

    def _set_encoding(self) -> str:
        """Set the encoding that the stream's session has, and return Python's name of it."""
        server_encoding = self.connection.info.parameter_status("server_encoding")
        client, encoding = encodings_for(server_encoding)
        if client != "UTF8":
            encode = sql.SQL("SET LOCAL client_encoding = {}")
            self.connection.execute(encode.format(sql.Identifier(client)))
        return encoding


def _relation(published: Published, shape: StreamShape) -> RelationMessage:
    """Return the table's shape as the stream's Relation message would describe it."""
    return RelationMessage(
        oid=published.table.oid,
        namespace=published.table.schema,
        name=published.table.name,
        replica_identity=shape.replica_identity,  # type: ignore[arg-type]  # one of its four
        columns=tuple(Column(c.name, c.type_oid, c.typmod, c.is_key) for c in shape.columns),
    )


def _copy_query(published: Published, shape: StreamShape) -> sql.Composable:
    """Return the COPY query of exactly those rows and columns whose INSERT is published.

    A row filter is the server's own text of an expression that it has checked and stored
    (``pg_get_expr``), and has no other form; tablesync.c sends it back in the same way.
    """
    table = published.table
    filters = [published.filters[op] for op in "IUD" if op in published.filters]
    row_filters = filters[0] if filters else []
    where: sql.Composable = sql.SQL("")
    if row_filters:
        checked = [sql.SQL("({})").format(sql.SQL(text)) for text in row_filters]
        where = sql.SQL(" WHERE {}").format(sql.SQL(" OR ").join(checked))
    return sql.SQL("COPY (SELECT {} FROM {}{}{}) TO STDOUT").format(
        sql.SQL(", ").join(sql.Identifier(c.name) for c in shape.columns),
        sql.SQL("" if shape.partitioned else "ONLY "),
        sql.Identifier(table.schema, table.name),
        where,
    )

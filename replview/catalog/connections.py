"""This module opens connections to a source, and defines the queries that are read through them.

Connections open quickly, every statement has a time limit, and they are read-only unless asked
otherwise. All settings are made by SQL after connecting, not by libpq's ``options``, which a pooler
such as PgBouncer refuses. Behind a pooler they are made again in each transaction
(``pool_safely``). ``search_path`` is set to ``pg_catalog``, so that nothing that a source's users
define can be called in place of PostgreSQL's own.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, LiteralString

import orjson
import psycopg
from psycopg import conninfo as libpq
from psycopg import pq, sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.rows import dict_row

from replview.catalog.problems import explain

APPLICATION_NAME = "replview"
CONNECT_TIMEOUT_SECONDS = 5
STATEMENT_TIMEOUT_MS = 5000
LOCK_TIMEOUT_MS = 5000

#: Settings that fix the text format of values, whatever server, database and role set.
_TEXT_FORMATS = {
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "standard_conforming_strings": "on",
    "client_encoding": "UTF8",
}

Connection = psycopg.Connection[Any]


def connect(
    conninfo: str,
    *,
    read_only: bool = True,
    statement_timeout_ms: int = STATEMENT_TIMEOUT_MS,
    connect_timeout_seconds: int = CONNECT_TIMEOUT_SECONDS,
    wait_for_locks: bool = False,
) -> Connection:
    """Open an autocommit connection to a source. Raises ``psycopg.Error``; see ``problems``."""
    connection = _open(conninfo, connect_timeout_seconds)
    try:
        _set_up(connection, read_only, statement_timeout_ms, wait_for_locks)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_replication(conninfo: str) -> Connection:
    """Open a walsender session on the DSN's database.

    Such a session has only the simple protocol and only autocommit.
    """
    parameters = _with_defaults(conninfo, CONNECT_TIMEOUT_SECONDS)
    return _connected(libpq.make_conninfo(parameters, replication="database"))


@contextmanager
def connected(conninfo: str, *, deadline_seconds: float = 10.0) -> Iterator[Connection]:
    """Yield a read-only connection that is cut when the deadline passes.

    A frozen host neither answers nor closes the connection, and no server-side timeout helps
    against it. So the socket is shut down under the waiting query, which fails with
    ``OperationalError``.
    """
    connection = _open(conninfo, CONNECT_TIMEOUT_SECONDS)
    try:
        with cut_after(deadline_seconds, connection):
            _set_up(connection, True, STATEMENT_TIMEOUT_MS)
            yield connection
    finally:
        connection.close()


def open_reading(conninfo: str, *, deadline_seconds: float, prepare: bool) -> Connection:
    """Open a read-only connection that the caller keeps. Raises ``psycopg.Error``.

    ``prepare`` plans each statement once. A pooler rules that out, as it may run the next statement
    on another server connection.
    """
    connection = _open(conninfo, CONNECT_TIMEOUT_SECONDS)
    try:
        with cut_after(deadline_seconds, connection):
            _set_up(connection, True, STATEMENT_TIMEOUT_MS)
    except BaseException:
        connection.close()
        raise
    if prepare and connection.cursor_factory is psycopg.Cursor:
        connection.prepare_threshold = 1
    return connection


@contextmanager
def cut_after(seconds: float, connection: Connection) -> Iterator[threading.Event]:
    """Shut a connection's socket down if the block takes longer than ``seconds``.

    Whatever waits for an answer there fails with ``OperationalError``. Yields an event that is set
    when the socket was shut down.
    """
    was_cut = threading.Event()

    def cut(descriptor: int) -> None:
        was_cut.set()
        _shut_down(descriptor)

    watch = threading.Timer(seconds, cut, [connection.fileno()])
    watch.daemon = True
    watch.start()
    try:
        yield was_cut
    finally:
        watch.cancel()
        # Without this, the timer might shut down the next socket with the same descriptor.
        watch.join()


def _open(conninfo: str, connect_timeout_seconds: int) -> Connection:
    return _connected(_with_defaults(conninfo, connect_timeout_seconds))


def _connected(conninfo: str) -> Connection:
    try:
        return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
    except UnicodeError:
        # Python cannot encode the name: a label is empty (a..b), or has more than 63 bytes.
        raise psycopg.OperationalError("could not translate host name: it is none") from None


def _set_up(
    connection: Connection, read_only: bool, statement_timeout_ms: int, wait_for_locks: bool = False
) -> None:
    """Set time limits, access mode and text formats for every statement that follows."""
    lock_timeout_ms = 0 if wait_for_locks else LOCK_TIMEOUT_MS
    settings = {
        **_TEXT_FORMATS,
        "statement_timeout": str(statement_timeout_ms),
        "lock_timeout": str(lock_timeout_ms),
        "search_path": "pg_catalog",
        "default_transaction_read_only": "on" if read_only else "off",
    }
    row = connection.execute(
        """
        SELECT pg_catalog.set_config(name, value, false)
        FROM ROWS FROM (pg_catalog.unnest(%s::pg_catalog.text[]),
                        pg_catalog.unnest(%s::pg_catalog.text[])) AS wanted (name, value)
        WHERE pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) %s
        """,
        [list(settings), list(settings.values()), connection.info.backend_pid],
    ).fetchone()
    if row is None:
        # Another backend than the one that answered first: a pooler stands between.
        timeouts = {"statement_timeout": statement_timeout_ms, "lock_timeout": lock_timeout_ms}
        pool_safely(connection, read_only=read_only, timeouts_ms=timeouts)


@contextmanager
def reading(conninfo: str, *, deadline_seconds: float) -> Iterator[Connection]:
    """Yield a connection as ``connected`` does, but raise ``SourceProblem`` for every error."""
    try:
        with connected(conninfo, deadline_seconds=deadline_seconds) as connection:
            yield connection
    except psycopg.Error as error:
        raise explain(error, conninfo) from None


@contextmanager
def writing(conninfo: str, *, deadline_seconds: float) -> Iterator[Connection]:
    """Yield a connection that may write, cut at the deadline. Raises ``SourceProblem``."""
    try:
        with (
            connect(conninfo, read_only=False) as connection,
            cut_after(deadline_seconds, connection),
        ):
            yield connection
    except psycopg.Error as error:
        raise explain(error, conninfo) from None


def _shut_down(descriptor: int) -> None:
    """End both directions of a socket that another thread waits on, without closing it."""
    with suppress(OSError), socket.socket(fileno=descriptor) as handle:
        try:
            handle.shutdown(socket.SHUT_RDWR)
        finally:
            # libpq closes the socket.
            handle.detach()


def _with_defaults(conninfo: str, connect_timeout_seconds: int) -> str:
    """Return the DSN with our application name, and with a connect timeout if it has none."""
    parts = libpq.conninfo_to_dict(conninfo)
    additions: dict[str, Any] = {"application_name": APPLICATION_NAME, "client_encoding": "UTF8"}
    if "connect_timeout" not in parts:
        additions["connect_timeout"] = connect_timeout_seconds
    return libpq.make_conninfo(conninfo, **additions)


def pool_safely(
    connection: psycopg.Connection[Any], *, read_only: bool, timeouts_ms: dict[str, int]
) -> None:
    """Bound all statements of a connection through a transaction pooler.

    What a session sets there stays with the server connection and reaches the next client: an
    application would find itself read-only. So each statement outside a transaction becomes a
    transaction that contains its settings.
    """
    access = "READ ONLY" if read_only else "READ WRITE"
    bounds: list[sql.Composable] = [
        sql.SQL("SET TRANSACTION {}").format(sql.SQL(access)),
        sql.SQL("SET LOCAL search_path = pg_catalog"),
    ]
    bounds += [
        sql.SQL("SET LOCAL {} = {}").format(sql.Identifier(name), sql.Literal(value))
        for name, value in {**_TEXT_FORMATS, **timeouts_ms}.items()
    ]
    together = sql.SQL("; ").join(bounds)

    class BoundCursor(psycopg.Cursor[Any]):
        """A cursor that runs each statement outside a transaction in one of its own."""

        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            """Run the statement, after the settings where no transaction is open."""
            if self.connection.info.transaction_status != pq.TransactionStatus.IDLE:
                return super().execute(query, params, **options)
            with self.connection.transaction():
                super().execute(together)
                return super().execute(query, params, **options)

    connection.cursor_factory = BoundCursor


class ForgivingJson(Loader):
    """A loader of JSON whose texts may hold bytes of another encoding, such as role names."""

    def load(self, data: Buffer) -> Any:
        """Return the value, with invalid UTF-8 replaced by U+FFFD."""
        return orjson.loads(bytes(data).decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Query:
    """A query over a source's catalog; its name appears in errors and logs.

    Parameters are always passed separately, never formatted into the SQL.
    """

    #: ``slots``, ``tables`` …
    name: str
    #: One sentence: what the rows say, and which rights reading them needs.
    about: str
    sql: LiteralString

    def rows(self, connection: Connection, *parameters: Any) -> list[dict[str, Any]]:
        """Return all rows, as dictionaries. Raises ``psycopg.Error``."""
        with connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(self.sql, parameters or None).fetchall()

    def row(self, connection: Connection, *parameters: Any) -> dict[str, Any]:
        """Return the first row. Raises ``psycopg.Error``, or ``IndexError`` without a row."""
        return self.rows(connection, *parameters)[0]

    def json_row(self, connection: Connection, *parameters: Any) -> dict[str, Any]:
        """Return the row of a query with columns of type json, which may hold invalid UTF-8."""
        with connection.cursor(row_factory=dict_row) as cursor:
            cursor.adapters.register_loader("json", ForgivingJson)
            row = cursor.execute(self.sql, parameters or None).fetchone()
        assert row is not None
        return row

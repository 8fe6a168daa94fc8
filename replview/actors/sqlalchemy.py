"""SQLAlchemy 2: every transaction that writes carries a message that names its actor.

::

    install(engine, actor=lambda: current_user.name)

or without ``actor=``, and around each piece of work::

    with actor("import_job", file="prices.csv"):
        ...

The target is an engine, an async engine, or a sessionmaker that is bound to one.

Before a transaction's first INSERT, UPDATE, DELETE, MERGE or TRUNCATE, from the ORM or from Core, a
logical message is written: prefix ``replview``, a JSON object with ``actor`` and context. Reading
costs no statement. Where the role may not send the message, the application's statement still
runs, and one warning is logged. (If the right is revoked while connections are open, each
connection loses at most one transaction, the one in which it gets the error.)

Writes inside functions, COPY, and writes on the driver's own connection are not detected.
Under ``isolation_level="AUTOCOMMIT"`` a statement and its message share one transaction
with psycopg 3 and psycopg2; with other drivers no message is sent there.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from sqlalchemy import event

PREFIX = "replview"
#: Longer texts are cut: replview ignores messages above 64 kB.
MAX_CHARACTERS = 500

#: Returns the actor: a name, a mapping with ``actor`` and context, or None.
Actor = Callable[[], "str | Mapping[str, Any] | None"]

_current: ContextVar[Mapping[str, Any] | None] = ContextVar("replview_actor", default=None)
_log = logging.getLogger("replview.actors")

#: Drivers whose connections have the attribute ``autocommit``.
_AUTOCOMMIT_DRIVERS = ("psycopg", "psycopg2")

#: Run once a connection, because a refused message would abort the application's transaction.
_MAY_SEND = """
    SELECT NOT pg_catalog.pg_is_in_recovery() AND pg_catalog.has_function_privilege(oid, 'EXECUTE')
      FROM pg_catalog.pg_proc
     WHERE proname = 'pg_logical_emit_message' AND proargtypes[2] = 'pg_catalog.bytea'::regtype
       AND pronamespace = 'pg_catalog'::regnamespace
"""

_QUOTED_OR_COMMENT = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_WRITE = re.compile(r"[\s(]*(?:INSERT|UPDATE|DELETE|MERGE|TRUNCATE)\b", re.IGNORECASE)
_COPY = re.compile(r"\s*COPY\b.*\bFROM\b", re.IGNORECASE | re.DOTALL)
_WRITE_IN_WITH = re.compile(
    r"[()]\s*(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\b", re.IGNORECASE
)
_PLAIN_READ = re.compile(r"\s*SELECT\b[^;]*$", re.IGNORECASE)
_SAVEPOINT_WORDS = re.compile(
    r"\s*(?:(SAVEPOINT)|(ROLLBACK)\s+(?:(?:WORK|TRANSACTION)\s+)?TO(?:\s+SAVEPOINT)?)\s+"
    r"(\"[^\"]+\"|\w+)\s*;?\s*$",
    re.IGNORECASE,
)


def writes(statement: str) -> bool:
    """Return whether a statement changes rows, by its keywords; functions are not examined."""
    if _PLAIN_READ.match(statement):
        return False
    for part in _QUOTED_OR_COMMENT.sub(" ", statement).split(";"):
        if _WRITE.match(part) or _COPY.match(part):
            return True
        if part.lstrip()[:4].upper() == "WITH" and _WRITE_IN_WITH.search(part):
            return True
    return False


@contextmanager
def actor(name: str, **context: Any) -> Iterator[None]:
    """Name the actor of all writes inside; also a decorator: ``@actor("nightly_prices")``."""
    token = _current.set({"actor": name, **context})
    try:
        yield
    finally:
        _current.reset(token)


def install(target: Any, actor: Actor | None = None) -> Callable[[], None]:
    """Send the message on every connection of ``target``; return a function that ends that.

    ``actor`` is called before the message is sent, never for reading. Where it returns None or is
    not given, the context manager names the actor. Databases other than PostgreSQL are ignored.
    """
    engine = _engine(target)
    hook = _Hook(actor)
    listeners: list[tuple[str, Callable[..., object]]] = [
        ("before_cursor_execute", hook.before),
        ("after_cursor_execute", hook.after),
        ("handle_error", hook.failed),
        ("begin", hook.forget),
        ("commit", hook.forget),
        ("rollback", hook.forget),
        ("begin_twophase", hook.forget),
        ("prepare_twophase", hook.forget),
    ]
    for name, listener in listeners:
        event.listen(engine, name, listener)

    def remove() -> None:
        for name, listener in listeners:
            event.remove(engine, name, listener)

    return remove


def _engine(target: Any) -> Any:
    """Return the synchronous engine of an engine, an async engine or a sessionmaker."""
    bind = getattr(target, "kw", {}).get("bind", target)
    return getattr(bind, "sync_engine", bind)


class _Said:
    """The message of a transaction, and the savepoints made after it."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self.document = document
        self.since: set[str] = set()


class _Hook:
    """The listeners of one engine. A transaction's state is in its connection's ``info``."""

    #: Keys in ``Connection.info``.
    SAID, ALONE, BUSY = "replview_said", "replview_alone", "replview_busy"
    #: The key of whether the connection's role may send messages; missing until queried.
    ABLE = "replview_able"

    def __init__(self, of_application: Actor | None) -> None:
        self._of_application = of_application

    def before(
        self, conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
    ) -> None:
        """Send the message before a write, and follow savepoints."""
        info = conn.info
        if conn.dialect.name != "postgresql" or info.get(self.BUSY):
            return
        sent: _Said | None = info.get(self.SAID)
        if sent is not None and (savepoint := _savepoint_of(statement)) is not None:
            verb, name = savepoint
            if verb == "SAVEPOINT":
                sent.since.add(name)
            elif name not in sent.since:
                self.forget(conn)
        elif writes(statement):
            document = self._document(conn)
            if document and (sent is None or sent.document != document) and self._may_say(conn):
                self._say(conn, document)

    def after(self, conn: Any, *_: Any) -> None:
        """Commit the transaction that was opened in autocommit mode for this statement."""
        if conn.info.pop(self.ALONE, False):
            _run(conn, "COMMIT")

    def failed(self, failure: Any) -> None:
        """Roll back the transaction that was opened in autocommit mode for this statement."""
        conn = failure.connection
        if conn is not None and not failure.is_disconnect and conn.info.pop(self.ALONE, False):
            _run(conn, "ROLLBACK")

    def forget(self, conn: Any, *_: Any) -> None:
        """Forget the message, because the transaction ended or its savepoint was rolled back."""
        conn.info.pop(self.SAID, None)

    def _document(self, conn: Any) -> Mapping[str, Any] | None:
        """Return the actor's document; queries made to find it send no message."""
        conn.info[self.BUSY] = True
        try:
            answer = self._of_application() if self._of_application is not None else None
        except Exception as error:
            _warn_once(type(error).__name__)
            return None
        finally:
            del conn.info[self.BUSY]
        if answer is None:
            return _current.get()
        return answer if isinstance(answer, Mapping) else {"actor": str(answer)}

    def _may_say(self, conn: Any) -> bool:
        """Return whether this connection's role may send messages; queried once."""
        is_allowed: bool | None = conn.info.get(self.ABLE)
        if is_allowed is None:
            row = _run(conn, _MAY_SEND)
            is_allowed = conn.info[self.ABLE] = bool(row and row[0])
            if not is_allowed:
                _warn_once("its role may not send messages, or this is a standby")
        return is_allowed

    def _say(self, conn: Any, document: Mapping[str, object]) -> None:
        """Send the message into the transaction.

        In autocommit mode, open one for the message and the statement.
        """
        try:
            message = message_sql(document)
        except Exception as error:
            _warn_once(type(error).__name__)
            return
        if not getattr(conn.connection.dbapi_connection, "autocommit", False):
            self._send(conn, message)
            conn.info[self.SAID] = _Said(document)
        elif conn.dialect.driver in _AUTOCOMMIT_DRIVERS and not conn.info.get(self.ALONE):
            _run(conn, "BEGIN")
            try:
                self._send(conn, message)
            except Exception:
                # The transaction held only the message, so the statement can run without one.
                _run(conn, "ROLLBACK")
            else:
                conn.info[self.ALONE] = True

    def _send(self, conn: Any, message: str) -> None:
        """Send the message; after an error, query the right again before the next one."""
        try:
            _run(conn, message)
        except Exception as error:
            conn.info.pop(self.ABLE, None)
            _warn_once(type(error).__name__)
            raise


def _run(conn: Any, statement: str) -> Any:
    """Execute outside SQLAlchemy, whose log and events stay those of the application."""
    cursor = conn.connection.cursor()
    try:
        cursor.execute(statement)
        return cursor.fetchone() if cursor.description else None
    finally:
        cursor.close()


def message_sql(document: Mapping[str, object]) -> str:
    """Return the statement that sends the message; hexadecimal content needs no quoting."""
    shortened = {
        str(key): value[:MAX_CHARACTERS] if isinstance(value, str) else value
        for key, value in document.items()
    }
    content = json.dumps(shortened, default=str).encode().hex()
    return (
        "SELECT pg_catalog.pg_logical_emit_message"
        f"(true, '{PREFIX}', pg_catalog.decode('{content}', 'hex'))"
    )


def _savepoint_of(statement: str) -> tuple[str, str] | None:
    """Return the verb, ``SAVEPOINT`` or ``ROLLBACK``, and the savepoint's name."""
    if match := _SAVEPOINT_WORDS.match(statement):
        verb, rollback, name = match.groups()
        return (verb or rollback).upper(), name[1:-1] if name[0] == '"' else name.lower()
    return None


def _warn_once(why: str) -> None:
    """Log one warning a process, without any value; the statements run without an actor."""
    if not _warn_once.warned:  # type: ignore[attr-defined]
        _warn_once.warned = True  # type: ignore[attr-defined]
        _log.warning("replview cannot say who writes (%s): it goes on unsaid", why)


_warn_once.warned = False  # type: ignore[attr-defined]

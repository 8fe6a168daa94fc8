"""SQLAlchemy 2: every transaction that writes says who it is for.

::

    install(engine, actor=lambda: current_user.name)

or without ``actor=``, and around each piece of work::

    with actor("import_job", file="prices.csv"):
        ...

The target is an engine, an async engine, or a sessionmaker that is bound to one.

Before a transaction's first INSERT, UPDATE, DELETE, MERGE or TRUNCATE, from the ORM or from Core, a
logical message goes into it: prefix ``replview``, a JSON object with ``actor`` and context. Reading
sends nothing. Where the role may not send it the application's statement runs all the same, and
one warning is logged. (A right that is revoked while connections are open costs each of them the
transaction in which it finds out, at most one; the next goes on unsaid.)

Not seen: writes inside functions, COPY, and what goes past SQLAlchemy to the driver's connection.
Under ``isolation_level="AUTOCOMMIT"`` a statement and its message are a transaction of their own
with psycopg 3 and psycopg2; with other drivers nothing is said there.
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
#: Longer texts are cut; replview reads no message beyond 64 kB.
MAX_CHARACTERS = 500

#: What says who acts: a name, a mapping with ``actor`` and context, or None.
Actor = Callable[[], "str | Mapping[str, Any] | None"]

_current: ContextVar[Mapping[str, Any] | None] = ContextVar("replview_actor", default=None)
_log = logging.getLogger("replview.actors")

#: Drivers whose connections say ``autocommit``.
_KNOWN = ("psycopg", "psycopg2")

#: Asked once a connection: a refused message would end the application's transaction.
_MAY_SAY = """
    SELECT NOT pg_catalog.pg_is_in_recovery() AND pg_catalog.has_function_privilege(oid, 'EXECUTE')
      FROM pg_catalog.pg_proc
     WHERE proname = 'pg_logical_emit_message' AND proargtypes[2] = 'pg_catalog.bytea'::regtype
       AND pronamespace = 'pg_catalog'::regnamespace
"""

_QUIET = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_WRITE = re.compile(r"[\s(]*(?:INSERT|UPDATE|DELETE|MERGE|TRUNCATE)\b", re.IGNORECASE)
_COPY = re.compile(r"\s*COPY\b.*\bFROM\b", re.IGNORECASE | re.DOTALL)
_WITHIN = re.compile(r"[()]\s*(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\b", re.IGNORECASE)
_PLAIN_READ = re.compile(r"\s*SELECT\b[^;]*$", re.IGNORECASE)
_SAVEPOINT_WORDS = re.compile(
    r"\s*(?:(SAVEPOINT)|(ROLLBACK)\s+(?:(?:WORK|TRANSACTION)\s+)?TO(?:\s+SAVEPOINT)?)\s+"
    r"(\"[^\"]+\"|\w+)\s*;?\s*$",
    re.IGNORECASE,
)


def writes(statement: str) -> bool:
    """Whether a statement changes rows, by its words: what a function does is not seen."""
    if _PLAIN_READ.match(statement):
        return False
    for part in _QUIET.sub(" ", statement).split(";"):
        if _WRITE.match(part) or _COPY.match(part):
            return True
        if part.lstrip()[:4].upper() == "WITH" and _WITHIN.search(part):
            return True
    return False


@contextmanager
def actor(name: str, **context: Any) -> Iterator[None]:
    """What is written inside is this actor's; also a decorator: ``@actor("nightly_prices")``."""
    token = _current.set({"actor": name, **context})
    try:
        yield
    finally:
        _current.reset(token)


def install(target: Any, actor: Actor | None = None) -> Callable[[], None]:
    """Say who writes on every connection of ``target``; returns what takes it away again.

    ``actor`` is called before the message is sent, never for reading; None from it, or no ``actor``
    at all, leaves it to the context manager. Nothing happens on databases other than PostgreSQL.
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
    """The synchronous engine below an engine, an async engine or a sessionmaker."""
    bind = getattr(target, "kw", {}).get("bind", target)
    return getattr(bind, "sync_engine", bind)


class _Said:
    """What a transaction has said: the message, and the savepoints made since."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self.document = document
        self.since: set[str] = set()


class _Hook:
    """The listeners of one engine. A transaction's state is in its connection's ``info``."""

    #: In ``Connection.info``.
    SAID, ALONE, BUSY = "replview_said", "replview_alone", "replview_busy"
    #: Whether the connection's role may send messages; absent: not asked yet.
    ABLE = "replview_able"

    def __init__(self, of_application: Actor | None) -> None:
        self._of_application = of_application

    def before(
        self, conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
    ) -> None:
        info = conn.info
        if conn.dialect.name != "postgresql" or info.get(self.BUSY):
            return
        said: _Said | None = info.get(self.SAID)
        if said is not None and (savepoint := _savepoint_of(statement)) is not None:
            verb, name = savepoint
            if verb == "SAVEPOINT":
                said.since.add(name)
            elif name not in said.since:
                self.forget(conn)
        elif writes(statement):
            document = self._document(conn)
            if document and (said is None or said.document != document) and self._may_say(conn):
                self._say(conn, document)

    def after(self, conn: Any, *_: Any) -> None:
        """It ran: in autocommit mode it ends the transaction that was made for it."""
        if conn.info.pop(self.ALONE, False):
            _run(conn, "COMMIT")

    def failed(self, failure: Any) -> None:
        conn = failure.connection
        if conn is not None and not failure.is_disconnect and conn.info.pop(self.ALONE, False):
            _run(conn, "ROLLBACK")

    def forget(self, conn: Any, *_: Any) -> None:
        conn.info.pop(self.SAID, None)

    def _document(self, conn: Any) -> Mapping[str, Any] | None:
        """Who acts; whatever is read to tell sends no message of its own."""
        conn.info[self.BUSY] = True
        try:
            said = self._of_application() if self._of_application is not None else None
        except Exception as error:
            _cannot_say(type(error).__name__)
            return None
        finally:
            del conn.info[self.BUSY]
        if said is None:
            return _current.get()
        return said if isinstance(said, Mapping) else {"actor": str(said)}

    def _may_say(self, conn: Any) -> bool:
        """Whether this connection's role may send messages, asked once."""
        able: bool | None = conn.info.get(self.ABLE)
        if able is None:
            row = _run(conn, _MAY_SAY)
            able = conn.info[self.ABLE] = bool(row and row[0])
            if not able:
                _cannot_say("its role may not send messages, or this is a standby")
        return able

    def _say(self, conn: Any, document: Mapping[str, object]) -> None:
        """Send the message into the transaction; in autocommit mode into one that is made for it
        and the statement.
        """
        try:
            message = message_sql(document)
        except Exception as error:
            _cannot_say(type(error).__name__)
            return
        if not getattr(conn.connection.dbapi_connection, "autocommit", False):
            self._send(conn, message)
            conn.info[self.SAID] = _Said(document)
        elif conn.dialect.driver in _KNOWN and not conn.info.get(self.ALONE):
            _run(conn, "BEGIN")
            try:
                self._send(conn, message)
            except Exception:
                # Nothing of the application's was in it: its statement runs on its own.
                _run(conn, "ROLLBACK")
            else:
                conn.info[self.ALONE] = True

    def _send(self, conn: Any, message: str) -> None:
        """Run it; what is refused is asked about anew before the next one."""
        try:
            _run(conn, message)
        except Exception as error:
            conn.info.pop(self.ABLE, None)
            _cannot_say(type(error).__name__)
            raise


def _run(conn: Any, statement: str) -> Any:
    """Past SQLAlchemy: its log and its events tell of the application alone."""
    cursor = conn.connection.cursor()
    try:
        cursor.execute(statement)
        return cursor.fetchone() if cursor.description else None
    finally:
        cursor.close()


def message_sql(document: Mapping[str, object]) -> str:
    """The statement; the content goes as hexadecimal digits, which nothing needs to quote."""
    cut = {
        str(key): value[:MAX_CHARACTERS] if isinstance(value, str) else value
        for key, value in document.items()
    }
    content = json.dumps(cut, default=str).encode().hex()
    return (
        "SELECT pg_catalog.pg_logical_emit_message"
        f"(true, '{PREFIX}', pg_catalog.decode('{content}', 'hex'))"
    )


def _savepoint_of(statement: str) -> tuple[str, str] | None:
    """``SAVEPOINT`` or ``ROLLBACK`` and the savepoint's name."""
    if match := _SAVEPOINT_WORDS.match(statement):
        verb, back, name = match.groups()
        return (verb or back).upper(), name[1:-1] if name[0] == '"' else name.lower()
    return None


def _cannot_say(why: str) -> None:
    """One warning a process: writing goes on without an actor. Says no value."""
    if not _cannot_say.told:  # type: ignore[attr-defined]
        _cannot_say.told = True  # type: ignore[attr-defined]
        _log.warning("replview cannot say who writes (%s): it goes on unsaid", why)


_cannot_say.told = False  # type: ignore[attr-defined]

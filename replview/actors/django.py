"""Django: every transaction that writes carries a message that names its actor.

In ``settings.MIDDLEWARE``, after the authentication middleware::

    "replview.actors.django.ActorMiddleware"

and around code outside a request (commands, Celery tasks)::

    with actor("import_job", file="prices.csv"):
        ...

Before a transaction's first INSERT, UPDATE, DELETE, MERGE or TRUNCATE through Django's cursors, a
logical message is written: prefix ``replview``, a JSON object with ``actor`` and context. Reading
costs no statement. Where the role may not send the message, the application's statement still
runs, and one warning is logged. (If the right is revoked while connections are open, each
connection loses at most one transaction, the one in which it gets the error.)

``REPLVIEW_ACTOR`` in the settings (a callable or its dotted path) gets the request and returns the
actor's name, a mapping with ``actor`` and context, or None.

Writes inside functions, ``cursor.copy()`` and writes outside Django's cursors are not seen (call
``say_now()`` in the transaction first), nor is what a streamed response writes while it is sent.
"""

from __future__ import annotations

import json
import logging
import re
from asyncio import iscoroutinefunction
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from asgiref.sync import markcoroutinefunction
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.signals import connection_created
from django.utils.module_loading import import_string

PREFIX = "replview"
#: Longer texts are cut: replview ignores messages above 64 kB.
MAX_CHARACTERS = 500

#: Returns the message's document. It is called for each message, so that reading looks up nothing.
ReadClaim = Callable[[], "Mapping[str, Any] | None"]

_claim: ContextVar[ReadClaim | None] = ContextVar("replview_claim", default=None)
_log = logging.getLogger("replview.actors")

#: Driver's connection → whether its role may send messages; missing until queried.
_may_send: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()

#: Run once a connection, because a refused message would abort the application's transaction.
_MAY_SEND = """
    SELECT NOT pg_catalog.pg_is_in_recovery() AND pg_catalog.has_function_privilege(oid, 'EXECUTE')
      FROM pg_catalog.pg_proc
     WHERE proname = 'pg_logical_emit_message' AND proargtypes[2] = 'pg_catalog.bytea'::regtype
       AND pronamespace = 'pg_catalog'::regnamespace
"""
#: libpq's PQTRANS_IDLE and PQTRANS_INTRANS, the same in psycopg 3 and psycopg2.
_IDLE, _IN_TRANSACTION = 0, 2

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
    document = {"actor": name, **context}
    token = _claim.set(lambda: document)
    try:
        yield
    finally:
        _claim.reset(token)


def say_now(using: str = DEFAULT_DB_ALIAS) -> None:
    """Send the message now, in a transaction, for writes that Django's cursors do not see."""
    connection = connections[using]
    connection.ensure_connection()
    claim = _claim.get()
    if claim is not None and (watch := _watch_of(connection)) is not None:
        watch.say(claim)


class ActorMiddleware:
    """The middleware that names a request's user as the actor of its writes; sync and async."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[..., Any]) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)
        setting = getattr(settings, "REPLVIEW_ACTOR", None)
        self.of_request = (
            import_string(setting) if isinstance(setting, str) else setting or user_name
        )

    def __call__(self, request: Any) -> Any:
        """Handle a request with its user as the actor."""
        if self.is_async:
            return self._handle(request)
        token = _claim.set(lambda: request_document(request, self.of_request))
        try:
            return self.get_response(request)
        finally:
            _claim.reset(token)

    async def _handle(self, request: Any) -> Any:
        token = _claim.set(lambda: request_document(request, self.of_request))
        try:
            return await self.get_response(request)
        finally:
            _claim.reset(token)


def user_name(request: Any) -> str | None:
    """Return the signed-in user's name; reading the user may cost a query."""
    user = getattr(request, "_acached_user", None) or getattr(request, "user", None)
    return user.get_username() if user is not None and user.is_authenticated else None


def request_document(
    request: Any, of_request: Callable[[Any], Any] = user_name
) -> dict[str, object]:
    """Return the document of a request: the actor if known, method, path and request id."""
    document: dict[str, Any] = {"method": request.method, "path": request.path}
    if request_id := request.headers.get("X-Request-ID"):
        document["request_id"] = request_id
    answer = of_request(request)
    if isinstance(answer, Mapping):
        return {**document, **answer}
    return document if answer is None else {"actor": str(answer), **document}


class MessageWatch:
    """An execute wrapper that remembers the message of this connection's transaction."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        #: The claim whose message is in the open transaction; None without one.
        self.said: ReadClaim | None = None
        #: Savepoints made after the message: rolling back to one of them keeps the message.
        self.since: set[str] = set()
        self.busy = False

    def __call__(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        """Run a statement, preceded by the message if it is the transaction's first write."""
        claim = _claim.get()
        if self.busy or (claim is None and self.said is None):
            return execute(sql, params, many, context)
        text = _text(sql)
        status = self._status()
        if status == _IDLE:
            self.forget()
        if (savepoint := _savepoint_of(text)) is not None:
            self._savepoint(*savepoint)
        elif claim is None:
            pass
        elif status in (_IDLE, _IN_TRANSACTION) and self.said is not claim and writes(text):
            if status == _IDLE and self.connection.get_autocommit():
                return self._in_one_transaction(claim, lambda: execute(sql, params, many, context))
            self.say(claim)
        return execute(sql, params, many, context)

    def forget(self) -> None:
        """Forget the message: the transaction ended, or its savepoint was rolled back."""
        self.said = None
        self.since.clear()

    def say(self, claim: ReadClaim) -> None:
        """Send the message into the open transaction."""
        if self._may_say() and (message := self._message(claim)) is not None:
            with self.connection.wrap_database_errors:
                self._send(message)
            self.said = claim
            self.since.clear()

    def _in_one_transaction(self, claim: ReadClaim, execute: Callable[[], Any]) -> Any:
        """Run the message and the statement in one transaction, in autocommit mode."""
        if not self._may_say() or (message := self._message(claim)) is None:
            return execute()
        try:
            self._send(f"BEGIN; {message}")
        except Exception:
            # The transaction held only the message, so the statement can run without one.
            if self._status() != _IDLE:
                self._run("ROLLBACK")
            return execute()
        try:
            result = execute()
        except BaseException:
            if self.connection.connection is not None and self._status() != _IDLE:
                self._run("ROLLBACK")
            raise
        # Wrapped, because a constraint checked at COMMIT must raise Django's IntegrityError.
        with self.connection.wrap_database_errors:
            self._run("COMMIT")
        return result

    def _may_say(self) -> bool:
        """Return whether this connection's role may send messages; queried once."""
        driver = self.connection.connection
        if (is_allowed := _may_send.get(driver)) is None:
            with driver.cursor() as cursor:
                cursor.execute(_MAY_SEND)
                row = cursor.fetchone()
            is_allowed = _may_send[driver] = bool(row and row[0])
            if not is_allowed:
                _warn_once("its role may not send messages, or this is a standby")
        return is_allowed

    def _message(self, claim: ReadClaim) -> str | None:
        """Return the statement that sends the message; None without a document or on an error."""
        self.busy = True
        try:
            document = claim()
            return message_sql(document) if document else None
        except Exception as error:
            _warn_once(type(error).__name__)
            return None
        finally:
            self.busy = False

    def _send(self, message: str) -> None:
        """Send the message; after an error, query the right again before the next one."""
        try:
            self._run(message)
        except Exception as error:
            _may_send.pop(self.connection.connection, None)
            _warn_once(type(error).__name__)
            raise

    def _run(self, sql: str) -> None:
        """Execute outside Django's cursor, so that the application's query counts stay the same."""
        with self.connection.connection.cursor() as cursor:
            cursor.execute(sql)

    def _status(self) -> int:
        return int(self.connection.connection.info.transaction_status)

    def _savepoint(self, verb: str, name: str) -> None:
        if verb == "SAVEPOINT":
            self.since.add(name)
        elif verb == "ROLLBACK" and name not in self.since:
            self.forget()


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


def _text(sql: Any) -> str:
    """Return the statement as text: cursors also take bytes and psycopg's composed SQL."""
    if isinstance(sql, str):
        return sql
    if isinstance(sql, bytes):
        return sql.decode("utf-8", "replace")
    try:
        return str(sql.as_string(None))
    except Exception:
        return str(sql)


def _warn_once(why: str) -> None:
    """Log one warning a process, without any value; the statements run without an actor."""
    if not _warn_once.warned:  # type: ignore[attr-defined]
        _warn_once.warned = True  # type: ignore[attr-defined]
        _log.warning("replview cannot say who writes (%s): it goes on unsaid", why)


_warn_once.warned = False  # type: ignore[attr-defined]


def _watch_of(connection: Any) -> MessageWatch | None:
    return next(
        (wrapper for wrapper in connection.execute_wrappers if isinstance(wrapper, MessageWatch)),
        None,
    )


def _watch(connection: Any, **_: Any) -> None:
    """Wrap every statement of a PostgreSQL connection, for as long as it lives."""
    if connection.vendor != "postgresql":
        return
    if (watch := _watch_of(connection)) is not None:
        watch.forget()
        return
    # Insert it first, because Django's own ``execute_wrapper()`` pops the last one when it ends.
    connection.execute_wrappers.insert(0, MessageWatch(connection))


connection_created.connect(_watch, dispatch_uid="replview.actors.django")
for _open in connections.all(initialized_only=True):
    if _open.connection is not None:
        _watch(_open)

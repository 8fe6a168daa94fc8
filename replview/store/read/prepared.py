"""Statements over every partition of ``change``, planned once a session instead of at every use.

The planner takes 10 to 20 ms for a statement that names ninety partitions and executes in 2: such
a statement is prepared in the session at its first use, with a plan that holds for any parameters,
and only executed afterwards. A PREPARE outlives a rollback; a closed session forgets it, and so do
we. Each use is one query; the first of a session costs two round trips more.

PREPARE in SQL, under a name made of the statement itself, and not psycopg's own prepared
statements: those are numbered, so behind a pooler that lends a server session out by transaction
``_pg3_0`` may be another client's, and another statement's. Ours is this statement or no statement.

``plan_cache_mode`` is set for the session: it concerns prepared statements only, and nothing else
prepares any on these connections (parameters are bound on the client).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from psycopg import Connection
from psycopg.errors import DuplicatePreparedStatement, FeatureNotSupported, InvalidSqlStatementName

Parameters = Sequence[Any] | Mapping[str, Any]

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|(s)|(%))")
#: Session → the statements prepared in it.
_prepared: "WeakKeyDictionary[Connection[Any], set[str]]" = WeakKeyDictionary()
#: Servers whose sessions have forgotten a statement: behind a pooler, not prepared.
_pooled: set[Any] = set()


class Preparing(Protocol):
    """What a session gives to have statements prepared in it."""

    database_error: type[Exception]

    @property
    def connection(self) -> Connection[Any]:
        """The connection itself."""

    @property
    def server(self) -> Any:
        """What stands for the server, whatever the connection."""

    @property
    def in_transaction(self) -> bool:
        """An error would end somebody else's transaction."""

    def errors(self) -> AbstractContextManager[object]:
        """Within, errors are raised as ``rows`` raises them."""

    def rows(self, statement: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement."""


def prepared_rows(
    session: Preparing, statement: str, parameters: Parameters
) -> list[tuple[Any, ...]]:
    """The rows of a statement with ``%s`` or ``%(name)s``, as a cursor would give them.

    The server deduces the parameters' types from the statement alone: one that says too little
    (``%s IS NULL``) or two things (``%(n)s`` as a number and as a text) needs a cast.
    """
    if session.server in _pooled:
        return session.rows(statement, parameters or None)
    text, name, order = _numbered(statement)
    values = [parameters[key] for key in order]  # type: ignore[index]
    marks = f"({', '.join(['%s'] * len(values))})" if values else ""
    try:
        _prepare(session, name, text)
        return session.rows(f"EXECUTE {name}{marks}", values or None)
    except session.database_error as error:
        if not _is_forgotten(session, error, name) or session.in_transaction:
            raise
    return session.rows(statement, parameters or None)


def array_text(numbers: Iterable[int]) -> str:
    """An array as a parameter: psycopg looks at each element of a list with regular expressions,
    and searches give thousands.
    """
    return "{" + ",".join(map(str, numbers)) + "}"


def _prepare(session: Preparing, name: str, text: str) -> None:
    """Unless this session has done it; not counted among the queries."""
    connection = session.connection
    known = _prepared.setdefault(connection, set())
    if name in known:
        return
    with session.errors():
        # Again for each statement: unlike a PREPARE it is taken back by a rollback.
        connection.execute("SET plan_cache_mode = force_generic_plan")
        try:
            connection.execute(f"PREPARE {name} AS {text}".encode())
        except DuplicatePreparedStatement:
            # Another client's of the same pooler: the very same statement.
            if session.in_transaction:
                raise
    known.add(name)


def _is_forgotten(session: Preparing, error: Exception, name: str) -> bool:
    """Whether the statement is not there, or no longer fits its tables, and can be run plainly."""
    cause = error.__cause__ or error
    if isinstance(cause, InvalidSqlStatementName):
        _pooled.add(session.server)
        return True
    if isinstance(cause, FeatureNotSupported):
        # "cached plan must not change result type": a migration. Prepared anew at its next use.
        connection = session.connection
        _prepared.setdefault(connection, set()).discard(name)
        if not session.in_transaction:
            connection.execute(f"DEALLOCATE {name}".encode())
        return True
    return False


@lru_cache(maxsize=256)
def _numbered(statement: str) -> tuple[str, str, tuple[int | str, ...]]:
    """The statement with ``$1``, its name, and which parameter each of these is."""
    order: list[int | str] = []

    def number(found: re.Match[str]) -> str:
        named, positional, _ = found.groups()
        if named is None and positional is None:
            return "%"
        if named is None or named not in order:
            order.append(len(order) if named is None else named)
            return f"${len(order)}"
        return f"${order.index(named) + 1}"

    text = _PLACEHOLDER.sub(number, statement)
    name = f"replview_{hashlib.blake2s(text.encode(), digest_size=12).hexdigest()}"
    return text, name, tuple(order)

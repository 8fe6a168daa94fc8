"""Statements over every partition of ``change``, planned once a session instead of at every use.

The planner takes 10 to 20 ms for a statement that names ninety partitions and executes in 2: such
a statement is prepared in the session at its first use, with a plan that holds for any parameters,
and only executed afterwards. A PREPARE outlives a rollback; a closed session forgets it, and so do
we. Each use is one query; the first of a session costs two round trips more.

PREPARE in SQL, under a name made of the statement itself, and not psycopg's own prepared
statements: those are numbered, so behind a pooler that lends a server session out by transaction
``_pg3_0`` may be another client's, and another statement's. Ours is this statement or no statement.

``plan_cache_mode`` is set for the session: it concerns prepared statements only, and nothing else
prepares any on these connections (Django binds parameters on the client).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from django.db import DatabaseError, connection
from psycopg import Connection
from psycopg.errors import DuplicatePreparedStatement, FeatureNotSupported, InvalidSqlStatementName

Parameters = Sequence[Any] | Mapping[str, Any]

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|(s)|(%))")
#: Session → the statements prepared in it.
_prepared: "WeakKeyDictionary[Connection[Any], set[str]]" = WeakKeyDictionary()
#: Aliases of databases whose sessions have forgotten a statement: behind a pooler, not prepared.
_pooled: set[str] = set()


def prepared_rows(statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    """The rows of a statement with ``%s`` or ``%(name)s``, as a cursor would give them.

    The server deduces the parameters' types from the statement alone: one that says too little
    (``%s IS NULL``) or two things (``%(n)s`` as a number and as a text) needs a cast.
    """
    if connection.alias in _pooled:
        return _rows(statement, parameters)
    text, name, order = _numbered(statement)
    values = [parameters[key] for key in order]  # type: ignore[index]
    marks = f"({', '.join(['%s'] * len(values))})" if values else ""
    try:
        _prepare(name, text)
        return _rows(f"EXECUTE {name}{marks}", values)
    except DatabaseError as error:
        if not _is_forgotten(error, name) or connection.in_atomic_block:
            raise
    return _rows(statement, parameters)


def array_text(numbers: Iterable[int]) -> str:
    """An array as a parameter: psycopg looks at each element of a list with regular expressions,
    and searches give thousands.
    """
    return "{" + ",".join(map(str, numbers)) + "}"


def _rows(statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return list(cursor.fetchall())


def _session() -> "Connection[Any]":
    connection.ensure_connection()
    session: Connection[Any] = connection.connection
    return session


def _prepare(name: str, text: str) -> None:
    """Unless this session has done it; not counted among the queries."""
    session = _session()
    known = _prepared.setdefault(session, set())
    if name in known:
        return
    with connection.wrap_database_errors:
        # Again for each statement: unlike a PREPARE it is taken back by a rollback.
        session.execute("SET plan_cache_mode = force_generic_plan")
        try:
            session.execute(f"PREPARE {name} AS {text}".encode())
        except DuplicatePreparedStatement:
            # Another client's of the same pooler: the very same statement.
            if connection.in_atomic_block:
                raise
    known.add(name)


def _is_forgotten(error: DatabaseError, name: str) -> bool:
    """Whether the statement is not there, or no longer fits its tables, and can be run plainly."""
    if isinstance(error.__cause__, InvalidSqlStatementName):
        _pooled.add(connection.alias)
        return True
    if isinstance(error.__cause__, FeatureNotSupported):
        # "cached plan must not change result type": a migration. Prepared anew at its next use.
        session = _session()
        _prepared.setdefault(session, set()).discard(name)
        if not connection.in_atomic_block:
            session.execute(f"DEALLOCATE {name}".encode())
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

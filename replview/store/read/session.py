"""A session of the record runs queries, and knows what its reader may see.

Every query of the record takes one. Management commands and Spark make a ``ReadSession`` of a plain
psycopg connection. Code with Django's connection makes a ``DjangoSession``
(``store.django_session``), so that its statements are counted, logged and bounded like all others.
"""

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.errors import DuplicatePreparedStatement, FeatureNotSupported, InvalidSqlStatementName
from psycopg.pq import TransactionStatus
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.string import TextLoader

from replview.store.read.visibility import Visibility, nobodys_visibility

Statement = str | sql.SQL | sql.Composed
Parameters = Sequence[Any] | Mapping[str, Any]
#: Reads the labels of an enum from its source, by relation, type's oid and enum's name; None: they
#: cannot be read.
LabelReader = Callable[[int, int, str], Sequence[str] | None]

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|(s)|(%))")
#: Names of the statements that are prepared in each connection.
_prepared: "WeakKeyDictionary[psycopg.Connection[Any], set[str]]" = WeakKeyDictionary()
#: Servers behind a pooler, whose sessions lost a prepared statement: nothing is prepared there.
_pooled: set[Hashable] = set()


def array_text(numbers: Iterable[int]) -> str:
    """Return an array as a text parameter: psycopg puts each element of a list through regexes."""
    return "{" + ",".join(map(str, numbers)) + "}"


class MomentLoader(TimestamptzLoader):
    """A loader of ``timestamptz`` that uses Python's parser, which is five times as fast.

    psycopg's parser takes over for infinity and years BC.
    """

    #: Django replaces the loader unless this is the time zone it expects.
    timezone = dt.UTC

    def load(self, data: Buffer) -> dt.datetime:
        """Return the moment in UTC."""
        try:
            return dt.datetime.fromisoformat(bytes(data).decode()).astimezone(dt.UTC)
        except ValueError:
            return super().load(data).astimezone(dt.UTC)


class ReadSession:
    """A connection to the store and a visibility; by default every table, no masked column."""

    #: The error that any failing statement raises, and in ``data_error`` the one for a bad value.
    database_error: type[Exception] = psycopg.Error
    data_error: type[Exception] = psycopg.DataError
    #: Reads the current labels of an enum from its source; None: the source is out of reach here.
    read_labels: LabelReader | None = None

    def __init__(
        self, connection: psycopg.Connection[Any] | None, visibility: Visibility | None = None
    ) -> None:
        self._connection = connection
        self.visibility = visibility or nobodys_visibility(self.rows)

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """Return the connection itself, for operations other than queries."""
        assert self._connection is not None
        return self._connection

    @property
    def server(self) -> Hashable:
        """Return a key that identifies the server, whatever the connection."""
        info = self.connection.info
        return info.host, info.port, info.dbname

    @property
    def server_version(self) -> int:
        """Return the server's version in libpq's form, such as 180004."""
        return self.connection.info.server_version

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction that the caller began is open: an error would abort it."""
        return self.connection.info.transaction_status != TransactionStatus.IDLE

    def source_ids(self) -> list[int] | None:
        """Return the sources that the reader may see; None: all."""
        sources = self.visibility.sources
        return None if sources is None else sorted(sources)

    def rows(
        self, statement: Statement, parameters: Parameters | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement. The client binds parameters; JSON comes as text."""
        query = statement.encode() if isinstance(statement, str) else statement
        with psycopg.ClientCursor(self.connection) as cursor:
            cursor.adapters.register_loader("jsonb", TextLoader)
            cursor.adapters.register_loader("timestamptz", MomentLoader)
            cursor.execute(query, parameters)
            return cursor.fetchall()

    def prepared_rows(self, statement: Statement, parameters: Parameters) -> list[tuple[Any, ...]]:
        """Return the rows of a statement over all partitions of ``change``, prepared only once.

        Parameters are ``%s`` or ``%(name)s``. The planner takes 10 to 20 ms for a statement over
        ninety partitions, which executes in 2 ms. So a session prepares it at its first use, with a
        plan for any parameters, and only executes it afterwards. A PREPARE outlives a rollback; a
        closed session loses it. Each use is one query; the first of a session takes two more round
        trips.

        The name of the prepared statement is a hash of its text. A pooler in transaction mode lends
        server sessions to many clients, where psycopg's own ``_pg3_0`` may be another client's
        statement.

        The server deduces the parameters' types from the statement alone. A parameter of unclear
        type (``%s IS NULL``), or of two (``%(n)s`` as a number and as a text), needs a cast.
        """
        if self.server in _pooled:
            return self.rows(statement, parameters or None)
        text, name, order = _numbered(
            statement if isinstance(statement, str) else statement.as_string()
        )
        values = [parameters[key] for key in order]  # type: ignore[index]
        marks = f"({', '.join(['%s'] * len(values))})" if values else ""
        try:
            self._prepare(name, text)
            return self.rows(f"EXECUTE {name}{marks}", values or None)
        except self.database_error as error:
            if not self._is_forgotten(error, name) or self.in_transaction:
                raise
        return self.rows(statement, parameters or None)

    def _prepare(self, name: str, text: str) -> None:
        """Prepare the statement unless this session has it; this does not count as a query."""
        connection = self.connection
        prepared = _prepared.setdefault(connection, set())
        if name in prepared:
            return
        with self.errors():
            # The setting applies to the whole session: nothing else prepares statements on these
            # connections. It is repeated for each statement, since a rollback reverts it, unlike a
            # PREPARE.
            connection.execute("SET plan_cache_mode = force_generic_plan")
            try:
                connection.execute(f"PREPARE {name} AS {text}".encode())
            except DuplicatePreparedStatement:
                # Another client of the same pooler prepared the very same statement.
                if self.in_transaction:
                    raise
        prepared.add(name)

    def _is_forgotten(self, error: Exception, name: str) -> bool:
        """Return whether the prepared statement is lost or outdated, so that the text can run."""
        cause = error.__cause__ or error
        if isinstance(cause, InvalidSqlStatementName):
            _pooled.add(self.server)
            return True
        if isinstance(cause, FeatureNotSupported):
            # The error is "cached plan must not change result type", after a migration. The
            # statement is prepared again at its next use.
            connection = self.connection
            _prepared.setdefault(connection, set()).discard(name)
            if not self.in_transaction:
                connection.execute(f"DEALLOCATE {name}".encode())
            return True
        return False

    def errors(self) -> AbstractContextManager[object]:
        """Return a context in which errors are raised as ``rows`` raises them."""
        return nullcontext()

    def savepoint(self) -> AbstractContextManager[object]:
        """Return a context whose failure rolls back no more than what ran within."""
        return self.connection.transaction() if self.in_transaction else nullcontext()


@lru_cache(maxsize=256)
def _numbered(statement: str) -> tuple[str, str, tuple[int | str, ...]]:
    """Return the statement with ``$1``, its name, and the parameter of each number."""
    order: list[int | str] = []

    def number(placeholder: re.Match[str]) -> str:
        name_key, is_positional, _ = placeholder.groups()
        if name_key is None and is_positional is None:
            return "%"
        if name_key is None or name_key not in order:
            order.append(len(order) if name_key is None else name_key)
            return f"${len(order)}"
        return f"${order.index(name_key) + 1}"

    text = _PLACEHOLDER.sub(number, statement)
    name = f"replview_{hashlib.blake2s(text.encode(), digest_size=12).hexdigest()}"
    return text, name, tuple(order)

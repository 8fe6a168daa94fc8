"""A session of the record: where statements run, and what may be seen of what they give.

Every read of the record takes one. Commands of their own and Spark make a ``ReadSession`` of a
plain psycopg connection; what has Django's connection makes a ``DjangoSession`` of it
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
from psycopg.abc import Buffer
from psycopg.errors import DuplicatePreparedStatement, FeatureNotSupported, InvalidSqlStatementName
from psycopg.pq import TransactionStatus
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.string import TextLoader

from replview.store.read.visibility import Visibility, nobodys_visibility

Parameters = Sequence[Any] | Mapping[str, Any]
#: ``labels(relation, type's oid, enum's name)``: None where they cannot be read.
LabelReader = Callable[[int, int, str], Sequence[str] | None]

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|(s)|(%))")
#: Session → the statements prepared in it.
_prepared: "WeakKeyDictionary[psycopg.Connection[Any], set[str]]" = WeakKeyDictionary()
#: Servers whose sessions have forgotten a statement: behind a pooler, not prepared.
_pooled: set[Hashable] = set()


def array_text(numbers: Iterable[int]) -> str:
    """An array as a parameter: of a list psycopg puts each element through regular expressions."""
    return "{" + ",".join(map(str, numbers)) + "}"


class MomentLoader(TimestamptzLoader):
    """``timestamptz`` by Python's own parser, five times as fast; infinity and BC by the other."""

    #: Django puts in a loader of its own where this is not the zone it wants.
    timezone = dt.UTC

    def load(self, data: Buffer) -> dt.datetime:
        try:
            return dt.datetime.fromisoformat(bytes(data).decode()).astimezone(dt.UTC)
        except ValueError:
            return super().load(data).astimezone(dt.UTC)


class ReadSession:
    """A connection to the store with what may be seen: by default every table, no masked column."""

    #: What a failing statement raises, and one that fails for a value it read.
    database_error: type[Exception] = psycopg.Error
    data_error: type[Exception] = psycopg.DataError
    #: Reads the labels that an enum has on its source now; None: the source cannot be reached here.
    read_labels: LabelReader | None = None

    def __init__(
        self, connection: psycopg.Connection[Any] | None, visibility: Visibility | None = None
    ) -> None:
        self._connection = connection
        self.visibility = visibility or nobodys_visibility(self.rows)

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection itself, for what is no query."""
        assert self._connection is not None
        return self._connection

    @property
    def server(self) -> Hashable:
        """What stands for the server, whatever the connection."""
        info = self.connection.info
        return info.host, info.port, info.dbname

    @property
    def server_version(self) -> int:
        """Return the server's version as libpq has it: 180004."""
        return self.connection.info.server_version

    @property
    def in_transaction(self) -> bool:
        """An error would end a transaction that began elsewhere."""
        return self.connection.info.transaction_status != TransactionStatus.IDLE

    def source_ids(self) -> list[int] | None:
        """The sources that are seen; None: all."""
        seen = self.visibility.sources
        return None if seen is None else sorted(seen)

    def rows(self, statement: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement; its parameters are bound here, JSON comes as text."""
        with psycopg.ClientCursor(self.connection) as cursor:
            cursor.adapters.register_loader("jsonb", TextLoader)
            cursor.adapters.register_loader("timestamptz", MomentLoader)
            cursor.execute(statement.encode(), parameters)
            return cursor.fetchall()

    def prepared_rows(self, statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        """The same of a statement that names every partition of ``change``, with ``%s`` or
        ``%(name)s``: planned once a session instead of at every use.

        The planner takes 10 to 20 ms for a statement over ninety partitions and executes in 2: it
        is prepared at its first use, with a plan that holds for any parameters, and only executed
        afterwards. A PREPARE outlives a rollback; a closed session forgets it, and so do we. Each
        use is one query; the first of a session costs two round trips more.

        PREPARE in SQL, under a name made of the statement itself: behind a pooler that lends server
        sessions out by transaction, psycopg's own ``_pg3_0`` may be another client's, and another
        statement's.

        The server deduces the parameters' types from the statement alone: one that says too little
        (``%s IS NULL``) or two things (``%(n)s`` as a number and as a text) needs a cast.
        """
        if self.server in _pooled:
            return self.rows(statement, parameters or None)
        text, name, order = _numbered(statement)
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
        """Unless this session has done it; not counted among the queries."""
        connection = self.connection
        known = _prepared.setdefault(connection, set())
        if name in known:
            return
        with self.errors():
            # For the session: nothing else prepares any statement on these connections. Again for
            # each statement: unlike a PREPARE it is taken back by a rollback.
            connection.execute("SET plan_cache_mode = force_generic_plan")
            try:
                connection.execute(f"PREPARE {name} AS {text}".encode())
            except DuplicatePreparedStatement:
                # Another client's of the same pooler: the very same statement.
                if self.in_transaction:
                    raise
        known.add(name)

    def _is_forgotten(self, error: Exception, name: str) -> bool:
        """Whether it is not there, or no longer fits its tables, and can be run plainly."""
        cause = error.__cause__ or error
        if isinstance(cause, InvalidSqlStatementName):
            _pooled.add(self.server)
            return True
        if isinstance(cause, FeatureNotSupported):
            # "cached plan must not change result type": a migration. Prepared anew at its next use.
            connection = self.connection
            _prepared.setdefault(connection, set()).discard(name)
            if not self.in_transaction:
                connection.execute(f"DEALLOCATE {name}".encode())
            return True
        return False

    def errors(self) -> AbstractContextManager[object]:
        """Have the block raise errors as ``rows`` raises them."""
        return nullcontext()

    def savepoint(self) -> AbstractContextManager[object]:
        """What fails within takes nothing else back."""
        return self.connection.transaction() if self.in_transaction else nullcontext()


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

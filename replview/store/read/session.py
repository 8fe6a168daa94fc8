"""A session of the record: where statements run, and what may be seen of what they give.

Every read of the record takes one. Commands of their own and Spark make a ``ReadSession`` of a
plain psycopg connection; what has Django's connection makes a ``DjangoSession`` of it
(``store.django_session``), so that its statements are counted, logged and bounded like all others.
"""

import datetime as dt
from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.pq import TransactionStatus
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.string import TextLoader

from replview.store.read.prepared import Parameters, prepared_rows
from replview.store.read.visibility import Grants, Visibility, read_rules


class MomentLoader(TimestamptzLoader):
    """``timestamptz`` by Python's own parser, which takes a fifth of the time of the one that knows
    every style of dates. What that does not know (infinity, BC) is left to the other.
    """

    #: Django puts in a loader of its own where this is not the zone it wants.
    timezone = dt.UTC

    def load(self, data: Buffer) -> dt.datetime:
        """The moment, in UTC as sessions are."""
        try:
            return dt.datetime.fromisoformat(bytes(data).decode()).astimezone(dt.UTC)
        except ValueError:
            return super().load(data).astimezone(dt.UTC)


class ReadSession:
    """A connection to the store with what may be seen through it.

    Without a visibility nobody in particular asks: every table is seen, and no masked column.
    """

    #: What a failing statement raises, and one that fails for a value it read.
    database_error: type[Exception] = psycopg.Error
    data_error: type[Exception] = psycopg.DataError

    def __init__(
        self, connection: psycopg.Connection[Any] | None, visibility: Visibility | None = None
    ) -> None:
        self._connection = connection
        self.visibility = visibility or Visibility(self.rows, self._nobodys_grants)

    def _nobodys_grants(self) -> Grants:
        return Grants(rules=read_rules(self.rows))

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
        """As libpq tells it: 180004."""
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
        """The same of a statement that names every partition of ``change``: planned once."""
        return prepared_rows(self, statement, parameters)

    def errors(self) -> AbstractContextManager[object]:
        """Within, errors are raised as ``rows`` raises them."""
        return nullcontext()

    def savepoint(self) -> AbstractContextManager[object]:
        """What fails within takes nothing else back."""
        return self.connection.transaction() if self.in_transaction else nullcontext()

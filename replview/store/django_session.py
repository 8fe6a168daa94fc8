"""This module makes Django's connection a session of the record, and reads the mask rules."""

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psycopg
from django.db import DatabaseError, DataError, connection, transaction

from replview.store.models.seen import seen_ids
from replview.store.read.mask_rules import MaskableColumn, Rule, When, masked_by
from replview.store.read.session import Parameters, ReadSession, Statement
from replview.store.read.visibility import Visibility, nobodys_visibility, read_rules


def rows(statement: Statement, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
    """Run a statement on Django's connection, and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


#: The visibility of commands and workers, which see everything.
nobodys = nobodys_visibility(rows)


class DjangoSession(ReadSession):
    """A session of the record on this thread's Django connection, as it is at each statement."""

    database_error = DatabaseError
    data_error = DataError

    def __init__(self, visibility: Visibility = nobodys) -> None:
        super().__init__(None, visibility)

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """Return the psycopg connection behind Django's, connected if needed."""
        connection.ensure_connection()
        session: psycopg.Connection[Any] = connection.connection
        return session

    @property
    def server(self) -> Hashable:
        """Return a key of the server, for caches: Django's alias of the connection."""
        return connection.alias

    @property
    def server_version(self) -> int:
        """Return the server's version, which Django queries once."""
        return int(getattr(connection, "pg_version", 0))

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction block is open (``atomic``)."""
        return connection.in_atomic_block

    def source_ids(self) -> list[int] | None:
        """Return the ids of visible sources (``models.seen``), to restrict a query over sources."""
        return seen_ids()

    def rows(
        self, statement: Statement, parameters: Parameters | None = None
    ) -> list[tuple[Any, ...]]:
        """Run a statement on Django's cursor, which counts and logs it, with Django's errors."""
        return rows(statement, parameters)

    def errors(self) -> AbstractContextManager[object]:
        """Return a context manager that turns psycopg's errors into Django's."""
        context: AbstractContextManager[object] = connection.wrap_database_errors
        return context

    def savepoint(self) -> AbstractContextManager[object]:
        """Protect the current transaction, if there is one, from errors in the block."""
        return transaction.atomic() if connection.in_atomic_block else nullcontext()


def current_rules() -> tuple[Rule, ...]:
    """Return the mask rules that hold now."""
    return read_rules(rows)


def masked_columns(
    source_id: int, schema: str, table: str, columns: Sequence[MaskableColumn]
) -> dict[str, When]:
    """Return ``{column: where it is masked}`` of a table, by the rules that hold now."""
    return masked_by(current_rules(), source_id, schema, table, columns)

"""Django's connection as a session of the record, and the mask rules as they are now."""

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psycopg
from django.db import DatabaseError, DataError, connection, transaction

from replview.store.models.seen import seen_ids
from replview.store.read.mask_rules import ColumnShape, Rule, When, masked_by
from replview.store.read.session import Parameters, ReadSession
from replview.store.read.visibility import Visibility, nobodys_visibility, read_rules


def rows(statement: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


#: Of commands and workers.
nobodys = nobodys_visibility(rows)


class DjangoSession(ReadSession):
    """This thread's connection, whichever that is when a statement runs."""

    database_error = DatabaseError
    data_error = DataError

    def __init__(self, visibility: Visibility = nobodys) -> None:
        super().__init__(None, visibility)

    @property
    def connection(self) -> psycopg.Connection[Any]:
        connection.ensure_connection()
        session: psycopg.Connection[Any] = connection.connection
        return session

    @property
    def server(self) -> Hashable:
        return connection.alias

    @property
    def server_version(self) -> int:
        """Return the server's version, which Django asks for once."""
        return int(getattr(connection, "pg_version", 0))

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction block is open (``atomic``)."""
        return connection.in_atomic_block

    def source_ids(self) -> list[int] | None:
        """Those of ``models.seen``, for which every query over sources asks."""
        return seen_ids()

    def rows(self, statement: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Run a statement by Django's cursor, which counts and logs it and raises its errors."""
        return rows(statement, parameters)

    def errors(self) -> AbstractContextManager[object]:
        found: AbstractContextManager[object] = connection.wrap_database_errors
        return found

    def savepoint(self) -> AbstractContextManager[object]:
        """Protect the current transaction, where there is one, from what fails in the block."""
        return transaction.atomic() if connection.in_atomic_block else nullcontext()


def current_rules() -> tuple[Rule, ...]:
    return read_rules(rows)


def masked_columns(
    source_id: int, schema: str, table: str, columns: Sequence[ColumnShape]
) -> dict[str, When]:
    """``{column: where it is masked}`` of a table, by the rules as they are now."""
    return masked_by(current_rules(), source_id, schema, table, columns)

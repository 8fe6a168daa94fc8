"""Connections through a pooler that gives each transaction another server connection.

What a session sets there stays with the server connection and meets whoever gets it next: an
application would find itself read-only. So every statement is a transaction with its bounds in it.
"""

from typing import Any

import psycopg
from psycopg import pq, sql


def pool_safely(
    connection: psycopg.Connection[Any], *, read_only: bool, timeouts_ms: dict[str, int]
) -> None:
    """Bound all statements of this connection, without setting anything for its session."""
    access = "READ ONLY" if read_only else "READ WRITE"
    bounds: list[sql.Composable] = [
        sql.SQL("SET TRANSACTION {}").format(sql.SQL(access)),
        sql.SQL("SET LOCAL search_path = pg_catalog"),
    ]
    bounds += [
        sql.SQL("SET LOCAL {} = {}").format(sql.Identifier(name), sql.Literal(value))
        for name, value in timeouts_ms.items()
    ]
    together = sql.SQL("; ").join(bounds)

    class BoundCursor(psycopg.Cursor[Any]):
        """A cursor whose statements outside a transaction are one each."""

        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            """As ``psycopg.Cursor.execute``."""
            if self.connection.info.transaction_status != pq.TransactionStatus.IDLE:
                return super().execute(query, params, **options)
            with self.connection.transaction():
                super().execute(together)
                return super().execute(query, params, **options)

    connection.cursor_factory = BoundCursor

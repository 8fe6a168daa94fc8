"""What a catalog query is: its name, what it tells, its SQL. Names appear in errors and logs."""

from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg.rows import dict_row

from replview.catalog.connections import Connection


@dataclass(frozen=True, slots=True)
class Query:
    """One read of a source's catalog. Parameters are always passed apart, never formatted in."""

    #: ``slots``, ``tables`` …
    name: str
    #: One sentence: what the rows tell, and what the reader needs to be allowed.
    about: str
    sql: LiteralString

    def rows(self, connection: Connection, *parameters: Any) -> list[dict[str, Any]]:
        """All rows, as dictionaries. Raises ``psycopg.Error``."""
        with connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(self.sql, parameters or None).fetchall()

    def row(self, connection: Connection, *parameters: Any) -> dict[str, Any]:
        """The one row of a query that always has one."""
        return self.rows(connection, *parameters)[0]

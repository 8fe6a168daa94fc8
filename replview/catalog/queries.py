"""What a catalog query is: its name, what it tells, its SQL. Names appear in errors and logs."""

from dataclasses import dataclass
from typing import Any, LiteralString

import orjson
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.rows import dict_row

from replview.catalog.connections import Connection


class ForgivingJson(Loader):
    """JSON whose texts may hold bytes of another encoding: a role's name does not end a look."""

    def load(self, data: Buffer) -> Any:
        """The value; what is no UTF-8 in it becomes U+FFFD."""
        return orjson.loads(bytes(data).decode("utf-8", "replace"))


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

    def json_row(self, connection: Connection, *parameters: Any) -> dict[str, Any]:
        """The one row of a query with columns of type json, which are read whatever they hold."""
        with connection.cursor(row_factory=dict_row) as cursor:
            cursor.adapters.register_loader("json", ForgivingJson)
            row = cursor.execute(self.sql, parameters or None).fetchone()
        assert row is not None
        return row

"""Tables known by name alone: their oids, types and keys from the source's catalog, as it is now.

A plugin that writes text tells of a table only its name, and of a type only how it is written. The
catalog may have gone on since; what it does not have any more stays unknown.
"""

import hashlib
from collections.abc import Callable, Sequence

from decoder.messages import Column, Relation
from replview.catalog.named_tables import NamedTable

#: Asks the catalog; raises ``psycopg.Error`` where it cannot be asked.
TableReader = Callable[[str, str], NamedTable | None]


class NamedTables:
    """The tables of one session, asked for once for each shape."""

    def __init__(self, read: TableReader) -> None:
        self._read = read
        self._tables: dict[tuple[str, str], NamedTable | None] = {}

    def columns_of(self, schema: str, table: str) -> Sequence[Column] | None:
        """A table's columns now, as ``decoder.plugins.relations.ColumnsOf`` wants them."""
        found = self._look(schema, table)
        if found is None:
            return None
        return [Column(c.name, c.type_oid, c.typmod, c.is_key, c.type_name) for c in found.columns]

    def learn(self, relation: Relation) -> None:
        """Ask for the table of a shape that is new; the writer asks nothing."""
        if relation.oid == 0:
            self._look(relation.namespace, relation.name)

    def oid_of(self, relation: Relation) -> int:
        """The table's oid; for one that is gone a negative number, always the same for a name."""
        if relation.oid:
            return relation.oid
        found = self._tables.get((relation.namespace, relation.name))
        if found is not None:
            return found.oid
        name = f"{relation.namespace}\0{relation.name}".encode()
        return -1 - int.from_bytes(hashlib.sha256(name).digest()[:4], "big")

    def column_of(self, relation: Relation, column: Column) -> Column:
        """The column with its type's oid, where the catalog has one that reads alike."""
        found = self._tables.get((relation.namespace, relation.name))
        if column.type_name is None or found is None:
            return column
        for known in found.columns:
            told = column.type_name
            if known.name == column.name and known.type_name.split("(")[0] == told.split("(")[0]:
                return Column(
                    column.name, known.type_oid, known.typmod, column.is_key, known.type_name
                )
        return column

    def primary_key(self, relation: Relation) -> Sequence[str]:
        """The table's primary key now, in the order of its columns in the table."""
        found = self._tables.get((relation.namespace, relation.name))
        return [] if found is None else [column.name for column in found.columns if column.is_key]

    def _look(self, schema: str, table: str) -> NamedTable | None:
        self._tables[schema, table] = found = self._read(schema, table)
        return found

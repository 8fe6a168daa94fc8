"""This module finds tables that were altered and that the stream has not described again.

See *How altered tables and publications are noticed* in docs/architecture.md.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from decoder.scalars import LSN
from replview.catalog.stream_shape import AlteredTables
from replview.store.read.relation_shapes import made_anew
from replview.store.write.shapes import ColumnShape, Made, Shape, note_made

#: Reads the tables of these oids that no longer have these marks; None: the catalog cannot be read.
AlteredReader = Callable[[Collection[int], Mapping[int, str]], AlteredTables | None]
#: Returns the position of the server's WAL; None: it cannot be read.
PositionReader = Callable[[], LSN | None]

#: Seconds until a catalog that could not be read is asked again.
_AGAIN_SECONDS = 15.0
_OIDS = "SELECT oid FROM relation WHERE slot_id = %s AND system_identifier = %s AND oid > 0"
_CURRENT = """
    SELECT v.schema, v."table", v.replica_identity, v.columns, v.key_columns, v.made, v.id
    FROM relation r JOIN relation_version v ON v.id = r.current_version_id
    WHERE r.slot_id = %s AND r.system_identifier = %s AND r.oid = %s
"""


@dataclass(frozen=True, slots=True)
class AlteredTable:
    """An altered table has columns that are no longer those of its current version."""

    #: The current version's shape: the source has not described another one yet.
    shape: Shape
    #: The number, transaction and file of each column now; empty for a column that is gone.
    made: Made
    #: The position of the WAL by which the table had been altered.
    lsn: LSN


class CatalogLooks:
    """The looks of one receiver's session at the source's catalog, and what waits of them."""

    def __init__(
        self, slot_id: int, system_identifier: str, altered: AlteredReader, position: PositionReader
    ) -> None:
        self._table_keys = [slot_id, system_identifier]
        self._altered = altered
        self._position = position
        #: ``source.catalog_mark`` at the last look; None: there was none.
        self._mark: str | None = None
        self._next_at = 0.0
        self._marks: Mapping[int, str] = {}
        #: By oid: the position of the look, and the columns that it found.
        self._found: dict[int, tuple[LSN, Made]] = {}

    def look(self, store: psycopg.Connection[Any], mark: str) -> None:
        """Ask the catalog if its ``mark`` is another one; the store must not be in a transaction.

        The first look of a session is at all tables, as the catalog may have changed before it.
        """
        if mark == self._mark or time.monotonic() < self._next_at:
            return
        oids = [row[0] for row in store.execute(_OIDS, self._table_keys)]
        tables = self._altered(oids, self._marks) if oids else AlteredTables({}, {})
        position = self._position() if tables is not None and tables.columns else None
        if tables is None or (position is None and tables.columns):
            self._next_at = time.monotonic() + _AGAIN_SECONDS
            return
        self._mark, self._marks = mark, tables.marks
        if position is not None:
            self._found |= {oid: (position, columns) for oid, columns in tables.columns.items()}

    def forget(self, oid: int) -> None:
        """Drop the result for a table, because the stream has described it since."""
        self._found.pop(oid, None)

    def take(self, store: psycopg.Connection[Any], stored_lsn: int) -> list[AlteredTable]:
        """Return the altered tables found at or before ``stored_lsn``, and forget them."""
        oids = [oid for oid, (lsn, _) in self._found.items() if lsn <= stored_lsn]
        tables = []
        for oid in oids:
            lsn, columns = self._found.pop(oid)
            row = store.execute(_CURRENT, [*self._table_keys, oid]).fetchone()
            if row is None:
                continue
            former = row[5] or {}
            current = {name: columns.get(name, []) for name in former}
            if made_anew(former, current) & _with_file(former):
                tables.append(AlteredTable(_shape(oid, row), current, lsn))
            elif _with_file(former) == former.keys() and current != former:
                # VACUUM FULL gave the rows another file, or a setting of a column was altered. The
                # next look would take both together for a column that was rewritten.
                note_made(store, row[6], current)
        return tables


def _with_file(made: Made) -> set[str]:
    """Return the columns for which the catalog showed the transaction and the file."""
    return {name for name, facts in made.items() if len(facts) == 3}


def _shape(oid: int, row: Sequence[Any]) -> Shape:
    return Shape(
        oid=oid,
        schema=row[0],
        table=row[1],
        replica_identity=row[2],
        columns=[
            ColumnShape(c["name"], c["type_oid"], c["typmod"], c["type"], c["key"], c.get("base"))
            for c in row[3]
        ],
        key_columns=row[4],
    )

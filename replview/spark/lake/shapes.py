"""Read from the store how a table's rows are told apart, and which columns were altered."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from replview.parquet.archive.deleted import resolved
from replview.parquet.reading import connect
from replview.parquet.reading.slice_tables import chosen
from replview.parquet.slices import SliceTable, TableVersion
from replview.spark.options import Options
from replview.store.read.row_history.shapes import Shapes
from replview.store.read.session import ReadSession


@dataclass(frozen=True)
class TableShape:
    """A table with every version that the store knows by now."""

    table: SliceTable
    _shapes: Shapes

    @property
    def versions(self) -> Mapping[int, TableVersion]:
        """Return the versions by their number."""
        return {version.number: version for version in self.table.versions}

    @property
    def names(self) -> dict[str, str]:
        """Return the names of columns in the lake by their names on the source."""
        return {column.source_name: column.name for column in self.table.columns}

    @property
    def is_keyed(self) -> bool:
        """Return whether some version tells rows apart."""
        return bool(self.key_columns)

    @property
    def key_columns(self) -> list[str]:
        """Return the columns of the keys of all versions, by their names on the source."""
        return sorted({name for each in self.table.versions for name in each.key_columns})

    @property
    def inexact(self) -> set[str]:
        """Return the columns, as the lake names them, whose types cannot hold each value."""
        return {c.name for c in self.table.columns if not _is_exact(c.arrow)}

    def key(self, version: int) -> list[str]:
        """Return the columns, as the lake names them, that identify a row in a version.

        Under NOTHING, rows are only inserted, and keep the key of the version before or after.
        """
        own = self.versions[version]
        having = {each["name"] for each in own.columns}
        earlier = [each for each in self.table.versions if each.number < version]
        later = [each for each in self.table.versions if each.number > version]
        others = [*reversed(earlier), *later] if own.replica_identity == "NOTHING" else []
        for each in (own, *others):
            if each.key_columns and having.issuperset(each.key_columns):
                return [self.names[name] for name in each.key_columns]
        return []

    def altered(self, versions: Collection[int], one: int) -> list[str]:
        """Return the columns whose values in some of these versions say nothing about ``one``.

        A key that was retyped still names its row.
        """
        changed: set[str] = set()
        for each in {*versions} - {one}:
            both = self.versions[each], self.versions[one]
            keys = {*both[0].key_columns} & {*both[1].key_columns}
            changed |= self._shapes.altered_between(both[0].id, both[1].id) - keys
        return [lake for source, lake in self.names.items() if source in changed]


def _is_exact(arrow: pa.DataType) -> bool:
    kinds = (
        pa.types.is_integer, pa.types.is_string, pa.types.is_boolean, pa.types.is_binary,
        pa.types.is_floating,
    )  # fmt: skip
    return any(kind(arrow) for kind in kinds)


def read_shape(options: Options) -> TableShape:
    """Read the newest table of the relation's name. Raises ``StoreProblem``."""
    with connect(options.dsn) as connection:
        part = options.shown(connection, resolved(connection, options.request))
        table = chosen(connection, part, options.columns)
        return TableShape(table, Shapes.of(ReadSession(connection), [table.relation_id]))

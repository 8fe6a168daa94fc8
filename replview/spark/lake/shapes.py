"""Read from the store how a table's rows are told apart, and which columns were altered."""

from collections.abc import Mapping
from dataclasses import dataclass

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

    def key(self, version: int) -> list[str]:
        """Return the columns, as the lake names them, that identify a row in a version."""
        return [self.names[name] for name in self.versions[version].key_columns]

    def altered(self, earlier: int, later: int) -> list[str]:
        """Return the columns whose values in one version say nothing about a later one.

        A key that was retyped still names its row.
        """
        if earlier == later:
            return []
        one, other = self.versions[earlier].id, self.versions[later].id
        changed = self._shapes.altered_between(one, other)
        changed -= {*self.versions[earlier].key_columns} & {*self.versions[later].key_columns}
        return [lake for source, lake in self.names.items() if source in changed]

    def has(self, version: int, source_name: str) -> bool:
        """Return whether a version has a column."""
        return any(each["name"] == source_name for each in self.versions[version].columns)


def read_shape(options: Options) -> TableShape:
    """Read the newest table of the relation's name. Raises ``StoreProblem``."""
    with connect(options.dsn) as connection:
        part = options.shown(connection, resolved(connection, options.request))
        table = chosen(connection, part, options.columns)
        return TableShape(table, Shapes.of(ReadSession(connection), [table.relation_id]))

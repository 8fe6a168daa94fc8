"""The shapes of tables, derived from the rows of text output plugins.

pgoutput sends a Relation ahead of the changes; ``test_decoding`` and
``wal2json`` repeat names and types in every row. A row is *whole* (it has every
column, like an insert) or a *part* (a key, or an update without its unchanged
TOAST values). While a known shape covers a part, the part makes no shape of its own.
Otherwise a table's shape would alternate between its inserts and its deletes.

Every ``RelationMessage`` made here has oid 0, no replica identity and no typmods:
neither plugin sends them.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from decoder.messages import Column, NoValue, OldKind, RelationMessage, Value
from decoder.reader import ProtocolError

#: ``(schema, table)`` → the table's current columns in the source's catalog:
#: ``type_oid``; ``type_name`` as ``format_type(atttypid, atttypmod)`` returns it;
#: ``is_key`` for the columns of the primary key. ``None`` where unknown. It is called
#: only where a table's first row is a part, or where a part no longer fits.
ColumnsOf: TypeAlias = Callable[[str, str], Sequence[Column] | None]
TableName: TypeAlias = tuple[str, str]


class SentColumn(NamedTuple):
    """A column as named in a plugin's row."""

    name: str
    type_name: str | None
    #: ``pg_type.oid``; 0 when not sent.
    type_oid: int


Layout: TypeAlias = tuple[SentColumn, ...]
#: A column of the catalog → the column as the plugin's rows name it.
AsSent: TypeAlias = Callable[[Column], SentColumn]
#: Types of a fixed length, which are never TOASTed: bool, "char", name, int8, int2,
#: int4, oid, xid, point, float4, float8, macaddr8, money, macaddr; date, time,
#: timestamp, timestamptz, interval, timetz; uuid, pg_lsn.
_FIXED_LENGTH: Final = frozenset(
    {16, 18, 19, 20, 21, 23, 26, 28, 600, 700, 701, 774, 790, 829}
    | {1082, 1083, 1114, 1184, 1186, 1266, 2950, 3220}
)
#: A table's rows have few layouts; the limit keeps a stream of new ones from filling memory.
_MAX_FITS: Final = 1_000


class Fit(NamedTuple):
    """The assignment of a row's values to the columns of a relation."""

    relation: RelationMessage
    #: The column index of each value; ``None`` when the row is whole and in order.
    positions: tuple[int, ...] | None

    def place(self, values: list[Value], missing: NoValue) -> list[Value]:
        """Return a row in column order, from its values in the plugin's order."""
        if self.positions is None:
            return values
        row: list[Value] = [missing] * len(self.relation.columns)
        for position, value in zip(self.positions, values, strict=True):
            row[position] = value
        return row


class _KnownShape:
    """The shape of one table that is in force."""

    def __init__(
        self, table: TableName, layout: Layout, key: tuple[str, ...], complete: bool
    ) -> None:
        self.layout = layout
        self.key = key
        #: True when a whole row or the catalog gave the shape; else columns may be missing.
        self.complete = complete
        self.fits: dict[tuple[Layout, bool], Fit] = {}
        self.relation = RelationMessage(
            oid=0,
            namespace=table[0],
            name=table[1],
            replica_identity=None,
            columns=tuple(
                Column(column.name, column.type_oid, -1, column.name in key, column.type_name)
                for column in layout
            ),
        )


class PluginRelations:
    """The tables of one session. Equal shapes are always the same ``RelationMessage`` object."""

    def __init__(self, columns_of: ColumnsOf | None, as_sent: AsSent, *, keys_sent: bool) -> None:
        """Take the source of columns; ``keys_sent``: each row carries the primary key."""
        self._columns_of = columns_of
        self._as_sent = as_sent
        self._keys_sent = keys_sent
        self._tables: dict[TableName, _KnownShape] = {}
        #: The shape that the last call put in force. The caller sets it back to ``None``.
        self.changed: RelationMessage | None = None

    def whole(self, table: TableName, layout: Layout, key: tuple[str, ...] = ()) -> RelationMessage:
        """Return the relation of a whole row. A row that differs replaces the known shape."""
        shape = self._tables.get(table)
        if shape is None or shape.layout != layout or shape.key != key:
            return self._put(table, layout, key, complete=True)
        shape.complete = True
        return shape.relation

    def part(
        self, table: TableName, layout: Layout, key: tuple[str, ...] = (), *, updated: bool = False
    ) -> Fit:
        """Return the assignment of the values of a row that may lack columns.

        ``updated``: it is an update's new row, in which unchanged TOAST values are missing.
        """
        shape = self._tables.get(table)
        if shape is not None and shape.key == key:
            fit = shape.fits.get((layout, updated))
            if fit is not None:
                return fit
        if shape is None or shape.key != key or not _covers(shape.layout, layout, updated):
            shape = self._renew(table, shape, layout, key, updated)
        return self._fit(shape, layout, updated)

    def named(self, table: TableName) -> RelationMessage:
        """Return the relation of a change that names only its table."""
        shape = self._tables.get(table)
        if shape is not None:
            return shape.relation
        columns = None if self._columns_of is None else self._columns_of(*table)
        layout = tuple(map(self._as_sent, columns or ()))
        key = [column.name for column in columns or () if column.is_key and self._keys_sent]
        return self._put(table, layout, tuple(key), complete=columns is not None)

    def old_kind(self, table: TableName, count: int) -> OldKind:
        """Return ``O`` for an old row of all columns, unless all are key columns; else ``K``."""
        shape = self._tables[table]
        size = len(shape.layout)
        return "O" if shape.complete and count == size > len(shape.key) else "K"

    def _put(
        self, table: TableName, layout: Layout, key: tuple[str, ...], *, complete: bool
    ) -> RelationMessage:
        if len({column.name for column in layout}) != len(layout):
            raise ProtocolError("RelationMessage", None, "columns of different names")
        shape = self._tables[table] = _KnownShape(table, layout, key, complete)
        self.changed = shape.relation
        return shape.relation

    def _renew(
        self,
        table: TableName,
        shape: _KnownShape | None,
        layout: Layout,
        key: tuple[str, ...],
        updated: bool,
    ) -> _KnownShape:
        if shape is not None and _covers(shape.layout, layout, updated):
            self._put(table, shape.layout, key, complete=shape.complete)
            return self._tables[table]
        columns = None if self._columns_of is None else self._columns_of(*table)
        catalog = None if columns is None else tuple(map(self._as_sent, columns))
        if catalog is not None and _covers(catalog, layout, updated):
            self._put(table, catalog, key, complete=True)
        else:
            self._put(table, _joined(shape, layout, updated), key, complete=False)
        return self._tables[table]

    @staticmethod
    def _fit(shape: _KnownShape, layout: Layout, updated: bool) -> Fit:
        index = {column.name: position for position, column in enumerate(shape.layout)}
        positions = tuple(index[column.name] for column in layout)
        in_order = shape.layout == layout
        fit = Fit(shape.relation, None if in_order else positions)
        if len(shape.fits) >= _MAX_FITS:
            shape.fits.clear()
        shape.fits[layout, updated] = fit
        return fit


def _covers(layout: Layout, part: Layout, updated: bool) -> bool:
    """Return whether the row's columns are all in this shape, with the same types."""
    columns = set(layout)
    if not columns.issuperset(part):
        return False
    # A column that cannot be TOASTed is missing only because it was dropped.
    return not updated or not any(
        column.type_oid in _FIXED_LENGTH for column in columns.difference(part)
    )


def _joined(shape: _KnownShape | None, part: Layout, updated: bool) -> Layout:
    """Return a shape from parts alone: every column so far, as its last row sent it."""
    if shape is None or shape.complete:
        return part
    sent_now = {column.name: column for column in part}
    former_columns = tuple(
        sent_now.pop(column.name, column)
        for column in shape.layout
        if column.name in sent_now or not (updated and column.type_oid in _FIXED_LENGTH)
    )
    return former_columns + tuple(sent_now.values())

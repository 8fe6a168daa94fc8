"""What text output plugins tell: the shapes of tables, and the changes of one transaction.

pgoutput sends a Relation ahead of the changes; ``test_decoding`` and
``wal2json`` repeat names and types in every row. A row may be *whole* (every
column, as an insert is) or a *part* (a key, or an update without its unchanged
TOAST values). A part never makes a shape of its own while a known one covers
it, so that a table's shape does not flap between its inserts and its deletes.

Every ``Relation`` made here has oid 0, no replica identity and no typmods:
neither plugin tells them.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, NamedTuple, NoReturn, TypeAlias

from decoder.events import (
    Change,
    ChangeRun,
    Event,
    OpenTransaction,
    RelationSeen,
    StandaloneMessage,
    TransactionCommitted,
    TransactionOpened,
)
from decoder.messages import Column, LogicalMessage, NoValue, OldKind, Relation, Value
from decoder.reader import ProtocolError
from decoder.scalars import LSN, XID

#: ``(schema, table)`` → the table's columns now, from the source's catalog:
#: ``type_oid`` and, as ``format_type(atttypid, atttypmod)`` gives it, ``type_name``;
#: ``is_key`` for those of the primary key. ``None``: not known. Asked only where a
#: table's first row is a part, or a part no longer fits.
ColumnsOf: TypeAlias = Callable[[str, str], Sequence[Column] | None]

TableName: TypeAlias = tuple[str, str]
#: A run is given out when it has this many changes.
MOST_CHANGES: Final = 10_000
_XID_LIMIT: Final = 2**32


class SentColumn(NamedTuple):
    """A column as a plugin's row names it."""

    name: str
    type_name: str | None
    #: 0: not sent.
    type_oid: int


Layout: TypeAlias = tuple[SentColumn, ...]
#: How a column of the catalog reads in the plugin's rows.
AsSent: TypeAlias = Callable[[Column], SentColumn]

#: Types of a fixed length, which are never TOASTed: bool, "char", name, int8, int2,
#: int4, oid, xid, point, float4, float8, macaddr8, money, macaddr; date, time,
#: timestamp, timestamptz, interval, timetz; uuid, pg_lsn.
_FIXED_LENGTH: Final = frozenset(
    {16, 18, 19, 20, 21, 23, 26, 28, 600, 700, 701, 774, 790, 829}
    | {1082, 1083, 1114, 1184, 1186, 1266, 2950, 3220}
)
#: A table's rows come in few layouts; a stream of ever new ones is not to fill memory.
_MOST_FITS: Final = 1_000


class Fit(NamedTuple):
    """Where a row's values belong."""

    relation: Relation
    #: Of each value, its column's index; ``None``: the row is whole and in order.
    positions: tuple[int, ...] | None

    def place(self, values: list[Value], missing: NoValue) -> list[Value]:
        """A row in column order, from its values in the plugin's order."""
        if self.positions is None:
            return values
        row: list[Value] = [missing] * len(self.relation.columns)
        for position, value in zip(self.positions, values, strict=True):
            row[position] = value
        return row


class _Known:
    """One table's shape in force."""

    def __init__(
        self, table: TableName, layout: Layout, key: tuple[str, ...], complete: bool
    ) -> None:
        self.layout = layout
        self.key = key
        #: Told by a whole row or by the catalog; else columns may be missing.
        self.complete = complete
        self.fits: dict[tuple[Layout, bool], Fit] = {}
        self.relation = Relation(
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
    """The tables of one session. The same shape is always the same ``Relation`` object."""

    def __init__(self, columns_of: ColumnsOf | None, as_sent: AsSent, *, keys_sent: bool) -> None:
        """``keys_sent``: the plugin sends the primary key with every row."""
        self._columns_of = columns_of
        self._as_sent = as_sent
        self._keys_sent = keys_sent
        self._tables: dict[TableName, _Known] = {}
        #: The shape that the last call put in force; the caller sets it back to ``None``.
        self.changed: Relation | None = None

    def whole(self, table: TableName, layout: Layout, key: tuple[str, ...] = ()) -> Relation:
        """The relation of a row that has all the table's columns. It decides."""
        known = self._tables.get(table)
        if known is None or known.layout != layout or known.key != key:
            return self._put(table, layout, key, complete=True)
        known.complete = True
        return known.relation

    def part(
        self, table: TableName, layout: Layout, key: tuple[str, ...] = (), *, updated: bool = False
    ) -> Fit:
        """Where the values of a row belong that may lack columns.

        ``updated``: it is an update's new row, where what lacks is unchanged TOAST.
        """
        known = self._tables.get(table)
        if known is not None and known.key == key:
            fit = known.fits.get((layout, updated))
            if fit is not None:
                return fit
        if known is None or known.key != key or not _covers(known.layout, layout, updated):
            known = self._renew(table, known, layout, key, updated)
        return self._fit(known, layout, updated)

    def named(self, table: TableName) -> Relation:
        """The relation of a change that tells nothing but the table's name."""
        known = self._tables.get(table)
        if known is not None:
            return known.relation
        columns = None if self._columns_of is None else self._columns_of(*table)
        layout = tuple(map(self._as_sent, columns or ()))
        key = [column.name for column in columns or () if column.is_key and self._keys_sent]
        return self._put(table, layout, tuple(key), complete=columns is not None)

    def old_kind(self, table: TableName, count: int) -> OldKind:
        """What an old row of ``count`` columns is: ``O`` if they are all, and not just the key."""
        known = self._tables[table]
        size = len(known.layout)
        return "O" if known.complete and count == size > len(known.key) else "K"

    def _put(
        self, table: TableName, layout: Layout, key: tuple[str, ...], *, complete: bool
    ) -> Relation:
        if len({column.name for column in layout}) != len(layout):
            raise ProtocolError("Relation", None, "columns of different names")
        known = self._tables[table] = _Known(table, layout, key, complete)
        self.changed = known.relation
        return known.relation

    def _renew(
        self,
        table: TableName,
        known: _Known | None,
        layout: Layout,
        key: tuple[str, ...],
        updated: bool,
    ) -> _Known:
        if known is not None and _covers(known.layout, layout, updated):
            self._put(table, known.layout, key, complete=known.complete)
            return self._tables[table]
        columns = None if self._columns_of is None else self._columns_of(*table)
        catalog = None if columns is None else tuple(map(self._as_sent, columns))
        if catalog is not None and _covers(catalog, layout, updated):
            self._put(table, catalog, key, complete=True)
        else:
            self._put(table, _joined(known, layout, updated), key, complete=False)
        return self._tables[table]

    @staticmethod
    def _fit(known: _Known, layout: Layout, updated: bool) -> Fit:
        index = {column.name: place for place, column in enumerate(known.layout)}
        positions = tuple(index[column.name] for column in layout)
        in_order = known.layout == layout
        fit = Fit(known.relation, None if in_order else positions)
        if len(known.fits) >= _MOST_FITS:
            known.fits.clear()
        known.fits[layout, updated] = fit
        return fit


def _covers(layout: Layout, part: Layout, updated: bool) -> bool:
    """Whether the row's columns are of this shape, with the same types."""
    have = set(layout)
    if not have.issuperset(part):
        return False
    # A column that cannot be TOASTed lacks only because it was dropped.
    return not updated or not any(
        column.type_oid in _FIXED_LENGTH for column in have.difference(part)
    )


def _joined(known: _Known | None, part: Layout, updated: bool) -> Layout:
    """A shape from parts alone: the columns sent so far, as they were sent last."""
    if known is None or known.complete:
        return part
    sent_now = {column.name: column for column in part}
    before = tuple(
        sent_now.pop(column.name, column)
        for column in known.layout
        if column.name in sent_now or not (updated and column.type_oid in _FIXED_LENGTH)
    )
    return before + tuple(sent_now.values())


#: A row as ``pg_logical_slot_peek_changes()`` returns it: lsn, xid (0: not known), text.
PluginRow = tuple[int, int, str]


class PluginCollector:
    """Takes a plugin's rows, in order; gives the events they make.

    They send a transaction when it is complete, so that one at most is open. A
    transaction in which the plugin told nothing is left out, as pgoutput
    leaves out the empty ones: DDL makes one, and so does each one that changed
    only what a plugin does not tell. Its end still moves ``last_end_lsn``.
    """

    #: The plugin, as errors name it.
    plugin: ClassVar[str]

    def __init__(self, columns_of: ColumnsOf | None, as_sent: AsSent, *, keys_sent: bool) -> None:
        self._relations = PluginRelations(columns_of, as_sent, keys_sent=keys_sent)
        self._events: list[Event] = []
        self._changes: list[Change] = []
        self._run_size_bytes = 0
        #: Of the row being taken, what is not counted in a run yet.
        self._row_size_bytes = 0
        self._current: OpenTransaction | None = None
        #: The current transaction's first event went out.
        self._opened = False
        #: The end of the last transaction that ended, empty or not: what may be
        #: confirmed once all events are stored. ``None`` before the first.
        self.last_end_lsn: LSN | None = None

    @property
    def in_transaction(self) -> bool:
        """Between a begin and its end."""
        return self._current is not None

    @property
    def open_streams(self) -> tuple[OpenTransaction, ...]:
        """Always empty: these plugins stream nothing that can be read."""
        return ()

    def feed(self, rows: Sequence[PluginRow]) -> list[Event]:
        """Take any number of rows, in order; give the events they make.

        Consecutive changes of one transaction come as ``ChangeRun`` of at most
        10,000. Raises ``ProtocolError`` for a row that is malformed or cannot
        come at this point; the assembler is of no further use then. Whatever
        ``columns_of`` raises passes through.
        """
        events = self._events = []
        for lsn, xid, text in rows:
            self._row_size_bytes = _size_bytes(text)
            self._take(lsn, xid, text)
        self._end_run()
        self._events = []
        return events

    def _take(self, lsn: int, xid: int, text: str) -> None:
        raise NotImplementedError

    def _refuse(self, expected: str, offset: int | None = None) -> NoReturn:
        raise ProtocolError(self.plugin, offset, expected)

    # Transactions.

    def _begin(self, xid: int, first_lsn: int) -> OpenTransaction:
        if self._current is not None:
            self._refuse(f"the end of transaction {self._current.xid} before another begins")
        if not 0 < xid < _XID_LIMIT:
            self._refuse("a transaction id: give include-xids")
        transaction = self._current = OpenTransaction(XID(xid), "plain")
        if first_lsn:
            transaction.first_lsn = LSN(first_lsn)
        self._opened = False
        return transaction

    def _open(self) -> OpenTransaction:
        """The current transaction, which something was told of."""
        transaction = self._current
        if transaction is None:
            self._refuse("the begin of a transaction before it")
        if not self._opened:
            self._opened = True
            self._events.append(TransactionOpened(transaction))
        return transaction

    def _ending(self, xid: int | None, end_lsn: int) -> OpenTransaction:
        """The current transaction, which ends here and is ``xid`` where that is told."""
        transaction = self._current
        if transaction is None:
            self._refuse("the begin of a transaction before its end")
        if xid is not None and xid != transaction.xid:
            self._refuse(f"the end of transaction {transaction.xid}")
        self._moved_to(end_lsn)
        self._end_run()
        self._current = None
        return transaction

    def _moved_to(self, end_lsn: int) -> LSN:
        if not 0 < end_lsn < 2**64:
            self._refuse("the position where a transaction ends")
        self.last_end_lsn = LSN(end_lsn)
        return self.last_end_lsn

    def _commit(
        self, xid: int | None, commit_lsn: LSN | None, end_lsn: int, commit_time_us: int | None
    ) -> None:
        transaction = self._ending(xid, end_lsn)
        if self._opened:
            event = TransactionCommitted(transaction, commit_lsn, LSN(end_lsn), commit_time_us)
            self._events.append(event)

    # Changes.

    def _add(self, lsn: int, *change: object) -> None:
        """Add a ``Change``, given from ``relation`` on; its table's shape before it, if new."""
        transaction = self._open()
        if (relation := self._relations.changed) is not None:
            self._relations.changed = None
            self._end_run()
            seen = RelationSeen(relation, LSN(lsn), transaction.xid, transaction, True)
            self._events.append(seen)
        transaction.seq += 1
        self._changes.append(Change._make((transaction.seq, lsn, None, *change)))
        self._run_size_bytes += self._row_size_bytes
        self._row_size_bytes = 0
        if len(self._changes) >= MOST_CHANGES:
            self._end_run()

    def _message(self, message: LogicalMessage) -> None:
        if message.transactional:
            self._add(message.lsn, None, "M", None, None, message)
            return
        self._end_run()
        self._events.append(StandaloneMessage(message, message.lsn))

    def _end_run(self) -> None:
        if not self._changes:
            return
        transaction = self._open()
        if transaction.first_lsn is None:
            known = next((change.lsn for change in self._changes if change.lsn), None)
            transaction.first_lsn = None if known is None else LSN(known)
        self._events.append(ChangeRun(transaction, self._changes, self._run_size_bytes))
        self._changes = []
        self._run_size_bytes = 0


def _size_bytes(text: str) -> int:
    """The length of a plugin's row as the server sent it, in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))

"""The decoder of test_decoding, PostgreSQL's example output plugin: text rows in, events out.

Transactions come whole and in commit order; with a two-phase slot, prepared
ones come at their PREPARE. The lsn of a row, as seen on PostgreSQL 15, is the transaction's
first record for BEGIN; the record's start for a change; the record's end for a
message; and the *end* of that record, which may be confirmed, for COMMIT, PREPARE
TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED.

The left column lists what the plugin does not send, the right one the events' value:

=========================================  ===========================================
a table's oid, a type's oid, a typmod      0, 0, -1; ``Column.type_name`` has the type's
                                           name, without its modifier
the replica identity, the primary key      ``None``; no column has the key flag
an old row's kind                          ``O`` if it has every column of the table,
                                           else ``K``; a key of all columns becomes ``O``
a NULL in an old row under FULL            not printed: ``NOT_SENT``, and the row a ``K``
the old key of a delete where there is     ``old`` is ``None``
no replica identity
begin of a commit or prepare record        ``commit_lsn``, ``prepare_lsn``: ``None``
a rolled back prepare's own LSN and time   ``None``
a prepare that will follow                 the transaction opens as ``plain``; its
                                           kind is ``prepared`` from its PREPARE on
subtransactions                            ``subxid`` is ``None``
the replication origin                     ``None``, as without one
a message from its first NUL byte on       lost, but not through a walsender; the caller
                                           decodes content that is not in the
                                           session's encoding
=========================================  ===========================================

The plugin ignores publications: it sends every table of the database, with all its
columns and rows, stored generated columns too, and each partition by its own name.

Source: contrib/test_decoding/test_decoding.c.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar, Final, Literal

from decoder.events import PreparedCommitted, PreparedRolledBack, TransactionPrepared, Truncation
from decoder.messages import NOT_SENT, Column, LogicalMessage, Value
from decoder.plugins.collecting import PluginCollector
from decoder.plugins.shapes import ColumnsOf, Layout, SentColumn, TableName
from decoder.plugins.test_decoding_scanner import KIND, Scanner
from decoder.scalars import LSN, XID

#: The options with which the plugin sends most. They exclude ``skip-empty-xacts``, with
#: which a message may come without the BEGIN of its transaction, and
#: ``stream-changes``, which prints no values of streamed changes.
TEST_DECODING_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"include-xids": "true", "include-timestamp": "true", "skip-empty-xacts": "false"}
)

_XIDS: Final = 2**32
#: The first words of the lines of a streamed transaction.
_STREAMED: Final = ("opening a", "closing a", "streaming", "aborting", "committing", "preparing")
#: The plugin's text for a row that is not in the WAL.
_NO_ROW: Final = " (no-tuple-data)"
_MAX_TABLES: Final = 20_000
#: Types whose ``format_type_be()`` name is not their name without a modifier: bpchar,
#: bit and interval, and their arrays. Source: PostgreSQL, format_type.c.
_NAMES_WITHOUT_MODIFIER: Final[dict[int, str]] = {
    1042: "character",
    1014: "character[]",
    1560: "bit",
    1561: "bit[]",
    1186: "interval",
    1187: "interval[]",
}


def _as_sent(column: Column) -> SentColumn:
    name = column.type_name
    return SentColumn(
        column.name, None if name is None else without_modifier(name, column.type_oid), 0
    )


class TestDecodingAssembler(PluginCollector):
    """A converter from the rows of one session, or one peek, to transaction events.

    Rows are those of ``pg_logical_slot_peek_changes()``. Through a walsender, the caller
    makes them from the message, its ``wal_start`` and xid 0. Give the plugin
    ``TEST_DECODING_OPTIONS``, and the session ``bytea_output=hex`` and ISO dates.
    """

    #: False, so that pytest does not collect this class because of its name.
    __test__: ClassVar[bool] = False

    plugin: ClassVar[str] = KIND

    def __init__(self, *, columns_of: ColumnsOf | None = None) -> None:
        """Take the source of columns for a table that is first seen in a delete or truncate."""
        super().__init__(columns_of, _as_sent, keys_sent=False)
        self._heads: dict[str, SentColumn] = {}
        self._tables: dict[str, TableName] = {}
        self._takers: dict[str, Callable[[Scanner, int, int], None]] = {
            "table ": self._table,
            "BEGIN": self._begins,
            "COMMIT PREPARED ": self._commit_prepared,
            "COMMIT": self._commits,
            "PREPARE TRANSACTION ": self._prepared,
            "ROLLBACK PREPARED ": self._rollback_prepared,
            "message: transactional: ": self._message_line,
        }

    def _take(self, lsn: int, xid: int, text: str) -> None:
        scan = Scanner(text, self._heads)
        for beginning, taker in self._takers.items():
            if scan.skip(beginning):
                taker(scan, lsn, xid)
                return
        if text.startswith(_STREAMED):
            self._refuse("whole transactions: stream-changes prints no values", 0)
        self._refuse("a row of test_decoding", 0)

    # Transactions.

    def _begins(self, scan: Scanner, lsn: int, xid: int) -> None:
        if scan.skip(" "):
            xid = scan.number(_XIDS)
        scan.end()
        self._begin(xid, lsn)

    def _commits(self, scan: Scanner, lsn: int, xid: int) -> None:
        # Without include-xids, the time, if any, stands here.
        with_xid = not scan.text.startswith(" (", scan.at) and scan.skip(" ")
        sent_xid = scan.number(_XIDS) if with_xid else None
        self._commit(sent_xid, None, lsn, scan.time())

    def _gid_xid_time(self, scan: Scanner, xid: int) -> tuple[str, XID, int | None]:
        gid = scan.quoted_literal()
        if scan.skip(", txid "):
            xid = scan.number(_XIDS)
        if not 0 < xid < _XIDS:
            raise scan.error("a transaction id: give include-xids")
        return gid, XID(xid), scan.time()

    def _prepared(self, scan: Scanner, lsn: int, xid: int) -> None:
        gid, sent_xid, time_us = self._gid_xid_time(scan, xid)
        # Report an empty transaction too, because the plugin will send its COMMIT PREPARED.
        self._open()
        transaction = self._ending(sent_xid, lsn)
        transaction.kind, transaction.gid = "prepared", gid
        self._events.append(TransactionPrepared(transaction, gid, None, LSN(lsn), time_us))

    def _commit_prepared(self, scan: Scanner, lsn: int, xid: int) -> None:
        gid, sent_xid, time_us = self._gid_xid_time(scan, xid)
        self._outside(scan)
        self._events.append(PreparedCommitted(gid, sent_xid, None, self._moved_to(lsn), time_us))

    def _rollback_prepared(self, scan: Scanner, lsn: int, xid: int) -> None:
        gid, sent_xid, time_us = self._gid_xid_time(scan, xid)
        self._outside(scan)
        end_lsn = self._moved_to(lsn)
        self._events.append(PreparedRolledBack(gid, sent_xid, None, end_lsn, None, time_us))

    def _outside(self, scan: Scanner) -> None:
        if self._current is not None:
            raise scan.error(f"it outside transaction {self._current.xid}")

    # Changes.

    def _table(self, scan: Scanner, lsn: int, xid: int) -> None:
        table = self._table_name(scan)
        if scan.skip(": INSERT:"):
            self._row(scan, lsn, table, "I")
        elif scan.skip(": UPDATE:"):
            self._row(scan, lsn, table, "U")
        elif scan.skip(": DELETE:"):
            self._delete(scan, lsn, table)
        else:
            self._truncate(scan, lsn, table)
        scan.end()

    def _table_name(self, scan: Scanner) -> TableName:
        start = scan.at
        guess = scan.text.find(":", start)
        cached = self._tables.get(scan.text[start:guess])
        if cached is not None and guess > start:
            scan.at = guess
            return cached
        schema = scan.identifier()
        scan.expect(".")
        table = schema, scan.identifier()
        if scan.at == guess:
            if len(self._tables) >= _MAX_TABLES:
                self._tables.clear()
            self._tables[scan.text[start:guess]] = table
        return table

    def _row(self, scan: Scanner, lsn: int, table: TableName, op: Literal["I", "U"]) -> None:
        old: tuple[Layout, list[Value]] | None = None
        if op == "U" and scan.skip(" old-key:"):
            old = scan.columns()
            scan.expect(" new-tuple:")
        if scan.skip(_NO_ROW):
            # The row exists, but its values are not in the WAL.
            self._add(lsn, self._relations.named(table), op, None, None, None)
            return
        columns, values = scan.columns()
        relation = self._relations.whole(table, columns)
        if old is None:
            self._add(lsn, relation, op, None, None, values)
            return
        fit = self._relations.part(table, old[0])
        if fit.relation is not relation:
            raise scan.error("an old row of the new row's columns")
        kind = self._relations.old_kind(table, len(old[1]))
        self._add(lsn, relation, op, kind, fit.place(old[1], NOT_SENT), values)

    def _delete(self, scan: Scanner, lsn: int, table: TableName) -> None:
        if scan.skip(_NO_ROW):
            self._add(lsn, self._relations.named(table), "D", None, None, None)
            return
        columns, values = scan.columns()
        fit = self._relations.part(table, columns)
        kind = self._relations.old_kind(table, len(values))
        self._add(lsn, fit.relation, "D", kind, fit.place(values, NOT_SENT), None)

    def _truncate(self, scan: Scanner, lsn: int, table: TableName) -> None:
        tables = [table]
        while scan.skip(", "):
            tables.append(self._table_name(scan))
        scan.expect(": TRUNCATE:")
        truncation = Truncation(
            restart_identity=scan.skip(" restart_seqs"), cascade=scan.skip(" cascade")
        )
        if not (truncation.cascade or truncation.restart_identity):
            scan.expect(" (no-flags)")
        for name in tables:
            self._add(lsn, self._relations.named(name), "T", None, None, truncation)

    def _message_line(self, scan: Scanner, lsn: int, xid: int) -> None:
        transactional = scan.number(2) == 1
        prefix, content = scan.prefix_and_content()
        message = LogicalMessage(
            transactional=transactional, lsn=LSN(lsn), prefix=prefix, content=content
        )
        self._message(message)


def without_modifier(name: str, type_oid: int = 0) -> str:
    """Return the name of a type as ``format_type_be()`` spells it: ``numeric[]``.

    The input has the modifier: ``numeric(12,2)[]``. Quoted parts stay as they are.
    ``type_oid``: ``pg_type.oid``, where known.
    """
    if type_oid in _NAMES_WITHOUT_MODIFIER:
        return _NAMES_WITHOUT_MODIFIER[type_oid]
    parts: list[str] = []
    # Odd pieces are inside quotes; a doubled quote makes an empty piece outside.
    for index, piece in enumerate(name.split('"')):
        if index % 2 == 0:
            before, opened, rest = piece.partition("(")
            _, closed, after = rest.partition(")")
            piece = before + after if opened and closed else piece
        parts.append(piece)
    return '"'.join(parts)

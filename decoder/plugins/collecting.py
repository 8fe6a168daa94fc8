"""Collect the changes of one transaction, as text output plugins send them."""

from collections.abc import Sequence
from typing import ClassVar, Final, NoReturn

from decoder.events import (
    ChangeEvent,
    ChangeRun,
    Event,
    OpenTransaction,
    RelationSeen,
    StandaloneMessage,
    TransactionCommitted,
    TransactionOpened,
)
from decoder.messages import LogicalMessage
from decoder.plugins.shapes import AsSent, ColumnsOf, PluginRelations
from decoder.reader import ProtocolError
from decoder.scalars import LSN, XID

#: A run ends when it has this many changes.
MOST_CHANGES: Final = 10_000
_XID_LIMIT: Final = 2**32


#: A row as ``pg_logical_slot_peek_changes()`` returns it: lsn, xid (0 when unknown), text.
PluginRow = tuple[int, int, str]


class PluginCollector:
    """A converter from a plugin's rows, in order, to events.

    The plugins send a transaction when it is complete, so at most one is open. A
    transaction without any change or message makes no event, as pgoutput sends no
    empty ones: DDL makes one, and so does a transaction that changed only what the plugin
    does not report. Its end still moves ``last_end_lsn``.
    """

    #: The plugin's name in errors.
    plugin: ClassVar[str]

    def __init__(self, columns_of: ColumnsOf | None, as_sent: AsSent, *, keys_sent: bool) -> None:
        self._relations = PluginRelations(columns_of, as_sent, keys_sent=keys_sent)
        self._events: list[Event] = []
        self._changes: list[ChangeEvent] = []
        self._run_size_bytes = 0
        #: Bytes of the current row that no run has counted yet.
        self._row_size_bytes = 0
        self._current: OpenTransaction | None = None
        #: True once the current transaction's ``TransactionOpened`` went out.
        self._opened = False
        #: The end of the last transaction that ended, empty or not. It may be
        #: confirmed once all events are stored. ``None`` before the first.
        self.last_end_lsn: LSN | None = None

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        return self._current is not None

    @property
    def open_streams(self) -> tuple[OpenTransaction, ...]:
        """Return an empty tuple: these plugins stream nothing that can be read."""
        return ()

    def feed(self, rows: Sequence[PluginRow]) -> list[Event]:
        """Take any number of rows, in order; return their events.

        Consecutive changes of one transaction come as ``ChangeRun`` of at most
        10,000. Raises ``ProtocolError`` for a row that is malformed or not allowed
        at this point; discard the assembler then. An exception of
        ``columns_of`` passes through.
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
        """Return the current transaction, and report it as opened before its first event."""
        transaction = self._current
        if transaction is None:
            self._refuse("the begin of a transaction before it")
        if not self._opened:
            self._opened = True
            self._events.append(TransactionOpened(transaction))
        return transaction

    def _ending(self, xid: int | None, end_lsn: int) -> OpenTransaction:
        """End the current transaction and return it; ``xid`` must match where the row has one."""
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
        """Add a ``ChangeEvent``, given from ``relation`` on, after the table's shape if new."""
        transaction = self._open()
        if (relation := self._relations.changed) is not None:
            self._relations.changed = None
            self._end_run()
            relation_seen = RelationSeen(relation, LSN(lsn), transaction.xid, transaction, True)
            self._events.append(relation_seen)
        transaction.seq += 1
        self._changes.append(ChangeEvent._make((transaction.seq, lsn, None, *change)))
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
            first_lsn = next((change.lsn for change in self._changes if change.lsn), None)
            transaction.first_lsn = None if first_lsn is None else LSN(first_lsn)
        self._events.append(ChangeRun(transaction, self._changes, self._run_size_bytes))
        self._changes = []
        self._run_size_bytes = 0


def _size_bytes(text: str) -> int:
    """Return the length of a plugin's row as the server sent it, in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))

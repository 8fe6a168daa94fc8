"""Records of a slot's changes, however many, and the end of its history.

The live page's queries are in ``store.read.history``.
"""

from dataclasses import dataclass

import orjson

from replview.store.read.changes.records import Record, as_json, table_part, transaction_part
from replview.store.read.changes.scan import ChangeInTransaction
from replview.store.read.history_places import incarnations_of
from replview.store.read.rows import QueriedSlot, TransactionRow
from replview.store.read.session import ReadSession

#: Changes, and transactions, in memory at once.
PAGE = 2000


@dataclass(frozen=True, slots=True, order=True)
class StreamCursor:
    """A place in a slot's history: after this transaction of this incarnation."""

    #: The incarnation's number.
    incarnation: int
    commit_seq: int


class RecordWriter:
    """A writer of records for one slot's changes, which remembers what they share."""

    def __init__(self, session: ReadSession, slot: QueriedSlot) -> None:
        self._session = session
        self._slot = slot
        self._numbers: dict[int, int] = {}
        self._oids: dict[int, int] = {}
        #: The fields shared by the records of the last written transaction.
        self._transaction: tuple[TransactionRow, Record] | None = None
        self._tables: dict[tuple[int | None, int | None, bool], tuple[Record, list[str]]] = {}

    def incarnation_number(self, incarnation_id: int) -> int:
        """Return the number of an incarnation of the slot; 0: unknown."""
        if incarnation_id not in self._numbers:
            # The incarnation may have begun after the first read.
            self._numbers = {
                incarnation.id: incarnation.number
                for incarnation in incarnations_of(self._session, self._slot.pk)
            }
        return self._numbers.get(incarnation_id, 0)

    def oid(self, relation_id: int | None) -> int | None:
        """Return a table's oid on its source; None for a message or an unknown table."""
        if relation_id is None:
            return None
        if relation_id not in self._oids:
            sql = "SELECT id, oid FROM relation WHERE slot_id = %s"
            self._oids = {row[0]: row[1] for row in self._session.rows(sql, [self._slot.pk])}
        return self._oids.get(relation_id)

    def record(self, pair: ChangeInTransaction) -> Record:
        """Return a change's record."""
        row, change = pair
        shape = change.relation_id, change.version, change.hidden
        if shape not in self._tables:
            self._tables[shape] = table_part(change, self.oid(change.relation_id))
        transaction = self._part(row)
        if row.actors:
            transaction = {**transaction, "actor": row.actor_of(change.seq)}
        return as_json(change, transaction, self._tables[shape])

    def line(self, pair: ChangeInTransaction) -> Record | str:
        """Return a change's record, or the JSON lines of it that the store wrote."""
        row, change = pair
        if change.lines is None:
            return self.record(pair)
        head = orjson.dumps(self._part(row))[:-1].decode()
        return head + change.lines.replace("\n,", f"\n{head},")

    def _part(self, row: TransactionRow) -> Record:
        if self._transaction is None or self._transaction[0] is not row:
            number = self.incarnation_number(row.incarnation_id)
            self._transaction = row, transaction_part(row, self._slot, number)
        return self._transaction[1]


def last_cursor(session: ReadSession, slot: QueriedSlot) -> StreamCursor | None:
    """Return the end of the slot's history now; None while the slot has no incarnation."""
    last = max(
        incarnations_of(session, slot.pk), key=lambda incarnation: incarnation.number, default=None
    )
    return None if last is None else StreamCursor(last.number, last.commit_seq)

"""COMMIT PREPARED and ROLLBACK PREPARED: the ends of transactions that may be stored long since."""

from collections.abc import Callable
from typing import Any

import psycopg

from decoder.events import OpenTransaction, PreparedCommitted, PreparedRolledBack
from replview.receiver.clock import now_us
from replview.receiver.recorder import Portion
from replview.receiver.row_storing import datetime_of, lsn_text
from replview.store.transaction_rows import TransactionRow

_END_PREPARED = """
UPDATE transaction SET state = %(state)s, commit_seq = %(commit_seq)s,
    commit_lsn = %(commit_lsn)s, end_lsn = %(end_lsn)s, commit_time = %(commit_time)s,
    ended_at = %(ended_at)s, stored_at = clock_timestamp()
WHERE id = (SELECT id FROM transaction
            WHERE incarnation_id = %(incarnation_id)s AND gid = %(gid)s AND xid = %(xid)s
              AND state = 'prepared'
            ORDER BY prepare_lsn DESC LIMIT 1)
RETURNING id
"""
_IS_STORED = """
SELECT EXISTS (SELECT FROM transaction
               WHERE incarnation_id = %s AND gid = %s AND xid = %s AND prepare_lsn = %s
                 AND state IN ('prepared', 'committed', 'rolled back'))
"""


class PreparedEndings:
    """Ends the prepared transactions of one life of a slot; a gid alone names none of them."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        *,
        incarnation_id: int,
        next_id: Callable[[], int],
    ) -> None:
        self._connection = connection
        self._incarnation_id = incarnation_id
        self._next_id = next_id

    def is_stored(self, transaction: OpenTransaction) -> bool:
        """Whether this very prepare is in the store already."""
        prepared = [
            self._incarnation_id,
            transaction.gid,
            transaction.xid,
            lsn_text(transaction.prepare_lsn),
        ]
        row = self._connection.execute(_IS_STORED, prepared).fetchone()
        return row is not None and bool(row[0])

    def commit(self, portion: Portion, event: PreparedCommitted, commit_seq: int) -> None:
        """Give a prepared transaction its place in history."""
        # Its prepare may be in this very portion, not yet in the store.
        row = portion.prepared.pop((event.gid, event.xid), None)
        if row is None:
            stored = self._end(
                event,
                state="committed",
                commit_seq=commit_seq,
                commit_lsn=event.commit_lsn,
                end_lsn=event.end_lsn,
                commit_time_us=event.commit_time_us,
            )
            if stored:
                return
            row = self._unknown(portion, event)
        row.state, row.commit_seq = "committed", commit_seq
        row.commit_lsn, row.end_lsn = event.commit_lsn, event.end_lsn
        row.set_commit_time(event.commit_time_us)

    def roll_back(self, portion: Portion, event: PreparedRolledBack) -> None:
        """End a prepared transaction that will never be part of history."""
        row = portion.prepared.pop((event.gid, event.xid), None)
        if row is None:
            stored = self._end(
                event,
                state="rolled back",
                end_lsn=event.rollback_end_lsn,
                ended_at_us=event.rollback_time_us,
            )
            if stored:
                return
            row = self._unknown(portion, event)
        row.state, row.end_lsn = "rolled back", event.rollback_end_lsn
        row.ended_at_us = event.rollback_time_us

    def _end(
        self,
        event: PreparedCommitted | PreparedRolledBack,
        *,
        state: str,
        end_lsn: int,
        commit_seq: int | None = None,
        commit_lsn: int | None = None,
        commit_time_us: int | None = None,
        ended_at_us: int | None = None,
    ) -> bool:
        """End one that is in the store; False if it is not."""
        found = self._connection.execute(
            _END_PREPARED,
            {
                "state": state,
                "commit_seq": commit_seq,
                "commit_lsn": lsn_text(commit_lsn),
                "end_lsn": lsn_text(end_lsn),
                "commit_time": datetime_of(commit_time_us),
                "ended_at": datetime_of(ended_at_us),
                "incarnation_id": self._incarnation_id,
                "gid": event.gid,
                "xid": event.xid,
            },
        ).fetchone()
        return found is not None

    def _unknown(
        self, portion: Portion, event: PreparedCommitted | PreparedRolledBack
    ) -> TransactionRow:
        """The end of a transaction whose prepare we never saw is recorded as just that."""
        row = TransactionRow(
            id=self._next_id(),
            incarnation_id=self._incarnation_id,
            received_at_us=now_us(),
            xid=event.xid,
            gid=event.gid,
            state="prepared",
            context={"$prepare": "not seen: prepared before this slot received two-phase commits"},
        )
        portion.rows[row.id] = row
        return row

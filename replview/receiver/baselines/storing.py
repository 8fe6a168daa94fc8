"""Store a baseline's rows: hidden while they arrive, then given their place in history at once.

Each store transaction begins with an UPDATE of the baseline's row, which changes nothing if the
baseline was cancelled, given back or taken over: then ``BaselineLost`` is raised and nothing is
stored.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import psycopg

from decoder.events import ChangeEvent
from decoder.messages import Value
from decoder.scalars import LSN, now_us
from replview.receiver.baselines.reading import TableSnapshot
from replview.receiver.storing.catalog_shapes import CatalogShapes
from replview.receiver.storing.encoding import copying_changes
from replview.receiver.storing.table_plans import TablePlans
from replview.receiver.storing.transactions import insert_rows, update_rows
from replview.store.read.days import IDS_PER_HOUR
from replview.store.write.copy_rows import CopiedTransaction, store_large_values
from replview.store.write.incarnations import log_event
from replview.store.write.partitions import PartitionKeeper, TransactionIds

if TYPE_CHECKING:
    from replview.store.models import Baseline

_FENCE = """
    UPDATE baseline SET heartbeat_at = clock_timestamp(), "rows" = %(rows)s
    WHERE id = %(id)s AND state = 'reading' AND started_at = %(started_at)s
    RETURNING rows_per_second
"""
_BEGIN = """
    UPDATE baseline SET lsn = %s, transaction_id = %s, estimated_rows = %s WHERE id = %s
"""
_DONE = "UPDATE baseline SET state = 'done', finished_at = clock_timestamp() WHERE id = %s"
#: Takes the slot row's lock, under which commit_seq is assigned.
_LOCK_SLOT = """
    UPDATE slot SET outside_writes = outside_writes + 1,
           transactions_stored = transactions_stored + 1,
           changes_stored = changes_stored + %(rows)s,
           bytes_stored = bytes_stored + %(size_bytes)s, last_stored_at = clock_timestamp()
    WHERE id = %(slot_id)s AND incarnation_id = %(incarnation_id)s AND desired <> 'removing'
    RETURNING id
"""
_NEXT_POSITION = (
    "UPDATE slot_incarnation SET commit_seq = commit_seq + 1, "
    "last_hour = greatest(last_hour, %s) WHERE id = %s RETURNING commit_seq"
)
#: Seconds between two heartbeats.
_BEAT_SECONDS = 1.0


class BaselineLost(Exception):
    """The worker has lost the baseline: it was cancelled, given back, or its slot removed."""


class IncarnationEnded(Exception):
    """The slot has begun a new incarnation, in which the rows have no place."""


class BaselineWriter:
    """A writer of one baseline's rows, while the baseline's row is claimed by this worker."""

    def __init__(self, store: psycopg.Connection[Any], claim: "Baseline") -> None:
        self._store = store
        self._claim = claim
        self._row: CopiedTransaction | None = None
        self._snapshot: TableSnapshot | None = None
        self._plans: TablePlans | None = None
        self._last_beat = 0.0
        #: Number of rows stored.
        self.rows = 0
        #: Limit of rows a second, which may change meanwhile; None: no limit.
        self.rows_per_second = claim.rows_per_second

    def beat(self) -> None:
        """Update the baseline's heartbeat, about once a second. Raises ``BaselineLost``."""
        if time.monotonic() - self._last_beat >= _BEAT_SECONDS:
            self._fence()

    def begin(
        self, snapshot: TableSnapshot, *, system_identifier: str,
        column_rules: dict[str, dict[str, str]],
    ) -> None:  # fmt: skip
        """Store the table's shape, and a hidden transaction that its rows will belong to.

        Raises ``BaselineLost``, ``IncarnationEnded``.
        """
        claim = self._claim
        assert claim.incarnation_id is not None
        identifier = TransactionIds().next(self._store)
        PartitionKeeper().ready_for(self._store, [identifier])
        self._plans = TablePlans(
            slot_id=claim.slot_id,
            system_identifier=system_identifier,
            catalog=CatalogShapes(
                primary_key=lambda oid, xid: snapshot.primary_key,
                type_names=lambda types: snapshot.type_names,
                type_bases=lambda oids: snapshot.type_bases,
                columns_made=lambda oid, by: snapshot.columns_made,
            ),
            column_rules=column_rules,
        )
        row = _hidden_row(identifier, claim.incarnation_id, snapshot)
        with self._store.transaction():
            self._fence()
            self._lock_slot_for_shape()
            self._plans.keep_up(self._store)
            planned = self._plans.make(
                self._store, snapshot.relation, lsn=snapshot.lsn, xid=None, in_force=False
            )
            # The transaction concerns the table even if the table is empty.
            row.relations[planned.plan.relation_id] = [0, 0, 0, 0]
            insert_rows(self._store, [row])
            self._store.execute(
                _BEGIN, [str(snapshot.lsn), row.id, snapshot.estimated_rows, claim.pk]
            )
        self._row, self._snapshot = row, snapshot

    def write(self, rows: Sequence[list[Value]], size_bytes: int) -> None:
        """Store more rows. Raises ``BaselineLost``."""
        assert self._row is not None
        assert self._snapshot is not None
        assert self._plans is not None
        lsn, relation = self._snapshot.lsn, self._snapshot.relation
        changes = [
            ChangeEvent(seq, lsn, None, relation, "S", None, None, values)  # type: ignore[arg-type]
            for seq, values in enumerate(rows, start=self.rows + 1)
        ]
        with self._store.transaction():
            self._fence(len(rows))
            self._plans.keep_up(self._store)
            with copying_changes(self._store, self._plans) as encoder:
                encoder.encode(self._row, changes)
            store_large_values(self._store, encoder.asides)
        self.rows += len(rows)
        self._row.size_bytes += size_bytes

    def finish(self) -> int:
        """Give the rows their place in history, and return its commit_seq.

        Raises ``BaselineLost``, ``IncarnationEnded``. It is one store transaction under the slot
        row's lock, so that either a receiver waits for it or it waits for the receiver; the
        receiver reads its commit_seq again afterwards.
        """
        assert self._row is not None
        claim, row = self._claim, self._row
        with self._store.transaction():
            self._fence()
            counters = {
                "rows": self.rows,
                "size_bytes": row.size_bytes,
                "slot_id": claim.slot_id,
                "incarnation_id": claim.incarnation_id,
            }
            if self._store.execute(_LOCK_SLOT, counters).fetchone() is None:
                raise IncarnationEnded
            hour = row.id // IDS_PER_HOUR
            position = self._store.execute(_NEXT_POSITION, [hour, claim.incarnation_id]).fetchone()
            assert position is not None
            row.commit_seq, row.state = int(position[0]), "snapshot"
            update_rows(self._store, [row])
            self._store.execute(_DONE, [claim.pk])
            self._log_done(row.commit_seq)
        return row.commit_seq

    def _fence(self, new_rows: int = 0) -> None:
        """Check that the baseline is still claimed, and lock its row. Raises ``BaselineLost``."""
        row = self._store.execute(
            _FENCE,
            {
                "rows": self.rows + new_rows,
                "id": self._claim.pk,
                "started_at": self._claim.started_at,
            },
        ).fetchone()
        if row is None:
            raise BaselineLost
        self.rows_per_second = row[0]
        self._last_beat = time.monotonic()

    def _lock_slot_for_shape(self) -> None:
        """Lock the slot's row, under which shapes are stored. Raises ``IncarnationEnded``."""
        slot_row = self._store.execute(
            "SELECT id FROM slot WHERE id = %s AND incarnation_id = %s AND desired <> 'removing' "
            "FOR NO KEY UPDATE",
            [self._claim.slot_id, self._claim.incarnation_id],
        ).fetchone()
        if slot_row is None:
            raise IncarnationEnded

    def _log_done(self, commit_seq: int) -> None:
        assert self._snapshot is not None
        claim, lsn = self._claim, self._snapshot.lsn
        log_event(
            self._store,
            claim.slot_id,
            "baseline",
            f"Baseline of {claim.schema}.{claim.table}: {self.rows:,} rows as of {LSN(lsn)}.",
            incarnation_id=claim.incarnation_id,
            after_commit_seq=commit_seq,
            lsn=lsn,
            detail={"table": f"{claim.schema}.{claim.table}", "rows": self.rows,
                    "transaction": self._row.id if self._row else None},
        )  # fmt: skip


def _hidden_row(identifier: int, incarnation_id: int, snapshot: TableSnapshot) -> CopiedTransaction:
    """Return the transaction that holds the rows; no page shows it before it has its commit_seq."""
    row = CopiedTransaction(
        id=identifier,
        incarnation_id=incarnation_id,
        received_at_us=now_us(),
        xid=None,
        state="copying",
        first_lsn=snapshot.lsn,
        commit_lsn=snapshot.lsn,
        end_lsn=snapshot.lsn,
    )
    row.set_commit_time(snapshot.taken_at_us)
    return row

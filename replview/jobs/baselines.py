"""A baseline is one read of a table's rows, requested by a page or a command, done by one worker.

The rows of a baseline are discarded unless it ends as done. After a lost or stopped worker the
table is read from the start.
"""

from typing import Any

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from replview.jobs.rows import JobRows
from replview.store.looks import latest_look
from replview.store.models import Baseline, Slot, Transaction
from replview.store.write.access_record import Action, note

#: Serialises claims, so that a source is read for one table at a time.
_CLAIM_LOCK = 0x7265706C62617365
#: Resets the columns of a baseline that begins again.
_RESET_COLUMNS = {
    "finished_at": None, "lsn": None, "rows": 0, "transaction_id": None, "estimated_rows": None,
    "problem_code": "", "problem_cause": "", "problem_remedy": "",
}  # fmt: skip


class _BaselineRows(JobRows[Baseline]):
    """The rows of baselines. The copied rows of one that leaves its worker are discarded."""

    def leave(self, rows: "QuerySet[Baseline]", state: str, /, **columns: Any) -> int:
        """Use two statements: the second sees rows stored while the first waited for a lock."""
        with transaction.atomic():
            locked = rows.select_for_update(of=("self",)).values_list("pk", "transaction_id")
            stored = dict(locked)
            copying = Transaction.objects.filter(pk__in=filter(None, stored.values()))
            copying.filter(state=Transaction.State.COPYING).update(
                state=Transaction.State.DISCARDED
            )
            return super().leave(self.rows(pk__in=stored), state, **columns)


rows = _BaselineRows(
    Baseline,
    task="replview.serve_baselines",
    lost_seconds=30.0,
    beside=("slot__source",),
    at_claim=_RESET_COLUMNS,
)


def request(
    slot: Slot, schema: str, table: str, *, by: str, rows_per_second: int | None = None
) -> Baseline:
    """Request a table's rows; a worker begins at once, or after the slot's first connection.

    Returns the waiting baseline of the table if there is one, with the new rate.
    """
    with transaction.atomic():
        # Lock the slot, so that two simultaneous requests make one baseline.
        Slot.objects.select_for_update(of=("self",), no_key=True).get(pk=slot.pk)
        waiting = Baseline.objects.filter(
            slot=slot, schema=schema, table=table, state=Baseline.State.WAITING
        ).first()
        if waiting is not None:
            Baseline.objects.filter(pk=waiting.pk).update(rows_per_second=rows_per_second)
            return waiting
        note(Action.CHANGED_SLOT, subject=f"{slot}: a baseline", source_id=slot.source_id,
             tables=[f"{schema}.{table}"])  # fmt: skip
        rows.announce()
        return Baseline.objects.create(
            slot=slot, schema=schema, table=table, requested_by=by, rows_per_second=rows_per_second
        )


def claim() -> Baseline | None:
    """Claim the oldest baseline that can begin, and return it; None where there is none.

    The baselines of a slot without an incarnation wait: it has not been connected yet.
    """
    source = "slot__source"
    read_there = rows.rows(rows.running, slot__source=OuterRef(source))
    possible = Q(slot__incarnation__isnull=False) & ~Q(slot__desired=Slot.Desired.REMOVING)
    incarnation = Slot._base_manager.filter(pk=OuterRef("slot")).values("incarnation")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CLAIM_LOCK])
        return rows.claim(
            rows.waiting & possible & Q(~Exists(read_there)), incarnation=Subquery(incarnation)
        )


def note_act(baseline: Baseline, act: str) -> None:
    """Record that somebody cancelled or retried a baseline."""
    slot = baseline.slot
    note(Action.CHANGED_SLOT, subject=f"{slot}: a baseline, {act}", source_id=slot.source_id,
         tables=[f"{baseline.schema}.{baseline.table}"])  # fmt: skip


def cancel_all(slot: Slot) -> None:
    """Cancel all baselines of a slot that is to be removed, so that they store nothing more."""
    for baseline in rows.rows(rows.unended, slot=slot):
        rows.cancel(baseline.pk)


def retry(baseline_id: int) -> bool:
    """Retry a baseline that failed or was cancelled; False for any other state."""
    ended = [Baseline.State.FAILED, Baseline.State.CANCELLED]
    changed = rows.leave(
        rows.rows(pk=baseline_id, state__in=ended), "WAITING", started_at=None, **_RESET_COLUMNS
    )
    rows.announce()
    return changed == 1


def tables_of(slot: Slot) -> list[dict[str, Any]]:
    """Return the published tables of the last ``PublicationLook``; empty where there is none."""
    look = latest_look(slot)
    return [] if look is None else list(look.facts["tables"])


def tables_named(slot: Slot, schema: str, table: str) -> list[tuple[str, str]]:
    """Return the published tables of this name: the table itself, or its partitions."""
    roots = {(entry["schema"], entry["table"]): entry["root"] for entry in tables_of(slot)}
    if (schema, table) in roots:
        return [(schema, table)]
    return [name for name, root in roots.items() if root == f"{schema}.{table}"]

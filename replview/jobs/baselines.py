"""Baselines: a table's rows read once, asked for by a page or a command, done by one worker.

What a baseline has stored is discarded unless it ends as done; the table is read anew where its
worker was lost or stopped.
"""

from typing import Any

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from replview.jobs.rows import JobRows
from replview.store.looks import latest_look
from replview.store.models import Baseline, Slot, Transaction
from replview.store.write.access_record import Action, note

#: Serialises claiming: one table of a source at a time.
_CLAIM_LOCK = 0x7265706C62617365
#: As if it had never been begun.
_ANEW = {
    "finished_at": None, "lsn": None, "rows": 0, "transaction_id": None, "estimated_rows": None,
    "problem_code": "", "problem_cause": "", "problem_remedy": "",
}  # fmt: skip


class _BaselineRows(JobRows[Baseline]):
    """Of whatever leaves a worker's hands the rows are hidden and swept away."""

    def leave(self, rows: "QuerySet[Baseline]", state: str, /, **columns: Any) -> int:
        """Do it in two statements: the second sees what was stored while the first waited."""
        with transaction.atomic():
            found = rows.select_for_update(of=("self",)).values_list("pk", "transaction_id")
            stored = dict(found)
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
    at_claim=_ANEW,
)


def request(
    slot: Slot, schema: str, table: str, *, by: str, rows_per_second: int | None = None
) -> Baseline:
    """Ask for a table's rows; a worker begins at once, or when the slot is first connected.

    A baseline that still waits is returned, with the rate that is asked for now.
    """
    with transaction.atomic():
        # Two that ask at once are asked for once.
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

    A slot without an incarnation has not been connected yet: its baselines wait.
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
    """Note in the access record that somebody cancelled a baseline or asked for it again."""
    slot = baseline.slot
    note(Action.CHANGED_SLOT, subject=f"{slot}: a baseline, {act}", source_id=slot.source_id,
         tables=[f"{baseline.schema}.{baseline.table}"])  # fmt: skip


def cancel_all(slot: Slot) -> None:
    """Cancel all baselines of a slot that is to be removed: they store nothing after this."""
    for baseline in rows.rows(rows.unended, slot=slot):
        rows.cancel(baseline.pk)


def retry(baseline_id: int) -> bool:
    """Ask again for a baseline that failed or was cancelled; False where it did neither."""
    ended = [Baseline.State.FAILED, Baseline.State.CANCELLED]
    asked = rows.leave(
        rows.rows(pk=baseline_id, state__in=ended), "WAITING", started_at=None, **_ANEW
    )
    rows.announce()
    return asked == 1


def tables_of(slot: Slot) -> list[dict[str, Any]]:
    """Return the published tables of the last ``PublicationLook``; empty where there is none."""
    look = latest_look(slot)
    return [] if look is None else list(look.facts["tables"])


def tables_named(slot: Slot, schema: str, table: str) -> list[tuple[str, str]]:
    """Return the published tables that a name stands for: itself, or the table's partitions."""
    known = {(t["schema"], t["table"]): t["root"] for t in tables_of(slot)}
    if (schema, table) in known:
        return [(schema, table)]
    return [name for name, root in known.items() if root == f"{schema}.{table}"]

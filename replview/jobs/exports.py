"""An export is requested by a page, a program or a command, and done by one worker at a time.

Another worker continues the export of a lost one, and keeps the finished files.
"""

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from replview.jobs.rows import JobRows
from replview.store.models import Export, Slot

rows = JobRows(
    Export,
    task="replview.serve_exports",
    lost_seconds=20.0,
    most_attempts=5,
    remedy="See its log, and the memory of the machine; then export again",
    at_claim={"seconds_left": None},
)

#: Most exports of one target that are compared.
_MOST_EARLIER = 500


class AlreadyRunning(Exception):
    """Another export of the same name, or of the same slice and target, has not ended yet."""

    def __init__(self, export: Export, relation: str) -> None:
        super().__init__(f"export {export.pk} {relation} is {export.state}")
        self.export = export


def request(export: Export) -> Export:
    """Store a new export, which a worker begins at once.

    For a command it is also claimed, because the command does the export itself. Raises
    ``AlreadyRunning``.
    """
    assert export.slot is not None
    export.slot_name = str(export.slot)
    # A killed command may hold the name, and there may be no worker to notice it.
    give_back_lost()
    with transaction.atomic():
        # Lock the slot, so that of two simultaneous requests one is refused.
        Slot.objects.select_for_update(of=("self",), no_key=True).get(pk=export.slot.pk)
        _refuse_a_second(export)
        export.save()
        if export.requested_how == Export.How.COMMAND:
            return rows.claim(Q(pk=export.pk)) or export
        rows.announce()
    return export


def _refuse_a_second(export: Export) -> None:
    """Raise ``AlreadyRunning`` if another export has not ended that this one would disturb.

    A name is continued where its last export ended, which is not known yet. Two exports of one
    slice into one target would each delete files that the other is writing.
    """
    unended = rows.rows(rows.unended, slot=export.slot)
    if export.name and (other := unended.filter(name=export.name).first()) is not None:
        raise AlreadyRunning(other, f"named {export.name}")
    other = unended.filter(target=export.target, slice=export.slice).first()
    if other is not None:
        raise AlreadyRunning(other, "of the same slice into the same target")


def last_done(slot: Slot, name: str) -> Export | None:
    """Return the last finished export of this name, after which *since last* continues."""
    return Export.objects.filter(slot=slot, name=name, state=Export.State.DONE).first()


def abandoned(slot_name: str, target: str) -> list[Export]:
    """Return unfinished ended exports that may have left files in a target, newest first.

    Leave out those whose slice belongs to an export that is done, waits or runs.
    """
    ended = Q(state__in=(Export.State.FAILED, Export.State.CANCELLED))
    exports = rows.rows(slot_name=slot_name, target=target).order_by("-pk")
    other_slices = list(exports.exclude(ended).values_list("slice", flat=True)[:_MOST_EARLIER])
    candidates = exports.filter(ended).defer("result")[:_MOST_EARLIER]
    return [row for row in candidates if row.slice not in other_slices]


def give_back_lost() -> None:
    """Give back the exports of lost workers; those of lost commands fail instead."""
    # A command's folder may be on a machine without a worker, so no worker can continue.
    rows.leave(
        rows.rows(rows.lost, requested_how=Export.How.COMMAND),
        "FAILED",
        finished_at=Now(),
        problem_cause="the command that wrote it was ended",
        problem_remedy="Run it again: files that are whole are kept",
    )
    rows.give_back_lost()

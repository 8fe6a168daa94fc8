"""Exports: asked for by a page, a program or a command, done by one worker at a time.

Another worker continues the export of a lost one: files that are finished are kept.
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

#: Exports of one target that are looked through.
_MOST_EARLIER = 500


class AlreadyRunning(Exception):
    """An export of this name has not ended yet: the next would not know where to continue."""

    def __init__(self, export: Export) -> None:
        super().__init__(f"export {export.pk} named {export.name} is {export.state}")
        self.export = export


def request(asked: Export) -> Export:
    """Store an export that is not saved yet. A worker begins it at once; a command claims it by
    this call and does it itself. Raises ``AlreadyRunning``.
    """
    assert asked.slot is not None
    asked.slot_name = str(asked.slot)
    # A command that was killed may hold the name, and there may be no worker to notice it.
    give_back_lost()
    with transaction.atomic():
        if asked.name:
            # Two that ask at once are asked for once.
            Slot.objects.select_for_update(of=("self",), no_key=True).get(pk=asked.slot.pk)
            waiting = rows.rows(rows.unended, slot=asked.slot, name=asked.name).first()
            if waiting is not None:
                raise AlreadyRunning(waiting)
        asked.save()
        if asked.requested_how == Export.How.COMMAND:
            return rows.claim(Q(pk=asked.pk)) or asked
        rows.announce()
    return asked


def last_done(slot: Slot, name: str) -> Export | None:
    """Return the last export of this name that is done: *since last* continues after it."""
    return Export.objects.filter(slot=slot, name=name, state=Export.State.DONE).first()


def abandoned(slot_name: str, target: str) -> list[Export]:
    """Exports of a slot that ended before they were whole, and may have left files in a target; the
    newest first. None of them has the slice of another that is done, waits or runs.
    """
    ended = Q(state__in=(Export.State.FAILED, Export.State.CANCELLED))
    found = rows.rows(slot_name=slot_name, target=target).order_by("-pk")
    others = list(found.exclude(ended).values_list("slice", flat=True)[:_MOST_EARLIER])
    left = found.filter(ended).defer("result")[:_MOST_EARLIER]
    return [row for row in left if row.slice not in others]


def give_back_lost() -> None:
    """Give back the exports of lost workers; those of commands, which nobody continues, fail."""
    # A command's folder may be on a machine where no worker is: it is not gone on with.
    rows.leave(
        rows.rows(rows.lost, requested_how=Export.How.COMMAND),
        "FAILED",
        finished_at=Now(),
        problem_cause="the command is gone",
        problem_remedy="Run it again: files that are whole are kept",
    )
    rows.give_back_lost()

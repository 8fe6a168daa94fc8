"""Exports: asked for by a page, a program or a command, done by one worker at a time.

What a lost worker began another goes on with: finished files are kept.
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


class AlreadyRunning(Exception):
    """An export of this name is not over yet: the next would not know where to continue."""

    def __init__(self, export: Export) -> None:
        super().__init__(f"export {export.pk} named {export.name} is {export.state}")
        self.export = export


def request(asked: Export) -> Export:
    """Record one that is not saved yet; a worker begins at once, unless a command asks: it has the
    claim then, and does it itself. Raises ``AlreadyRunning``.
    """
    assert asked.slot is not None
    asked.slot_name = str(asked.slot)
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
    """Where *since last* goes on."""
    return Export.objects.filter(slot=slot, name=name, state=Export.State.DONE).first()


def give_back_lost() -> None:
    """Have the exports gone on with whose worker is gone, unless they take every worker along."""
    # A command's folder may be on a machine where no worker is: it is not gone on with.
    rows.leave(
        rows.rows(rows.lost, requested_how=Export.How.COMMAND),
        "FAILED",
        finished_at=Now(),
        problem_cause="the command is gone",
        problem_remedy="Run it again: files that are whole are kept",
    )
    rows.give_back_lost()

"""History jobs: asked for by a page, run by one worker at a time.

A job writes nothing that another goes on with: what a lost worker began is begun anew.
"""

from collections.abc import Mapping
from typing import Any

from replview.jobs.rows import JobRows
from replview.jobs.running import announce
from replview.store.models import HistoryJob

TASK = "replview.serve_history_jobs"
#: A worker that gave no sign of life for this long is gone.
LOST_SECONDS = 20.0
#: Begun so often and never ended: it takes its workers along, and is given up.
MOST_ATTEMPTS = 3

rows = JobRows(
    HistoryJob,
    lost_seconds=LOST_SECONDS,
    most_attempts=MOST_ATTEMPTS,
    remedy="See its log, and the memory of the machine; then run it again",
)
anything_waits, claim, give_back_lost = rows.anything_waits, rows.claim, rows.give_back_lost
beat, finish, fail, give_back = rows.beat, rows.finish, rows.fail, rows.give_back
cancel, is_cancelled = rows.cancel, rows.is_cancelled


def request(
    job: str, root: str, words: Mapping[str, Any], *, by: str, anywhere: bool
) -> HistoryJob:
    """Record a request; a worker begins at once, one job after the other."""
    made = HistoryJob.objects.create(
        job=job, root=root, words=dict(words), requested_by=by, anywhere=anywhere
    )
    announce(TASK)
    return made

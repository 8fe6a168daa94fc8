"""Request the runs of lakes that have a schedule, and forget old runs."""

import contextlib

from psycopg import sql

from replview.features.lake.request import request_run
from replview.jobs.lakes import rows
from replview.jobs.running import chore
from replview.store import django_session
from replview.store.models import Lake, LakeRun
from replview.targets.policy import Refused

#: Runs of a lake that are kept.
_KEPT_RUNS = 200
#: Lakes whose last requested run began long enough ago, and that have no run now.
_DUE = sql.SQL("""
    SELECT l.id FROM lake l
    WHERE l.every_minutes IS NOT NULL AND l.slot_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM lake_run r
        WHERE r.lake_id = l.id
          AND (r.state IN ('waiting', 'running')
               OR (r.action = 'run'
                   AND r.requested_at > now() - l.every_minutes * interval '1 minute')))
""")


def request_due_runs() -> None:
    """Request a run of each lake whose time has come."""
    due = [row[0] for row in django_session.rows(_DUE)]
    for lake in Lake.objects.filter(pk__in=due).select_related("slot__source"):
        # Somebody may have requested one just now.
        with contextlib.suppress(Refused):
            request_run(lake, LakeRun.Action.RUN, by="the schedule", how=LakeRun.How.SCHEDULE)
        kept = list(lake.runs.values_list("pk", flat=True)[:_KEPT_RUNS])
        lake.runs.exclude(pk__in=kept).exclude(rows.unended).delete()


chore(
    request_due_runs,
    "replview.request_lake_runs",
    when=sql.SQL("EXISTS ({})").format(_DUE),
)

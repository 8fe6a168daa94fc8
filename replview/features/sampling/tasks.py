"""Celery tasks that sample sources, sum samples up, and tidy the store.

``celery_settings`` sets how often each runs.
"""

import atexit
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

from celery import shared_task
from psycopg import sql

from replview.access import session_policy
from replview.acts.publications import LOOK_AT_PUBLICATIONS_OF, look_at_publications
from replview.features.sampling import budgets, heartbeats
from replview.features.sampling import rollups as sample_rollups
from replview.features.sampling.sampling_pool import Rounds, Steady
from replview.jobs import baselines, drafts, peeks
from replview.jobs.running import chore, task
from replview.live.publisher import publisher
from replview.store import slot_budget
from replview.store.connecting import orm_connection
from replview.store.models import Source
from replview.store.retention import forecast, tidy
from replview.store.retention import policy as keeping
from replview.store.retention import size as store_size
from replview.store.retention.tidy import give_up_lost_ends
from replview.store.sums import activity, relation_minutes

log = logging.getLogger(__name__)

#: Most sources whose publications are read at the same time.
_THREADS = 8
#: Seconds for which a worker samples after beat last asked for it.
_GO_ON_SECONDS = 15.0
#: Seconds that the task waits for its sources; slower ones end by themselves.
_WAIT_SECONDS = 1.5
#: Most seconds that one run of tidying lasts; the next run continues.
_TIDY_SECONDS = 20.0
#: Most seconds that one run of summing up lasts, which bounds its load when it is far behind.
_ROLL_SECONDS = 1.0

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="publications")
_lock = threading.Lock()
#: Ids of sources whose publications are being read.
_being_read: set[int] = set()

_rounds = Rounds(lambda source_id: publisher().source_sampled(source_id))
_steady = Steady(_rounds)
atexit.register(_rounds.close)


@task("replview.sample_slots")
def sample_slots() -> None:
    """Sample all sources now, except those that are being sampled already."""
    wait(_rounds.begin(list(Source.objects.all()), 0.0), timeout=_WAIT_SECONDS)


def keep_sampling() -> None:
    """Have this worker sample the sources that are due, until beat is silent for a while."""
    _steady.go_on(_GO_ON_SECONDS)


@task("replview.roll_samples")
def roll_samples() -> None:
    """Sum up samples by the minute and the hour, and the record by the minute."""
    sample_rollups.roll(time.monotonic() + _ROLL_SECONDS)
    relation_minutes.roll(time.monotonic() + _ROLL_SECONDS)


@task("replview.look_at_publications")
def look_at_all_publications() -> None:
    """Read what every source's publications publish now, and store changes."""
    for source in Source.objects.all():
        _begin_reading(source)


@shared_task(name=LOOK_AT_PUBLICATIONS_OF, ignore_result=True)
def look_at_publications_of(slot_id: int) -> None:
    """Read the publications of a slot's source, since its stream suggests a change."""
    with orm_connection():
        for source in Source.objects.filter(slots=slot_id):
            _begin_reading(source)


def _begin_reading(source: Source) -> None:
    """Read the source's publications in a thread, unless one does so already."""
    with _lock:
        if source.pk in _being_read:
            return
        _being_read.add(source.pk)
    _pool.submit(_look_at_publications, source)


@task("replview.tidy_store")
def tidy_store() -> None:
    """Create partitions and delete what is no longer needed, a bounded piece at a time."""
    with tidy.alone() as locked:
        if not locked:
            return
        deadline = time.monotonic() + _TIDY_SECONDS
        tidy.make_partitions()
        tidy.sweep_discarded(deadline)
        tidy.sweep_tombstones(deadline)
        tidy.forget_ended_watches()
        tidy.remove_slots(deadline, give_up=baselines.cancel_all)
        peeks.delete_old()
        session_policy.forget_ended()
        drafts.forget_expired()
        sample_rollups.forget_old()
        relation_minutes.forget_old()
        give_up_lost_ends()


def roll_activity() -> None:
    """Sum up what receivers have stored since the last run, a bounded piece at a time."""
    activity.roll(time.monotonic() + _ROLL_SECONDS)


def _look_at_publications(source: Source) -> None:
    """Read a source's publications, in a thread with a store connection of its own."""
    try:
        with orm_connection():
            look_at_publications(source)
    except Exception:
        log.exception("looking at the publications of source %s failed", source.name)
    finally:
        with _lock:
            _being_read.discard(source.pk)


def enforce_budgets() -> None:
    """Enforce the WAL budgets of slots and the size budget of the store.

    Slots over their WAL budget are warned of or dropped, without waiting for that. At the store's
    budget its oldest days are deleted or receiving stops, as set.
    """
    budgets.enforce()
    store_size.enforce()


@task("replview.keep_days")
def keep_days() -> None:
    """Update each slot's retention, delete days that no slot keeps, and store the store's size."""
    keeping.enforce()
    forecast.note_size()


chore(keep_sampling, "replview.keep_sampling")
chore(roll_activity, "replview.roll_activity")
chore(
    enforce_budgets,
    "replview.enforce_budgets",
    when=sql.SQL("{} OR {}").format(
        slot_budget.ANY_WITH_BUDGET, sql.SQL(store_size.ANYTHING_CHOSEN)
    ),
)
chore(heartbeats.write_due, "replview.write_heartbeats", when=sql.SQL(heartbeats.ANY_WANTED))

"""Celery's tasks: sample every source, roll samples up, tidy the store; ``celery_settings`` says
how often.
"""

import atexit
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

from celery import shared_task

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

#: Sources whose publications are looked at side by side.
_THREADS = 8
#: A worker samples for so long after beat last said so.
_GO_ON_SECONDS = 15.0
#: How long the task waits for its sources; slower ones end by themselves.
_WAIT_SECONDS = 1.5
#: How long one run of tidying may last: the next one goes on.
_TIDY_SECONDS = 20.0
#: And of summing up the record: a fifth of one core at most, however far behind it is.
_ROLL_SECONDS = 1.0

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="publications")
_lock = threading.Lock()
#: Sources whose publications are being looked at.
_looked_at: set[int] = set()

_rounds = Rounds(lambda source_id: publisher().source_sampled(source_id))
_steady = Steady(_rounds)
atexit.register(_rounds.close)


@task("replview.sample_slots")
def sample_slots() -> None:
    """Look at all sources now; one that has not answered the last look is left alone."""
    wait(_rounds.begin(list(Source.objects.all()), 0.0), timeout=_WAIT_SECONDS)


def keep_sampling() -> None:
    """Have this worker look at whichever sources are due, until beat has been silent a while."""
    _steady.go_on(_GO_ON_SECONDS)


@task("replview.roll_samples")
def roll_samples() -> None:
    """Sum samples up by the minute and the hour, and the record by the minute."""
    sample_rollups.roll(time.monotonic() + _ROLL_SECONDS)
    relation_minutes.roll(time.monotonic() + _ROLL_SECONDS)


@task("replview.look_at_publications")
def look_at_all_publications() -> None:
    """See what every source's publications publish now, and keep what differs."""
    for source in Source.objects.all():
        _begin_look(source)


@shared_task(name=LOOK_AT_PUBLICATIONS_OF, ignore_result=True)
def look_at_publications_of(slot_id: int) -> None:
    """The same of one slot's source, whose stream told that something may have changed."""
    with orm_connection():
        for source in Source.objects.filter(slots=slot_id):
            _begin_look(source)


def _begin_look(source: Source) -> None:
    """Look in a thread, unless one does."""
    with _lock:
        if source.pk in _looked_at:
            return
        _looked_at.add(source.pk)
    _pool.submit(_look_at_publications, source)


@task("replview.tidy_store")
def tidy_store() -> None:
    """Make partitions, delete what is no longer wanted; a bounded piece at a time."""
    with tidy.alone() as mine:
        if not mine:
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
    """Sum up what the receivers have stored since, a bounded piece at a time."""
    activity.roll(time.monotonic() + _ROLL_SECONDS)


def _look_at_publications(source: Source) -> None:
    """In a thread: with a store connection of its own, closed again."""
    try:
        with orm_connection():
            look_at_publications(source)
    except Exception:
        log.exception("looking at the publications of source %s failed", source.name)
    finally:
        with _lock:
            _looked_at.discard(source.pk)


def enforce_budgets() -> None:
    """Warn of slots, and drop those, that retain more WAL than they may (not waited for); where
    the store is as large as it may be delete its oldest days, or stop receiving, as was chosen.
    """
    budgets.enforce()
    store_size.enforce()


@task("replview.keep_days")
def keep_days() -> None:
    """Count what each slot keeps, delete the days that none does, note how large the store is."""
    keeping.enforce()
    forecast.note_size()


chore(keep_sampling, "replview.keep_sampling")
chore(roll_activity, "replview.roll_activity")
chore(
    enforce_budgets,
    "replview.enforce_budgets",
    when=f"{slot_budget.ANY_WITH_BUDGET} OR {store_size.ANYTHING_CHOSEN}",
)
chore(heartbeats.write_due, "replview.write_heartbeats", when=heartbeats.ANY_WANTED)

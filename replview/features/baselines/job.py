"""Run the requested baselines in threads of their own, because a large table takes hours.

A worker that stops gives its tables back; another worker reads them again from the beginning.
"""

import logging
import threading

import psycopg

from replview.catalog.problems import SourceProblem
from replview.jobs.baselines import claim, rows
from replview.live.publisher import Publisher, publisher
from replview.receiver.baselines.baseline import BaselineStopped, read_baseline
from replview.receiver.baselines.storing import BaselineLost
from replview.receiver.problems import where_it_failed
from replview.receiver.process import prepare_for_batches
from replview.receiver.sessions.pump import StoreFailed
from replview.store.connecting import connect_store
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.models import Baseline

log = logging.getLogger(__name__)

#: Number of tables that one process reads at the same time, each from another source.
_CONCURRENT_BASELINES = 2


def carry_out(row: Baseline, wakes: Publisher, stop: threading.Event) -> None:
    """Read the claimed baseline, and store its result or problem."""
    prepare_for_batches()
    try:
        conninfo = full_conninfo(row.slot.source)
        with connect_store("replview baseline") as store:
            result = read_baseline(row, store, conninfo, stop)
    except BaselineStopped:
        rows.give_back(row)
    except BaselineLost:
        log.info("baseline %s: not ours any more", row.pk)
    except SourceProblem as problem:
        if problem.code == "internal":
            cause = problem.__cause__ if isinstance(problem.__cause__, Exception) else problem
            log.error("baseline %s: %s", row.pk, where_it_failed(cause))
        _fail(row, problem)
    except UNUSABLE as error:
        _fail(row, SourceProblem("bad_dsn", str(error), "Fix that, or change its credentials"))
    except (StoreFailed, psycopg.Error) as error:
        log.warning("baseline %s: the store failed (%s)", row.pk, error)
        rows.give_back(row)
    else:
        wakes.wake(row.slot_id, row.incarnation_id, result.commit_seq)
        wakes.slot_changed(row.slot_id)


def _fail(row: Baseline, problem: SourceProblem) -> None:
    log.warning("baseline %s: %s", row.pk, problem.cause)
    rows.fail(row, problem.cause, problem.remedy, problem_code=problem.code)


#: The job's entry for workers; the table of a lost worker is read again.
KIND = rows.served(
    name="baseline",
    claim=claim,
    run=lambda row, stop: carry_out(row, publisher(), stop),
    at_once=_CONCURRENT_BASELINES,
)

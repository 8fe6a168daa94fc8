"""Serving baselines: claimed from the store, read in threads of their own.

Apart from the worker's own threads, of which there are few: sampling must go on while a large table
is read for hours. A worker that is told to stop gives its tables back, to be read anew by another.
"""

import logging
import threading

import psycopg

from replview.catalog.problems import SourceProblem
from replview.jobs import baselines
from replview.jobs.baselines import Claim
from replview.jobs.running import Kind, register
from replview.live.publisher import Publisher, publisher
from replview.receiver.baselines.baseline import Stopped, StoreFailed, read_baseline
from replview.receiver.baselines.storing import Lost
from replview.receiver.problems import where_it_failed
from replview.receiver.process_memory import prepare_for_batches
from replview.store.connecting import connect_store
from replview.store.dsn import full_conninfo
from replview.store.models import Slot
from replview.store.reachable import DSNError
from replview.store.secrets import SecretKeyChanged

log = logging.getLogger(__name__)

#: Tables at the same time in one process, of different sources.
_AT_ONCE = 2


def carry_out(claim: Claim, wakes: Publisher, stop: threading.Event) -> None:
    """Read what was claimed, and keep what became of it."""
    prepare_for_batches()
    try:
        conninfo = full_conninfo(Slot.objects.select_related("source").get(pk=claim.slot_id).source)
        with connect_store("replview baseline") as store:
            done = read_baseline(claim, store, conninfo, stop)
    except Stopped:
        baselines.give_back(claim)
    except Lost:
        log.info("baseline %s: not ours any more", claim.baseline_id)
    except SourceProblem as error:
        trouble = error
        if trouble.code == "internal":
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            log.error("baseline %s: %s", claim.baseline_id, where_it_failed(cause))
        _fail(claim, trouble)
    except (DSNError, SecretKeyChanged) as error:
        _fail(claim, SourceProblem("bad_dsn", str(error), "Mend that, or change its credentials"))
    except (StoreFailed, psycopg.Error, Slot.DoesNotExist) as error:
        log.warning("baseline %s: the store failed (%s)", claim.baseline_id, error)
        baselines.give_back(claim)
    else:
        wakes.wake(claim.slot_id, claim.incarnation_id, done.commit_seq)
        wakes.slot_changed(claim.slot_id)


def _fail(claim: Claim, trouble: SourceProblem) -> None:
    log.warning("baseline %s: %s", claim.baseline_id, trouble.cause)
    baselines.fail(claim, trouble.code, trouble.cause, trouble.remedy)


#: A lost worker's table is read anew.
KIND = register(
    Kind(
        name="baseline",
        task=baselines.TASK,
        waits=baselines.anything_waits,
        recover=baselines.give_back_lost,
        claim=baselines.claim,
        run=lambda claim, stop: carry_out(claim, publisher(), stop),
        at_once=_AT_ONCE,
    )
)

"""Serving baselines: claimed from the store, read in threads of their own.

Apart from the worker's own threads, of which there are few: sampling must go on while a large table
is read for hours. A worker that is told to stop gives its tables back, to be read anew by another.
"""

import logging
import threading

import psycopg

from replview.catalog.problems import SourceTrouble, Trouble
from replview.jobs import baselines
from replview.jobs.baselines import Claim
from replview.jobs.stopping import stopping
from replview.live.publisher import Publisher
from replview.receiver.baselines.baseline import Stopped, StoreFailed, read_baseline
from replview.receiver.baselines.storing import Lost
from replview.receiver.problems import where_it_failed
from replview.receiver.process_memory import prepare_for_batches
from replview.store.connecting import connect_store, orm_connection
from replview.store.dsn import full_conninfo
from replview.store.models import Slot
from replview.store.reachable import DSNError
from replview.store.secrets import SecretKeyChanged

log = logging.getLogger(__name__)

#: Tables at the same time in one process, of different sources.
_AT_ONCE = 2
_free = threading.BoundedSemaphore(_AT_ONCE)


def serve(wakes: Publisher) -> None:
    """Begin the baselines that are asked for, as far as there is room for them.

    ``wakes`` tells live pages of each that is done.
    """
    with orm_connection():
        if not baselines.anything_waits():
            return
        baselines.give_back_lost()
        while not stopping.is_set() and _free.acquire(blocking=False):
            claim = None
            try:
                claim = baselines.claim()
                if claim is None:
                    return
                # No daemon: the process does not end before the table is given back.
                threading.Thread(
                    target=_serve, args=[claim, wakes], name="baseline", daemon=False
                ).start()
            finally:
                if claim is None:
                    _free.release()


def _serve(claim: Claim, wakes: Publisher) -> None:
    """In a thread: read and store, or store why not."""
    try:
        with orm_connection():
            carry_out(claim, wakes, stopping)
    except Exception:
        # The store is away: the row's sign of life grows old, and the table is read anew.
        log.exception("baseline %s: left to another worker", claim.baseline_id)
    finally:
        _free.release()


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
    except SourceTrouble as error:
        trouble = error.trouble
        if trouble.code == "internal":
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            log.error("baseline %s: %s", claim.baseline_id, where_it_failed(cause))
        _fail(claim, trouble)
    except (DSNError, SecretKeyChanged) as error:
        _fail(claim, Trouble("bad_dsn", str(error), "Mend that, or change its credentials"))
    except (StoreFailed, psycopg.Error, Slot.DoesNotExist) as error:
        log.warning("baseline %s: the store failed (%s)", claim.baseline_id, error)
        baselines.give_back(claim)
    else:
        wakes.wake(claim.slot_id, claim.incarnation_id, done.commit_seq)
        wakes.slot_changed(claim.slot_id)


def _fail(claim: Claim, trouble: Trouble) -> None:
    log.warning("baseline %s: %s", claim.baseline_id, trouble.cause)
    baselines.fail(claim, trouble.code, trouble.cause, trouble.remedy)

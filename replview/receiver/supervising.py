"""A receiver in a thread of its own, so that nothing that hangs keeps a worker from stopping.

A host that does not answer, a store that is locked, a network that swallows packets: a thread that
waits for one of them cannot be interrupted. Told to stop, it gets a few seconds; then it is left to
itself, its lease is given back for it, and the raised epoch keeps it from writing.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

import psycopg

from replview.store.connecting import connect_store
from replview.store.write import lease as leases
from replview.store.write.incarnations import log_event
from replview.store.write.lease import Lease

log = logging.getLogger(__name__)

#: How long a receiver has to end by itself once it was told to stop.
END_SECONDS = 3.5
#: How long giving its lease back may take.
RELEASE_SECONDS = 1.0
_LOOK_SECONDS = 0.2


def run_until_stopped(run: Callable[[], None], stop: threading.Event) -> bool:
    """Run to the end, which ``stop`` asks for; False if that took too long.

    What ``run`` raises is raised here.
    """
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=guarded, name="receiver", daemon=True)
    thread.start()
    while thread.is_alive() and not stop.is_set():
        thread.join(_LOOK_SECONDS)
    thread.join(END_SECONDS)
    if raised:
        raise raised[0]
    return not thread.is_alive()


def release_in_time(lease: Lease) -> None:
    """Give the lease back, unless the store takes too long; then it runs out by itself."""

    def release() -> None:
        with suppress(psycopg.Error), connect_store("replview receiver") as store:
            store.execute("SET lock_timeout = '500ms'")
            let_go(store, lease)

    thread = threading.Thread(target=release, name="lease-release", daemon=True)
    thread.start()
    thread.join(RELEASE_SECONDS)


def let_go(store: psycopg.Connection[object], lease: Lease) -> None:
    """Free the lease and say so in the slot's log; nothing happens if it was lost."""
    with store.transaction():
        if leases.release(store, lease):
            log_event(store, lease.slot_id, "stopped", "Receiver stopped, as asked.")

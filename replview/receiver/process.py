"""A receiver's process: its memory, and a thread that nothing keeps from being left.

A host that does not answer, a store that is locked, a network that swallows packets: a thread that
waits for one of them cannot be interrupted. Told to stop, it gets a few seconds; then it is left to
itself, its lease is given back for it, and the raised epoch keeps it from writing.
"""

import ctypes
import gc
import logging
import resource
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg

from replview.store.connecting import connect_store
from replview.store.write import lease as leases
from replview.store.write.incarnations import log_event
from replview.store.write.lease import Lease

#: Objects made before the garbage collector looks at the youngest.
_COLLECT_AFTER = 200_000
#: glibc's names for ``mallopt`` (malloc.h).
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_TRIM_BYTES = 64 * 1024 * 1024
_PAD_BYTES = 4 * 1024 * 1024
#: A receiver at work has less than this.
_MUCH_BYTES = 150_000_000
#: Receivers of one process do this for each other, and no more often.
_GIVE_BACK_SECONDS = 10.0
_given_back_at = 0.0
#: Larger blocks (a value of many megabytes) still go back to the system when freed.
_MMAP_BYTES = 16 * 1024 * 1024


def prepare_for_batches() -> None:
    """Keep what a batch freed for the next, and do not look for cycles where there are none.

    A batch makes some hundred thousand objects and frees them again, several times a second.
    Python's default would go through all objects after every 700 made; glibc's would give memory
    back after each batch and fault it in again page by page, a third of the receiver's CPU.
    """
    if gc.get_threshold()[0] >= _COLLECT_AFTER:
        return
    gc.set_threshold(_COLLECT_AFTER, 20, 100)
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # musl has none
            mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
            mallopt(_M_TOP_PAD, _PAD_BYTES)
            mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)


def give_back_memory() -> None:
    """Have the system take back what is not in use, where that is much: after a flood, and in a
    quiet moment.
    """
    global _given_back_at
    now = time.monotonic()
    if now - _given_back_at < _GIVE_BACK_SECONDS or resident_bytes() < _MUCH_BYTES:
        return
    _given_back_at = now
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def resident_bytes() -> int:
    """What this process holds of the machine's memory; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


log = logging.getLogger(__name__)

#: How long a receiver has to end by itself once it was told to stop.
END_SECONDS = 3.5
#: How long giving its lease back may take.
RELEASE_SECONDS = 1.0
_LOOK_SECONDS = 0.2


def run_until_stopped(run: Callable[[], None], stop: threading.Event) -> bool:
    """Run to the end, which ``stop`` asks for; False if that took too long. Raises what it does."""
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
    """Release a slot's lease for a receiver that does not end by itself, and say so in the slot's
    log. Does nothing where the lease was lost already.
    """
    with store.transaction():
        if leases.release(store, lease):
            log_event(store, lease.slot_id, "stopped", "Receiver stopped, as asked.")

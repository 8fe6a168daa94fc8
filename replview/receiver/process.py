"""This module tunes the memory of a receiver's process, and runs the receiver in a thread.

A thread that waits for a host that does not answer, a locked store or a network that drops packets
cannot be interrupted. When told to stop, it gets a few seconds; after that it is abandoned, its
lease is released on its behalf, and the raised epoch keeps it from writing.
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

#: Number of new objects after which Python's garbage collector runs.
_COLLECT_AFTER = 200_000
#: glibc's names for ``mallopt`` (malloc.h).
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_TRIM_BYTES = 64 * 1024 * 1024
_PAD_BYTES = 4 * 1024 * 1024
#: Resident memory from which giving memory back is worthwhile; a receiver at work has less.
_MUCH_BYTES = 150_000_000
#: Seconds between two attempts to give memory back, for all receivers of the process together.
_GIVE_BACK_SECONDS = 10.0
_given_back_at = 0.0
#: Larger blocks (a value of many megabytes) still go back to the system when freed.
_MMAP_BYTES = 16 * 1024 * 1024
log = logging.getLogger(__name__)
#: Seconds that a receiver has to end by itself after it was told to stop.
END_SECONDS = 3.5
#: Seconds that releasing its lease may take.
RELEASE_SECONDS = 1.0
_LOOK_SECONDS = 0.2


def prepare_for_batches() -> None:
    """Set Python's and glibc's memory management up for large batches.

    A batch makes some hundred thousand objects and frees them again, several times a second.
    Python's default would go through all objects after every 700 made; glibc's would give memory
    back after each batch and fault it in again page by page, a third of the receiver's CPU.
    """
    if gc.get_threshold()[0] >= _COLLECT_AFTER:
        return
    gc.set_threshold(_COLLECT_AFTER, 20, 100)
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # musl does not have it
            mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
            mallopt(_M_TOP_PAD, _PAD_BYTES)
            mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)


def give_back_memory() -> None:
    """Return unused memory to the operating system, if the process holds much of it."""
    global _given_back_at
    now = time.monotonic()
    if now - _given_back_at < _GIVE_BACK_SECONDS or (resident_bytes() or 0) < _MUCH_BYTES:
        return
    _given_back_at = now
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def resident_bytes() -> int | None:
    """Return the resident memory of this process; None where the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return None


def run_until_stopped(run: Callable[[], None], stop: threading.Event) -> bool:
    """Call ``run`` in a thread; return False if it goes on too long after ``stop`` was set.

    Raises what ``run`` raises.
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
    """Release the lease, unless the store takes too long; the lease then expires by itself."""

    def release() -> None:
        with suppress(psycopg.Error), connect_store("replview receiver") as store:
            store.execute("SET lock_timeout = '500ms'")
            let_go(store, lease)

    thread = threading.Thread(target=release, name="lease-release", daemon=True)
    thread.start()
    thread.join(RELEASE_SECONDS)


def let_go(store: psycopg.Connection[object], lease: Lease) -> None:
    """Release a slot's lease, and log that the receiver stopped, unless the lease was lost."""
    with store.transaction():
        if leases.release(store, lease):
            log_event(store, lease.slot_id, "stopped", "Receiver stopped, as asked.")

"""A receiver of one slot that takes the slot whenever it is free, as beat's proposals would have
it: ``python -m tests.support.run_receiver SLOT_ID OWNER``. SIGTERM ends it.
"""

import faulthandler
import logging
import os
import signal
import sys
import threading
import time

import django
import psycopg

#: A worker is offered an orphaned slot about this often.
PROPOSED_SECONDS = 0.5


def _sleep_beside_libfaketime() -> None:
    """libfaketime 0.9.10 fails ``clock_nanosleep`` when it leaves the monotonic clock alone."""
    if "libfaketime" in os.environ.get("LD_PRELOAD", ""):
        time.sleep = lambda seconds: threading.Event().wait(seconds) and None  # type: ignore[assignment]


def main() -> None:
    """Receive until SIGTERM; a slot that is taken, or a store that is away, is tried again."""
    faulthandler.register(signal.SIGUSR1)  # where it hangs, if it does
    _sleep_beside_libfaketime()
    django.setup()
    from replview.features.receiving.tasks import conninfo_of
    from replview.receiver.run import receive

    slot_id, owner = int(sys.argv[1]), sys.argv[2]
    stop = threading.Event()
    ending = threading.Event()

    def end(*_: object) -> None:
        ending.set()
        stop.set()

    signal.signal(signal.SIGTERM, end)
    while not ending.is_set():
        # A slot that is to stop sets the event it is given: each try has its own.
        stop = threading.Event()
        try:
            receive(slot_id, owner=owner, stop=stop, conninfo_of=conninfo_of)
        except psycopg.Error as error:
            logging.getLogger(__name__).warning("the store is away (%s)", type(error).__name__)
        ending.wait(PROPOSED_SECONDS)


if __name__ == "__main__":
    main()

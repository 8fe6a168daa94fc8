"""A process that receives a slot whenever nobody else does; what a worker under beat amounts to.

Usage: ``python -m tests.chaos.receiver_process SLOT_ID OWNER``; the source is ``CHAOS_SOURCE``.
SIGTERM stops it.
"""

import logging
import os
import signal
import sys
import threading

import django
import psycopg

log = logging.getLogger(__name__)

#: The interval at which the process asks for the slot; beat proposes slots every five seconds.
_ASK_SECONDS = 1.0


def main() -> None:
    """Receive until told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(message)s")
    django.setup()
    from replview.receiver.run import receive

    slot_id, owner = int(sys.argv[1]), sys.argv[2]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    while not stop.is_set():
        # Stopping a slot sets the event it was given: the process's own must outlive that.
        ours = threading.Event()
        threading.Thread(target=lambda ours=ours: (stop.wait(), ours.set()), daemon=True).start()
        try:
            receive(
                slot_id, owner=owner, stop=ours, conninfo_of=lambda _: os.environ["CHAOS_SOURCE"]
            )
        except psycopg.Error as error:
            log.warning("not taken: %s", type(error).__name__)
        stop.wait(_ASK_SECONDS)


if __name__ == "__main__":
    main()

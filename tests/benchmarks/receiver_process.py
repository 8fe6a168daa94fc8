"""A receiver in a process of its own, as a Celery worker with one slot would run it.

Usage: ``python -m tests.benchmarks.receiver_process NAME [OPTIONS]``, as ``register_slot``.
"""

import json
import os
import signal
import sys
import threading

import django

from tests.benchmarks.register_slot import register


def main() -> None:
    """Receive the slot named on the command line until SIGTERM."""
    django.setup()
    from replview.receiver.run import receive

    slot_id = register(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    receive(slot_id, owner="bench", stop=stop, conninfo_of=lambda _: os.environ["BENCH_SOURCE"])


if __name__ == "__main__":
    main()

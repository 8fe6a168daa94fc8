"""Whether this worker is told to stop: asked by whatever runs in threads beside its tasks.

With a pool of threads a task learns of SIGTERM here alone. Everything that runs ends with its last
position stored, or gives back what it had claimed, so that another worker goes on.
"""

import threading

from celery.signals import worker_shutting_down

#: Set once, for all of the process.
stopping = threading.Event()


@worker_shutting_down.connect
def _stop(**_: object) -> None:
    stopping.set()

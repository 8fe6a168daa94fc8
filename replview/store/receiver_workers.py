"""How many slots a worker for slots takes at once, which processes and sentences must agree on."""

#: Celery's ``--concurrency`` of such a worker: it reads each slot in a thread of its own.
SLOTS_PER_WORKER = 8

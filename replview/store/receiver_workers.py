"""The number of slots that one worker takes is defined here for processes and for pages' texts."""

#: Celery's ``--concurrency`` of a worker for slots: it reads each slot in its own thread.
SLOTS_PER_WORKER = 8

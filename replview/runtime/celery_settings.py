"""Celery's configuration; the reasons stand in the comments, each was tried."""

from django.conf import settings

from replview.store.identity import awaited_redis_prefix

broker_url = settings.REDIS_URL
broker_connection_retry_on_startup = True
# One Redis may serve several instances: each has its own keys, and hears only its own.
broker_transport_options = {
    # So long Redis holds a worker's question for work. A worker that is told to stop, or to serve
    # another queue, does so after that: longer, and a slot waits for its receiver.
    "polling_interval": 1.0,
    "global_keyprefix": f"{awaited_redis_prefix()}-",
}
task_ignore_result = True
task_default_queue = "default"
task_routes = {"replview.receive": {"queue": "receivers"}, "replview.watch": {"queue": "receivers"}}
# Each worker also has a queue of its own: beat sends a slot to the worker that has the fewest.
worker_direct = True
# A receiver's task lasts as long as its slot is read: never park a second one behind it ...
worker_prefetch_multiplier = 1
worker_disable_prefetch = True
# ... and acknowledge at once: late acknowledgement would deliver it again after the timeout.
task_acks_late = False
worker_hijack_root_logger = False
worker_send_task_events = False
timezone = "UTC"

# Every message costs: beat, Redis, a task and a connection to the store. What is done all the time
# is one task, and what somebody asks for is announced by who asks.
_EVERY_SECONDS = {
    # Offer slots to receivers, evaluate alerts, deliver them, keep budgets, sum up the record.
    "do_chores": 5.0,
    # Jobs that nobody announced, or whose worker is lost; what is due for the archive.
    "sweep_jobs": 15.0,
    "roll_samples": 20.0,
    "look_at_publications": 15.0,
    "tidy_store": 60.0,
    "keep_days": 60.0,
    "forget_alerts": 3600.0,
}
# One that was not begun when the next is due is dropped.
beat_schedule = {
    name.replace("_", "-"): {
        "task": f"replview.{name}",
        "schedule": seconds,
        "options": {"expires": seconds},
    }
    for name, seconds in _EVERY_SECONDS.items()
}

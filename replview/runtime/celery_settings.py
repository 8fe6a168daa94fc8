"""This module configures Celery; each comment gives the reason for a setting."""

from django.conf import settings

from replview.store.identity import awaited_redis_prefix

broker_url = settings.REDIS_URL
broker_connection_retry_on_startup = True
# One Redis may serve several instances, so each has its own prefix of keys.
broker_transport_options = {
    # Seconds that Redis blocks a worker's request for work. A worker stops, or serves another
    # queue, only after that; a longer interval would make a slot wait for its receiver.
    "polling_interval": 1.0,
    "global_keyprefix": f"{awaited_redis_prefix()}-",
}
task_ignore_result = True
task_default_queue = "default"
task_routes = {"replview.receive": {"queue": "receivers"}, "replview.watch": {"queue": "receivers"}}
# Each worker also has its own queue: beat sends a slot to the worker with the fewest slots.
worker_direct = True
# A receiver's task lasts as long as its slot is read, so a worker must not prefetch another.
worker_prefetch_multiplier = 1
worker_disable_prefetch = True
# A late acknowledgement would deliver the task again after the visibility timeout.
task_acks_late = False
worker_hijack_root_logger = False
worker_send_task_events = False
timezone = "UTC"

# Every task costs work in beat, Redis, a worker and a connection to the store. So frequent work is
# one task, and work that a user requests is announced by the request.
_EVERY_SECONDS = {
    # Offers slots to receivers, evaluates and delivers alerts, enforces budgets, sums the record.
    "do_chores": 5.0,
    # Finds jobs that nobody announced or whose worker is lost, and what is due for the archive.
    "sweep_jobs": 15.0,
    "roll_samples": 20.0,
    "look_at_publications": 15.0,
    "tidy_store": 60.0,
    "keep_days": 60.0,
    "forget_alerts": 3600.0,
}
# A task that has not started when the next one is due is dropped.
beat_schedule = {
    name.replace("_", "-"): {
        "task": f"replview.{name}",
        "schedule": seconds,
        "options": {"expires": seconds},
    }
    for name, seconds in _EVERY_SECONDS.items()
}

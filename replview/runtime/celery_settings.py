"""Celery's configuration; the reasons stand in the comments, each was tried."""

from django.conf import settings

from replview.store.connecting import awaited_redis_prefix

broker_url = settings.REDIS_URL
broker_connection_retry_on_startup = True
# One Redis may serve several instances: each has its own keys, and hears only its own.
broker_transport_options = {
    "polling_interval": 1.0,
    "global_keyprefix": f"{awaited_redis_prefix()}-",
}
task_ignore_result = True
task_default_queue = "default"
task_routes = {
    "replview.receive": {"queue": "receivers"},
    "replview.watch": {"queue": "receivers"},
}
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
beat_schedule = {
    # Offer slots to receivers, evaluate alerts, deliver them, keep budgets, sum up the record.
    "do-chores": {
        "task": "replview.do_chores",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    # Jobs that nobody announced, or whose worker is lost; what is due for the archive.
    "sweep-jobs": {
        "task": "replview.sweep_jobs",
        "schedule": 15.0,
        "options": {"expires": 15.0},
    },
    "roll-samples": {
        "task": "replview.roll_samples",
        "schedule": 20.0,
        "options": {"expires": 20.0},
    },
    "look-at-publications": {
        "task": "replview.look_at_publications",
        "schedule": 60.0,
        "options": {"expires": 60.0},
    },
    "tidy-store": {
        "task": "replview.tidy_store",
        "schedule": 60.0,
        "options": {"expires": 60.0},
    },
    "keep-days": {
        "task": "replview.keep_days",
        "schedule": 60.0,
        "options": {"expires": 60.0},
    },
    "forget-alerts": {
        "task": "replview.forget_alerts",
        "schedule": 3600.0,
        "options": {"expires": 3600.0},
    },
}

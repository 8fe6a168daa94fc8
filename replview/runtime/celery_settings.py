"""Celery's configuration; the reasons stand in the comments, each was tried."""

from django.conf import settings

from replview.store.instance_identity import awaited_redis_prefix

broker_url = settings.REDIS_URL
broker_connection_retry_on_startup = True
# One Redis may serve several instances: each has its own keys, and hears only its own.
broker_transport_options = {
    "polling_interval": 0.2,
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

beat_schedule = {
    "propose-receivers": {
        "task": "replview.propose_receivers",
        "schedule": 2.0,
        "options": {"expires": 2.0},
    },
    # The worker looks at whichever sources are due by itself; this has it go on.
    "keep-sampling": {
        "task": "replview.keep_sampling",
        "schedule": 3.0,
        "options": {"expires": 10.0},
    },
    "roll-samples": {
        "task": "replview.roll_samples",
        "schedule": 10.0,
        "options": {"expires": 10.0},
    },
    "serve-peeks": {
        "task": "replview.serve_peeks",
        "schedule": 1.0,
        "options": {"expires": 1.0},
    },
    "look-at-publications": {
        "task": "replview.look_at_publications",
        "schedule": 60.0,
        "options": {"expires": 60.0},
    },
    "serve-baselines": {
        "task": "replview.serve_baselines",
        "schedule": 1.0,
        "options": {"expires": 1.0},
    },
    "serve-drafts": {
        "task": "replview.serve_drafts",
        "schedule": 1.0,
        "options": {"expires": 1.0},
    },
    "sweep-intentions": {
        "task": "replview.sweep_intentions",
        "schedule": 10.0,
        "options": {"expires": 10.0},
    },
    "serve-exports": {
        "task": "replview.serve_exports",
        "schedule": 1.0,
        "options": {"expires": 1.0},
    },
    "serve-history-jobs": {
        "task": "replview.serve_history_jobs",
        "schedule": 1.0,
        "options": {"expires": 1.0},
    },
    "serve-erasures": {
        "task": "replview.serve_erasures",
        "schedule": 1.0,
        "options": {"expires": 1.0},
    },
    "serve-archive": {
        "task": "replview.serve_archive",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "roll-activity": {
        "task": "replview.roll_activity",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "tidy-store": {
        "task": "replview.tidy_store",
        "schedule": 30.0,
        "options": {"expires": 30.0},
    },
    "keep-days": {
        "task": "replview.keep_days",
        "schedule": 60.0,
        "options": {"expires": 60.0},
    },
    "evaluate-alerts": {
        "task": "replview.evaluate_alerts",
        "schedule": 2.0,
        "options": {"expires": 2.0},
    },
    "deliver-alerts": {
        "task": "replview.deliver_alerts",
        "schedule": 1.0,
        "options": {"expires": 1.0},
    },
    "forget-alerts": {
        "task": "replview.forget_alerts",
        "schedule": 3600.0,
        "options": {"expires": 3600.0},
    },
    "enforce-budgets": {
        "task": "replview.enforce_budgets",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "write-heartbeats": {
        "task": "replview.write_heartbeats",
        "schedule": 2.0,
        "options": {"expires": 2.0},
    },
}

"""The Celery application has one task a slot on the receivers' workers; others are on ``default``.

The parts meet in its tasks: these call the receiver and the sampling, neither of which imports
the other or Channels.
"""

import logging.config
import os

from celery import Celery
from celery.signals import setup_logging, worker_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "replview.settings")
# Django's checks would load all pages into every worker, and with them pyarrow: 66 MB that a
# receiver never uses. `migrate` runs them, before anything starts.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

#: Seconds after which a thread of a worker closes its connection to the store.
_CONNECTIONS_LAST_SECONDS = 600

app = Celery("replview")
app.config_from_object("replview.runtime.celery_settings")
app.autodiscover_tasks(
    ["replview.features.receiving", "replview.features.sampling", "replview.features.alerts"]
)
#: Features with a ``job`` module.
_WITH_JOBS = (
    "archive", "baselines", "erasure", "exports", "history", "lake", "onboarding", "peeks",
)  # fmt: skip
app.autodiscover_tasks([f"replview.features.{name}" for name in _WITH_JOBS], related_name="job")
app.autodiscover_tasks(["replview.features.lake"], related_name="schedule")
app.autodiscover_tasks(["replview.jobs"], related_name="running")
app.autodiscover_tasks(["replview.acts"], related_name="slot_sweeping")


@worker_init.connect
def _keep_files_private(**_: object) -> None:
    """Make exports and archives readable by their user only, whoever starts the worker."""
    os.umask(os.umask(0o077) | 0o077)


@worker_init.connect
def _keep_connections(**_: object) -> None:
    """Keep connections to the store, because a new one costs more than most tasks."""
    from replview.store.connecting import keep_connections

    keep_connections(_CONNECTIONS_LAST_SECONDS)


@setup_logging.connect
def _log_as_everywhere(**_: object) -> None:
    """Log in workers and beat as the web server does, instead of in Celery's format."""
    from django.conf import settings

    logging.config.dictConfig(settings.LOGGING)

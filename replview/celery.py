"""The Celery application: one task a slot on the receivers' workers, the rest on ``default``.

This is where the parts meet: tasks call the receiver and the sampling, neither of which knows of
the other or of Channels.
"""

import logging.config
import os

from celery import Celery
from celery.signals import setup_logging, worker_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "replview.settings")
# Django's checks would load all pages into every worker, and with them pyarrow: 66 MB that a
# receiver never uses. `migrate` runs them, before anything starts.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

#: Connections to the store that threads of a worker keep.
_CONNECTIONS_LAST_SECONDS = 600

app = Celery("replview")
app.config_from_object("replview.runtime.celery_settings")
app.autodiscover_tasks(
    ["replview.features.receiving", "replview.features.sampling", "replview.features.alerts"]
)
app.autodiscover_tasks(
    [
        f"replview.features.{name}"
        for name in ("archive", "baselines", "erasure", "exports", "history", "onboarding", "peeks")
    ],
    related_name="job",
)
app.autodiscover_tasks(["replview.jobs"], related_name="running")
app.autodiscover_tasks(["replview.acts"], related_name="slot_sweeping")


@worker_init.connect
def _keep_files_private(**_: object) -> None:
    """Exports and archives are for their user alone, whoever starts the worker."""
    os.umask(os.umask(0o077) | 0o077)


@worker_init.connect
def _keep_connections(**_: object) -> None:
    """A new one costs more than most of what is done on it."""
    from replview.store.connecting import keep_connections

    keep_connections(_CONNECTIONS_LAST_SECONDS)


@setup_logging.connect
def _log_as_everywhere(**_: object) -> None:
    """Workers and beat log as the web server does; Celery would write lines of its own form."""
    from django.conf import settings

    logging.config.dictConfig(settings.LOGGING)

"""The Celery application: one task a slot on the receivers' workers, the rest on ``default``.

This is where the parts meet: tasks call the receiver and the sampling, neither of which knows of
the other or of Channels.
"""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "replview.settings")

app = Celery("replview")
app.config_from_object("replview.celery_settings")
app.autodiscover_tasks(["replview", "replview.sampling"])

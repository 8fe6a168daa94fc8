"""A worker loads what its tasks need, and no pages: its memory is for transactions."""

import os
import subprocess
import sys

LOAD = """
import django, sys
django.setup()
from replview.celery import app
app.loader.import_default_modules()
pages = ("ninja", "pydantic", "pyarrow", "pyspark", "replview.features.rows.views", "replview.urls")
print(*(name for name in pages if name in sys.modules))
"""


def test_a_worker_loads_no_pages() -> None:
    environment = {name: os.environ[name] for name in os.environ if name != "CELERY_SKIP_CHECKS"}
    environment["DJANGO_SETTINGS_MODULE"] = "replview.settings"
    done = subprocess.run(
        [sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []

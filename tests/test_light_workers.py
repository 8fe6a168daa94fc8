"""A worker loads what its tasks need, and no pages: its memory is for transactions. What it writes
is private.
"""

import os
import subprocess
import sys

import pytest

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


def test_the_readers_of_the_store_load_pandas_only_when_they_read() -> None:
    # An array that is made at import, for instance, would have pyarrow import it.
    text = "import replview.spark.data_source, sys; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


#: The starts of ``replview …`` and of ``celery worker``, with whatever umask.
STARTS = {
    "command": "from replview.cli import main; sys.argv[1:] = ['version']; main()",
    "worker": "import replview.celery; worker_init.send(None)",
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("given", "wanted"), [("0o022", "0o77"), ("0o177", "0o177")])
def test_files_are_for_their_user_alone(start: str, given: str, wanted: str) -> None:
    text = (
        "import os, sys, django; from celery.signals import worker_init; django.setup(); "
        f"os.umask({given}); {STARTS[start]}; print(oct(os.umask(0)))"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "replview.settings"}
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == wanted

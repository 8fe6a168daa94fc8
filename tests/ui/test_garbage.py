"""The garbage collector skips the objects that a web process holds all its life."""

import subprocess
import sys

SCRIPT = """
import gc
import replview.asgi
kept = len(gc.get_objects())
assert gc.get_freeze_count() > 50_000, gc.get_freeze_count()
assert kept < 1000, kept
import sys
assert "replview.features.transactions.list_page" in sys.modules
"""


def test_a_web_process_collects_only_what_requests_leave() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr

"""Run pytest, run what failed once more, and name the tests that passed only then.

``python -m tests.support.retrying ARGUMENTS``: arguments are pytest's. Tests that failed run again
alone, one after another. When all of them pass, the run counts as passed, and their names are
appended to the file that ``REPLVIEW_UNSTABLE_TESTS`` names: the caller reports them.

The exit status is pytest's. Only failed tests are tried again: a run that was interrupted, could
not be collected or broke inside pytest stays failed, and so does one with many failures, which no
coincidence explains.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

#: More failures than this are not tried again.
MOST_FAILURES = 20
UNSTABLE_TESTS = "REPLVIEW_UNSTABLE_TESTS"
# Pytest's exit statuses.
_PASSED = 0
_SOME_FAILED = 1


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="replview-retry-") as cache:
        remembering = [*arguments, "-o", f"cache_dir={cache}"]
        status = _pytest(remembering)
        if status != _SOME_FAILED:
            return status
        failed = _failed(Path(cache))
        if len(failed) > MOST_FAILURES:
            print(f"{len(failed)} tests failed: too many to try them again", flush=True)
            return status
        print(f"\n{len(failed)} failed: they run once more, alone", flush=True)
        again = ["--last-failed", "--last-failed-no-failures", "none", "-n", "0"]
        status = _pytest([*remembering, *again])
    if status == _PASSED:
        _report(failed)
    return status


def _pytest(arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def _failed(cache: Path) -> list[str]:
    """Return the node ids of the tests that failed, as pytest's cache has them."""
    return sorted(json.loads((cache / "v" / "cache" / "lastfailed").read_text()))


def _report(names: Sequence[str]) -> None:
    """Append the names, a line each, to the file for them, if the caller set one."""
    path = os.environ.get(UNSTABLE_TESTS)
    if path:
        with open(path, "a") as file:
            file.writelines(f"{name}\n" for name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The newest PySpark of the supported range for tests: fetched once by pip into a cache."""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "4.3.0"


class PySparkMissing(Exception):
    """PySpark is not in the cache and cannot be fetched; the text says why."""


def packages() -> Path:
    """The folder with PySpark and what it needs, for PYTHONPATH; fetched by the first who asks."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "replview-tests"
    cache.mkdir(parents=True, exist_ok=True)
    whole = cache / f"pyspark-{VERSION}"
    with open(whole.with_name(f"{whole.name}.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            with tempfile.TemporaryDirectory(dir=cache) as aside:
                _fetch(Path(aside) / "packages")
                (Path(aside) / "packages").rename(whole)
    return whole


def _fetch(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
               "--target", str(folder), f"pyspark=={VERSION}"]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=600)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise PySparkMissing(f"pip could not fetch pyspark=={VERSION}") from None

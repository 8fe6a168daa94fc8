"""PostgreSQL's JDBC driver for Spark: fetched once by Maven into a cache."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.benchmarks.processes import Failed

_VERSION = "42.7.8"
_ARTIFACT = f"org.postgresql:postgresql:{_VERSION}"


def jar() -> Path:
    """The driver's jar. Raises ``Failed`` with what to install."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "replview-tests"
    found = cache / f"postgresql-{_VERSION}.jar"
    if found.exists():
        return found
    if shutil.which("mvn") is None:
        raise Failed("Maven, which fetches the JDBC driver, is missing: apt-get install maven")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as aside:
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={_ARTIFACT}",
                   "-DoutputDirectory=."]  # fmt: skip
        try:
            subprocess.run(command, cwd=aside, check=True, capture_output=True, timeout=300)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            raise Failed(f"Maven could not fetch {_ARTIFACT}") from None
        (Path(aside) / found.name).rename(found)
    return found

"""Jars that Spark does not bring itself, for tests: fetched once by Maven into a cache."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

_POM = """
<project><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


class JarsMissing(Exception):
    """The jars are not here and cannot be fetched; the text says what to do."""


def jars(name: str, packages: Sequence[str], includes: str) -> tuple[Path, ...]:
    """Return the jars as ``find_jars`` does; skip the test where they are missing."""
    found = find_jars(name, packages, includes)
    if isinstance(found, JarsMissing):
        pytest.skip(str(found))
    return found


def find_jars(name: str, packages: Sequence[str], includes: str) -> tuple[Path, ...] | JarsMissing:
    """Return the jars of packages (``group:artifact:version``) and of what they need.

    ``name`` is the folder in the cache; ``includes`` is Maven's option that leaves out what Spark
    has. Where they are not here and cannot be fetched, the reason is returned.
    """
    return _fetched(name, tuple(packages), includes)


@cache
def _fetched(name: str, packages: tuple[str, ...], includes: str) -> tuple[Path, ...] | JarsMissing:
    """Return the jars; what could not be fetched once is not tried again by the next test."""
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_folder / "replview-tests" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{name}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if not folder.exists():
                _fetch(packages, includes, folder)
        except JarsMissing as problem:
            return problem
    return tuple(sorted(folder.glob("*.jar")))


def _fetch(packages: Sequence[str], includes: str, folder: Path) -> None:
    if shutil.which("mvn") is None:
        raise JarsMissing("Maven, which fetches Spark's connectors, is missing: apt install maven")
    with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
        pom = _POM.format("".join(_DEPENDENCY.format(*each.split(":")) for each in packages))
        (Path(aside) / "pom.xml").write_text(pom)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", includes,
                   "-DincludeScope=runtime", "-DoutputDirectory=jars"]  # fmt: skip
        try:
            subprocess.run(command, cwd=aside, check=True, capture_output=True, timeout=600)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            raise JarsMissing(f"Maven could not fetch {', '.join(packages)}") from None
        (Path(aside) / "jars").rename(folder)

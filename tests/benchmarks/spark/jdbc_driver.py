"""PostgreSQL's JDBC driver for Spark: fetched once by Maven into a cache."""

from pathlib import Path

from tests.benchmarks.processes import Failed
from tests.support.jars import JarsMissing, find_jars

_VERSION = "42.7.8"


def jar() -> Path:
    """The driver's jar. Raises ``Failed`` with what to install."""
    found = find_jars(
        f"postgresql-jdbc-{_VERSION}", [f"org.postgresql:postgresql:{_VERSION}"],
        "-DincludeArtifactIds=postgresql",
    )  # fmt: skip
    if isinstance(found, JarsMissing):
        raise Failed(str(found))
    return found[0]

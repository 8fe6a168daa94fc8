"""The connectors of Delta and Iceberg for tests."""

import os
from pathlib import Path

import pyspark
import pytest

from replview.spark.lake.formats import FORMATS
from tests.support.jars import JarsMissing, find_jars

#: Maven's option for the groups of the jars that Spark does not bring itself.
_GROUPS = "-DincludeGroupIds=io.delta,io.unitycatalog,org.apache.iceberg"


def connectors() -> tuple[Path, ...] | JarsMissing:
    """Return the connectors' jars for this PySpark, or why they are not here."""
    version = ".".join(pyspark.__version__.split(".")[:2])
    packages = [each.package.format(version) for each in FORMATS.values()]
    versions = (package.rpartition(":")[2] for package in packages)
    return find_jars("-".join(("lake", version, *versions)), packages, _GROUPS)


def session_variables(*more: Path) -> dict[str, str]:
    """Return the variables by which the sessions of other processes have the connectors.

    ``more`` are further jars. Skips the test where the connectors are missing.
    """
    if isinstance(jars := connectors(), JarsMissing):
        pytest.skip(str(jars))
    classes = os.pathsep.join(map(str, (*jars, *more)))
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": f"--driver-class-path {classes} pyspark-shell",
    }

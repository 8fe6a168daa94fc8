"""The connectors of Delta and Iceberg for tests."""

from pathlib import Path

import pyspark

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

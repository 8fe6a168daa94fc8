"""What Spark itself needs to read and write an object store, said where it has not got it."""

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replview.spark.sessions import SparkProblem

#: Of Spark's schemes: the package, ``{}`` standing for the version of Spark's own Hadoop.
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws:{}",
    "gs": "org.apache.hadoop:hadoop-gcp:{}",
    "abfs": "org.apache.hadoop:hadoop-azure:{}",
    "abfss": "org.apache.hadoop:hadoop-azure:{}",
    "wasbs": "org.apache.hadoop:hadoop-azure:{}",
    "oss": "org.apache.hadoop:hadoop-aliyun:{}",
}
#: How Hadoop says so: of a class that is configured, and of a scheme that is not.
_CLASS = re.compile(r"ClassNotFoundException: (?:Class )?org\.apache\.hadoop\.fs\.(\w+)\.")
_SCHEME = re.compile(r"No FileSystem for scheme:? \"?([\w+.-]+)")
#: The connector alone, put there by hand, without what it stands on.
_LIBRARY = re.compile(r"(?:NoClassDefFoundError|ClassNotFoundException): software[./]amazon[./]")
_SCHEMES_OF_CLASSES = {"azurebfs": "abfss", "azure": "wasbs", "aliyun": "oss"}


@contextmanager
def naming_connectors() -> Iterator[None]:
    """Raise ``SparkProblem`` with the missing package in place of Spark's own error."""
    try:
        yield
    except SparkProblem:
        raise
    except Exception as error:
        found = missing_connector(error)
        if found is None:
            raise
        raise found from error


def missing_connector(error: BaseException) -> SparkProblem | None:
    """What Spark's error says is not there; None: it says something else."""
    words = str(error)
    if _LIBRARY.search(words):
        named = _PACKAGES["s3a"].format(_hadoop_version())
        return SparkProblem(
            "Spark's connector for s3a:// lacks Amazon's libraries",
            f"add {named} to spark.jars.packages, which brings them; or put "
            "software.amazon.awssdk:bundle and analyticsaccelerator-s3 beside it",
        )
    of_class, of_scheme = _CLASS.search(words), _SCHEME.search(words)
    if of_class is not None:
        scheme = _SCHEMES_OF_CLASSES.get(of_class[1], of_class[1])
    elif of_scheme is not None:
        scheme = of_scheme[1]
    else:
        return None
    package = _PACKAGES.get(scheme)
    if package is None:
        return SparkProblem(
            f"Spark has no connector for {scheme}://",
            "add the connector's package to spark.jars.packages in spark-defaults.conf",
        )
    named = package.format(_hadoop_version())
    return SparkProblem(
        f"Spark has no connector for {scheme}://",
        f"add {named} to spark.jars.packages in spark-defaults.conf, or set "
        f"PYSPARK_SUBMIT_ARGS='--packages {named} pyspark-shell' in the environment",
    )


def _hadoop_version() -> str:
    """Of the Hadoop that PySpark brings: its connectors have the same."""
    found = importlib.util.find_spec("pyspark")
    folders = found.submodule_search_locations if found else None
    for folder in folders or ():
        for jar in Path(folder, "jars").glob("hadoop-client-api-*.jar"):
            return jar.stem.removeprefix("hadoop-client-api-")
    return "VERSION"

"""One Spark session for all tests that need one: two threads of this machine, a quick JVM."""

import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

#: The quickest start: no second compiler, one thread that collects.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dio.netty.tryReflectionSetAccessible=true"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on ``local[2]``: UTC, no page, no progress bar; the data source is registered."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java (Debian's openjdk-17-jre-headless)")
    sql = pytest.importorskip("pyspark.sql", reason="the extra 'spark' is not installed")
    from replview.spark.data_source import register
    from tests.support.jars import JarsMissing
    from tests.support.lake_connectors import connectors

    environment = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "TZ": "UTC",
        "PYTHONWARNINGS": "ignore",
    }
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        # pyspark itself leaves sockets to the JVM to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        for name, value in environment.items():
            patch.setenv(name, value)
        found = connectors()
        lake = {} if isinstance(found, JarsMissing) else _lake(found)
        session = (
            sql.SparkSession.builder.master("local[2]")
            .appName("replview tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.session.timeZone", "UTC")
            # Few rows: to plan anew, to compile and to spread out costs more than it saves.
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.adaptive.enabled", "false")
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            .config("spark.driver.memory", "768m")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", _JAVA)
            .config(map=lake)
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        register(session)
        yield session
        session.stop()


def _lake(connectors: Sequence[Path]) -> dict[str, str]:
    """The settings of both formats, whose folders a test chooses in a session of its own."""
    from replview.spark.lake.formats import FORMATS

    settings: dict[str, str] = {}
    for each in FORMATS.values():
        settings |= each.settings("")
    return settings | {
        "spark.sql.extensions": ",".join(each.extension for each in FORMATS.values()),
        "spark.driver.extraClassPath": os.pathsep.join(map(str, connectors)),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    }

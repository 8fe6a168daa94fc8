"""Open Spark sessions on this machine, on a cluster, or by Spark Connect, always in UTC.

The module also explains which connector Spark lacks for an object store.
"""

import importlib.util
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from replview.spark.artefact import carried, is_packed
from replview.text.problem import CodedProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: A store's address, which may have a password.
_ADDRESS = r"(?i)postgres(ql)?://[^\s\"']+|password\s*=\s*('[^']*'|[^\s\"']+)"
#: Settings that every job relies on, and that a running session accepts.
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # PostgreSQL's names may differ in case alone.
    "spark.sql.caseSensitive": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark Connect shows the options of a reader on its pages, and has them in its event log.
    "spark.sql.redaction.string.regex": _ADDRESS,
}
#: Settings of a local driver, which listens on the loopback interface only.
_HERE = {
    "spark.ui.enabled": "false",
    # Sort in a few partitions, not in the 200 that suit a cluster.
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
#: Default port of Spark Connect.
_CONNECT_PORT = 15_002
#: Seconds to wait for a server; Spark's own client would try for ten minutes.
_ANSWERS_WITHIN_SECONDS = 5.0
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_TOKEN = re.compile(r";\s*token\s*=", re.IGNORECASE)
#: Connector's package by scheme; ``{}`` is the version of Spark's Hadoop.
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws:{}",
    "gs": "org.apache.hadoop:hadoop-gcp:{}",
    "abfs": "org.apache.hadoop:hadoop-azure:{}",
    "abfss": "org.apache.hadoop:hadoop-azure:{}",
    "wasbs": "org.apache.hadoop:hadoop-azure:{}",
    "oss": "org.apache.hadoop:hadoop-aliyun:{}",
}
#: Hadoop's errors for a missing class and for an unknown scheme.
_CLASS = re.compile(r"ClassNotFoundException: (?:Class )?org\.apache\.hadoop\.fs\.(\w+)\.")
_SCHEME = re.compile(r"No FileSystem for scheme:? \"?([\w+.-]+)")
#: Error of a connector that was installed without its libraries.
_LIBRARY = re.compile(r"(?:NoClassDefFoundError|ClassNotFoundException): software[./]amazon[./]")
_SCHEMES_OF_CLASSES = {"azurebfs": "abfss", "azure": "wasbs", "aliyun": "oss"}


class SparkProblem(CodedProblem):
    """A request that Spark cannot carry out; ``remedy`` has the next step."""

    code_of_all = "spark"

    def __str__(self) -> str:
        return f"{self.cause}: {self.remedy}"


def session(url: str | None = None, *, name: str = "replview", **settings: str) -> "SparkSession":
    """Open a session at ``url``: ``local[2]``, ``spark://…``, ``yarn``, ``sc://…`` (Spark Connect).

    None uses the environment (``spark-submit``, SPARK_REMOTE, spark-defaults.conf), else this
    machine.

    The current process is set to UTC too, and ``format("replview")`` is registered. ``settings``
    are Spark's, with two underscores for a dot. Raises ``SparkProblem``.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise _lacking() from None
    _set_environment()
    if url is not None and url.startswith("sc://"):
        found = _connected(url, settings)
    else:
        builder = SparkSession.builder.appName(name)
        for key, value in {**SETTINGS, **_begun(url, settings)}.items():
            builder = builder.config(key, value)
        found = _made(builder.getOrCreate)
    _send_code(found)
    for key, value in SETTINGS.items():
        found.conf.set(key, value)
    # Jobs over files need no psycopg, and a cluster may have none.
    with suppress(ImportError):
        from replview.spark.data_source import register

        register(found)
    return found


def _set_environment() -> None:
    os.environ["TZ"] = "UTC"
    # Local executors use the same Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _begun(url: str | None, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a local driver."""
    where = {} if url is None else {"spark.master": url}
    here = _HERE if url is not None and url.startswith("local") else {}
    given = {key.replace("__", "."): value for key, value in settings.items()}
    return {**where, **here, "spark.ui.showConsoleProgress": "false", **given}


def _lacking() -> SparkProblem:
    return SparkProblem(
        "Spark is not installed here",
        "install it in replview's folder with: pip install '.[spark]'",
    )


def by_connect(session: object) -> bool:
    """Return whether a session uses Spark Connect, which has neither RDDs nor a JVM."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _send_code(spark: Any) -> None:
    """Give this package to Spark's other machines, whose Python may lack it."""
    if by_connect(spark):
        with tempfile.TemporaryDirectory() as folder:
            spark.addArtifacts(str(carried(Path(folder))), pyfile=True)
        return
    context = spark.sparkContext
    is_local = context.master == "local" or context.master.startswith("local[")
    if is_local and not is_packed():
        return
    from pyspark import SparkFiles

    # Spark serves the file from where it is, and removes its own folder when it stops.
    package = str(carried(Path(SparkFiles.getRootDirectory(), "replview")))
    context.addPyFile(package)
    # The driver plans streams in a process that looks for no added files.
    paths = (package, context.environment.get("PYTHONPATH"))
    context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def refuse_token(url: str) -> None:
    """Raise ``SparkProblem`` for an address with a token, since addresses are recorded."""
    if _TOKEN.search(url):
        raise SparkProblem(
            "the address of Spark Connect holds a token, which would be recorded",
            "take it out, and set SPARK_CONNECT_AUTHENTICATE_TOKEN in the environment",
        )


def _connected(url: str, settings: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    refuse_token(url)
    try:
        from pyspark.sql.connect.session import SparkSession as _  # noqa: F401
    except ImportError:
        raise SparkProblem(
            "the client of Spark Connect is not installed here",
            "install it in replview's folder with: pip install '.[connect]'",
        ) from None
    _look_for(url)
    builder = SparkSession.builder.remote(url)
    for key, value in {**SETTINGS, **settings}.items():
        builder = builder.config(key.replace("__", "."), value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise _silent(url, error) from error


def _look_for(url: str) -> None:
    """Raise ``SparkProblem`` if no server listens; behind a proxy that is unknown."""
    place = urlsplit(url.partition(";")[0])
    if any(os.environ.get(name) for name in _PROXIES):
        return
    try:
        address = (place.hostname or "", place.port or _CONNECT_PORT)
        socket.create_connection(address, _ANSWERS_WITHIN_SECONDS).close()
    except (OSError, ValueError) as error:
        raise _silent(url, error) from error


def _silent(url: str, error: Exception) -> SparkProblem:
    return SparkProblem(
        f"no Spark Connect server answers at {url.partition('?')[0].partition(';')[0]} "
        f"({type(error).__name__})",
        "start one with sbin/start-connect-server.sh, or check the address",
    )


def _made(begin: Callable[[], Any]) -> Any:
    try:
        return begin()
    except Exception as error:
        home = os.environ.get("JAVA_HOME")
        if shutil.which("java", path=f"{home}/bin" if home else None) is None:
            raise SparkProblem(
                "Spark finds no Java here",
                "install Java 17: apt-get install openjdk-17-jre-headless",
            ) from error
        raise SparkProblem(f"Spark does not start ({type(error).__name__})", str(error)) from error


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
    """Return the problem if Spark's error is about a missing connector, else None."""
    words = str(error)
    if _LIBRARY.search(words):
        named = _PACKAGES["s3a"].format(hadoop_version())
        return SparkProblem(
            "Spark's connector for s3a:// lacks Amazon's libraries",
            f"add {named} to spark.jars.packages, which brings them; or put "
            "software.amazon.awssdk:bundle and analyticsaccelerator-s3 beside it",
        )
    found = _CLASS.search(words) or _SCHEME.search(words)
    if found is None:
        return None
    scheme = _SCHEMES_OF_CLASSES.get(found[1], found[1])
    remedy = "add the connector's package to spark.jars.packages in spark-defaults.conf"
    if scheme in _PACKAGES:
        named = _PACKAGES[scheme].format(hadoop_version())
        remedy = (
            f"add {named} to spark.jars.packages in spark-defaults.conf, or set "
            f"PYSPARK_SUBMIT_ARGS='--packages {named} pyspark-shell' in the environment"
        )
    return SparkProblem(f"Spark has no connector for {scheme}://", remedy)


def store_connector(url: str) -> str | None:
    """Return the coordinates of the connector for an object store's address, as Spark spells it.

    None: Spark has what the address needs, or no connector is known.
    """
    package = _PACKAGES.get(urlsplit(url).scheme)
    return package.format(hadoop_version()) if package else None


def hadoop_version() -> str:
    """Return the version of PySpark's Hadoop, which its connectors share."""
    found = importlib.util.find_spec("pyspark")
    folders = found.submodule_search_locations if found else None
    for folder in folders or ():
        for jar in Path(folder, "jars").glob("hadoop-client-api-*.jar"):
            return jar.stem.removeprefix("hadoop-client-api-")
    return "VERSION"

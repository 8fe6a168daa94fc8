"""Delta and Iceberg: the settings, names and commits of a lake's tables.

Each commit records how far it has read the slot, by incarnation. A batch that is repeated after a
crash finds that in the table itself, so that its rows are there once.
"""

# ruff: noqa: S608 (SQL of quoted names and constants)

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from replview.spark.quoting import spark_literal, tick
from replview.spark.sessions import SparkProblem, store_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replview.spark.stream_offsets import Offset

#: Name of Iceberg's catalog in a session.
_CATALOG = "lake"
_REACHED = "replview.reached"
_APPLICATION = "replview/"
_TXN = "spark.databricks.delta.write."
#: The newest Spark for which both connectors were released.
_CONNECTED = "4.1"
#: Bytes of a file after compaction.
_FILE_BYTES = 128 * 1024 * 1024
#: Columns that tell which files hold a part of the history.
_PLACES = "_incarnation,_commit_seq,_commit_version"


class LakeFormat(ABC):
    """A table format with a connector for Spark."""

    name: ClassVar[str]
    #: The connector's Maven coordinates; ``{}`` is Spark's version, such as 4.1.
    package: ClassVar[str]
    #: The connector's additions to Spark's SQL.
    extension: ClassVar[str]
    #: Properties of a new table.
    properties: ClassVar[Mapping[str, str]]
    #: Options of an append to ``changes``.
    append_options: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def settings(self, root: str) -> dict[str, str]:
        """Return the settings that a session needs from its start."""

    @abstractmethod
    def table(self, root: str, folders: Sequence[str]) -> str:
        """Return a table's name in SQL."""

    @abstractmethod
    def reached(self, spark: "SparkSession", table: str) -> "Offset":
        """Return how far the table's commits have read the slot."""

    @abstractmethod
    def marks(self, offset: "Offset", incarnation: int) -> dict[str, str]:
        """Return the settings of a session whose next commit has read up to ``offset``."""

    def prepare(self, spark: "SparkSession", table: str) -> None:  # noqa: B027 (often nothing)
        """Make what must exist before the table."""

    @abstractmethod
    def size(self, spark: "SparkSession", table: str) -> dict[str, int]:
        """Return the ``rows``, ``files`` and ``bytes`` that the table has now."""

    @abstractmethod
    def maintenance(self, spark: "SparkSession", table: str, before: dt.datetime) -> Iterator[str]:
        """Yield the statements that compact a table and delete files from before a time."""

    @abstractmethod
    def forget_versions(self, spark: "SparkSession", table: str) -> None:
        """Delete all versions of a table but the present one, with their files, at once.

        No other session may write to the table meanwhile.
        """

    @contextmanager
    def reaching(self, spark: "SparkSession", offset: "Offset", incarnation: int) -> Iterator[None]:
        """Record ``offset`` with each commit of the session."""
        marks = self.marks(offset, incarnation)
        for name, value in marks.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in marks:
                spark.conf.unset(name)


class Delta(LakeFormat):
    """Delta Lake: tables by path; a commit carries an application's transaction version."""

    name = "delta"
    package = "io.delta:delta-spark_{}_2.13:4.3.1"
    extension = "io.delta.sql.DeltaSparkSessionExtension"
    properties: ClassVar[Mapping[str, str]] = {"delta.dataSkippingStatsColumns": _PLACES}

    def settings(self, root: str) -> dict[str, str]:
        """Return the settings that a session needs from its start."""
        return {
            "spark.sql.extensions": self.extension,
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # Tasks that read a table's log, and that list its files; 50 and 10,000 by default.
            "spark.databricks.delta.snapshotPartitions": "8",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
            # Write the days of a task side by side: else its rows are sorted by day.
            "spark.sql.maxConcurrentOutputFileWriters": "16",
            # The source of our MERGE is a checkpoint: Delta need not copy it again.
            "spark.databricks.delta.merge.materializeSource": "none",
        }

    def table(self, root: str, folders: Sequence[str]) -> str:
        """Return a table's name in SQL: its path."""
        return f"delta.{tick('/'.join((root.rstrip('/'), *folders)))}"

    def reached(self, spark: "SparkSession", table: str) -> "Offset":
        """Return the versions of our transactions, which Delta keeps for ever."""
        path = table.removeprefix("delta.").strip("`").replace("``", "`")
        jvm: Any = spark._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
        none = jvm.scala.Option.empty()
        snapshot = log.update(False, none, none)
        versions = jvm.scala.jdk.javaapi.CollectionConverters.asJava(snapshot.transactions())
        return {
            name.removeprefix(_APPLICATION): int(versions[name])
            for name in versions
            if name.startswith(_APPLICATION)
        }

    def marks(self, offset: "Offset", incarnation: int) -> dict[str, str]:
        """Return the settings of an idempotent write: Delta skips a version that it has."""
        return {
            f"{_TXN}txnAppId": f"{_APPLICATION}{incarnation}",
            f"{_TXN}txnVersion": str(offset[str(incarnation)]),
        }

    def size(self, spark: "SparkSession", table: str) -> dict[str, int]:
        """Return the size, which Delta knows from its log."""
        [(files, size)] = (
            spark.sql(f"DESCRIBE DETAIL {table}").select("numFiles", "sizeInBytes").collect()
        )
        return {"rows": spark.table(table).count(), "files": files, "bytes": size}

    def maintenance(self, spark: "SparkSession", table: str, before: dt.datetime) -> Iterator[str]:
        """Yield OPTIMIZE and VACUUM; the latter refuses less than the table's retention."""
        hours = int((dt.datetime.now(dt.UTC) - before) / dt.timedelta(hours=1))
        yield f"SET spark.databricks.delta.optimize.maxFileSize = {_FILE_BYTES}"
        yield f"OPTIMIZE {table}"
        yield f"VACUUM {table} RETAIN {hours} HOURS"

    def forget_versions(self, spark: "SparkSession", table: str) -> None:
        """Run VACUUM, which refuses so short a retention unless it is told to allow it."""
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        spark.sql(f"VACUUM {table} RETAIN 0 HOURS")


class Iceberg(LakeFormat):
    """Apache Iceberg: tables of a catalog in folders; a snapshot carries a property."""

    name = "iceberg"
    package = "org.apache.iceberg:iceberg-spark-runtime-{}_2.13:1.11.0"
    extension = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    properties: ClassVar[Mapping[str, str]] = {
        # Keep no metadata file of each commit for ever.
        "write.metadata.delete-after-commit.enabled": "true",
    }
    # Neither give each day to one task, nor sort a task's rows by day: they are in order.
    append_options: ClassVar[Mapping[str, str]] = {
        "distribution-mode": "none",
        "fanout-enabled": "true",
    }

    def settings(self, root: str) -> dict[str, str]:
        """Return the settings that a session needs from its start."""
        return {
            "spark.sql.extensions": self.extension,
            f"spark.sql.catalog.{_CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
            f"spark.sql.catalog.{_CATALOG}.type": "hadoop",
            f"spark.sql.catalog.{_CATALOG}.warehouse": root,
            f"spark.sql.catalog.{_CATALOG}.cache-enabled": "false",
        }

    def table(self, root: str, folders: Sequence[str]) -> str:
        """Return a table's name in SQL, whose parts are folders below the catalog's root."""
        return ".".join((_CATALOG, *map(tick, folders)))

    def prepare(self, spark: "SparkSession", table: str) -> None:
        """Make the table's namespace."""
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.rpartition('.')[0]}")

    def reached(self, spark: "SparkSession", table: str) -> "Offset":
        """Return the property of the newest snapshot that has it, else the table's."""
        loaded = self._loaded(spark, table)
        # A table that was written again has its former snapshots, but not as ancestors.
        for snapshot in reversed([*loaded.snapshots()]):
            if reached := snapshot.summary().get(_REACHED):
                return dict(orjson.loads(reached))
        return dict(orjson.loads(loaded.properties().get(_REACHED) or "{}"))

    def marks(self, offset: "Offset", incarnation: int) -> dict[str, str]:
        """Return the setting that gives a snapshot a property."""
        property_ = f"spark.sql.iceberg.snapshot-property.{_REACHED}"
        return {property_: orjson.dumps(offset).decode()}

    def size(self, spark: "SparkSession", table: str) -> dict[str, int]:
        """Return the size, which Iceberg knows from its manifests."""
        [(rows, files, size)] = spark.sql(
            f"SELECT sum(record_count), count(*), sum(file_size_in_bytes) FROM {table}.files"
        ).collect()
        return {"rows": rows or 0, "files": files, "bytes": size or 0}

    def maintenance(self, spark: "SparkSession", table: str, before: dt.datetime) -> Iterator[str]:
        """Yield the procedures; the offset becomes the table's, as its snapshot may expire."""
        call, time = self._call(table), f"TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}'"
        # By default, it leaves fewer than five small files of a partition as they are.
        sizes = f"map('target-file-size-bytes', '{_FILE_BYTES}', 'min-input-files', '2')"
        yield call.format("rewrite_data_files", f"options => {sizes}")
        yield self._keep_offset(spark, table)
        yield call.format("expire_snapshots", f"older_than => {time}")
        yield call.format("remove_orphan_files", f"older_than => {time}")

    def forget_versions(self, spark: "SparkSession", table: str) -> None:
        """Expire all other snapshots, and delete orphans without the procedure's least age."""
        spark.sql(self._keep_offset(spark, table))
        expired = "older_than => current_timestamp(), retain_last => 1"
        spark.sql(self._call(table).format("expire_snapshots", expired))
        jvm: Any = spark._jvm
        actions = jvm.org.apache.iceberg.spark.actions.SparkActions.get()
        orphans = actions.deleteOrphanFiles(self._loaded(spark, table))
        orphans.olderThan(jvm.java.lang.System.currentTimeMillis()).execute()

    def _loaded(self, spark: "SparkSession", table: str) -> Any:
        """Return Iceberg's own object of a table, as it is now."""
        jvm: Any = spark._jvm
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)

    def _call(self, table: str) -> str:
        """Return the call of a procedure on the table, without its name and further arguments."""
        return (
            f"CALL {_CATALOG}.system.{{}}(table => {spark_literal(table.partition('.')[2])}, {{}})"
        )

    def _keep_offset(self, spark: "SparkSession", table: str) -> str:
        """Return the statement that makes the offset, a snapshot's property, the table's."""
        reached = spark_literal(orjson.dumps(self.reached(spark, table)).decode())
        return f"ALTER TABLE {table} SET TBLPROPERTIES ('{_REACHED}' = {reached})"


FORMATS: Mapping[str, LakeFormat] = {each.name: each for each in (Delta(), Iceberg())}


def connector_settings(format_: LakeFormat, root: str, connector: str | None) -> dict[str, str]:
    """Return a session's settings for a format, whose connector comes from Maven by default.

    So does the connector of the object store that ``root`` names. ``connector``: other coordinates,
    or ``none`` where Spark has both connectors. Raises ``SparkProblem``.
    """
    if connector == "none":
        return format_.settings(root)
    packages = (connector or _package(format_), store_connector(root))
    return {**format_.settings(root), "spark.jars.packages": ",".join(filter(None, packages))}


def _package(format_: LakeFormat) -> str:
    """Return the coordinates of the connector for this PySpark. Raises ``SparkProblem``."""
    import pyspark

    version = ".".join(pyspark.__version__.split(".")[:2])
    if version != _CONNECTED:
        raise SparkProblem(
            f"no connector of {format_.name} is known for Spark {version}",
            f"use PySpark {_CONNECTED}, whose connector is {format_.package.format(_CONNECTED)}, "
            "or name one with --connector",
        )
    return format_.package.format(version)

"""One table's typed rows by our data source, and by Spark's JDBC with ``from_json``.

Both leave their rows in Spark (``noop``), on ``local[2]`` with 1 GiB, over the same store, in turn;
warm: the medians of three rounds after one that is not counted.
"""

import os
import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result
from tests.benchmarks.spark.filling import COLUMNS, OF_ORDERS, PER_TRANSACTION
from tests.benchmarks.spark.jdbc_driver import jar
from tests.benchmarks.spark.rounds import medians

BAR_RATIO = 1.5
BAR_TYPED = 1.0
BAR_EVEN = 0.10
BAR_RANGE = 0.1
_PREDICATES = 8
_TYPES = {
    "timestamp with time zone": "timestamp",
    "text": "string",
    "numeric(10,2)": "decimal(10,2)",
}
_JDBC_QUERY = """(
    SELECT c.transaction_id, c.seq, c.op::text AS op, c.lsn::text AS lsn,
           coalesce(c.new, c.old)::text AS image, t.commit_lsn - '0/0' AS commit_version,
           t.commit_time, t.xid, t.actor
    FROM change c JOIN transaction t ON t.id = c.transaction_id
    WHERE c.relation_id = (SELECT id FROM relation WHERE "table" = 'orders')) AS changes"""


def needs(*, jdbc: bool = True) -> None:
    """Raises ``Failed`` where something is not installed."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise Failed("Spark needs Java: apt-get install openjdk-17-jre-headless")
    if jdbc:
        jar()


def reading(dsn: str, changes: int) -> list[Result]:
    """The bars of reading."""
    transactions = changes // PER_TRANSACTION
    rows = transactions * OF_ORDERS
    with session(jars=str(jar())) as spark:
        full = _Read(spark, dsn)
        ours, jdbc, narrow, by_spark = medians(
            lambda _: full.all(),
            lambda _: _by_jdbc(spark, dsn, transactions),
            lambda _: full.one_percent(transactions),
            lambda _: full.typed_by_spark(),
        )
        counts = full.partition_counts()
    per_second = f"{rows / ours / 1000:.0f} k rows/s, JDBC {rows / jdbc / 1000:.0f} k"
    even = (max(counts) - min(counts)) / statistics.mean(counts)
    return [
        Result.at_least("typed rows, against JDBC", jdbc / ours, BAR_RATIO, detail=per_second),
        Result.at_least(
            "rows typed in Arrow, against from_json of the source's texts",
            by_spark / ours,
            BAR_TYPED,
            detail=f"{rows / by_spark / 1000:.0f} k rows/s by from_json",
        ),
        Result(
            "partitions' row counts differ",
            f"{even:.3f} ({len(counts)} of {min(counts)} to {max(counts)})",
            f"≤ {BAR_EVEN:g}",
            min(counts) > 0 and even <= BAR_EVEN and sum(counts) == rows,
        ),
        Result(
            "an LSN range of 1 %, of a full read",
            f"{narrow / ours:.3f} ({narrow:.2f} s of {ours:.2f} s)",
            f"≤ {BAR_RANGE:g}",
            narrow / ours <= BAR_RANGE,
        ),
    ]


@contextmanager
def session(jars: str = "") -> Iterator[Any]:
    """Spark as on a laptop: two cores, 1 GiB."""
    from replview.spark import sessions

    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    spark = sessions.session("local[2]", spark__driver__memory="1g", spark__jars=jars)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


class _Read:
    """Our data source over the store."""

    def __init__(self, spark: Any, dsn: str) -> None:
        self._spark = spark
        self._dsn = dsn

    def _frame(self, **options: str) -> Any:
        asked = {"dsn": self._dsn, "relation": "public.orders", **options}
        return self._spark.read.format("replview").options(**asked).load()

    def all(self) -> None:
        """Every row."""
        self._frame(partitions=str(_PREDICATES)).write.format("noop").mode("overwrite").save()

    def typed_by_spark(self) -> None:
        """Every row, typed by Spark from the texts of records."""
        asked = {"dsn": self._dsn, "excluded": "public.items", "partitions": str(_PREDICATES)}
        frame = self._spark.read.format("replview").options(**asked).load()
        own = ["op", "lsn", "seq", "_commit_version", "commit_time", "xid", "actor"]
        _typed(frame, "coalesce(new, old)", own).write.format("noop").mode("overwrite").save()

    def one_percent(self, transactions: int) -> None:
        """A hundredth of the LSNs, in the middle."""
        first = transactions // 2
        asked = {"from_lsn": str(first * 1000), "to_lsn": str((first + transactions // 100) * 1000)}
        self._frame(**asked).write.format("noop").mode("overwrite").save()

    def partition_counts(self) -> list[int]:
        """Rows of each partition."""
        from pyspark.sql.functions import spark_partition_id

        by = self._frame(partitions=str(_PREDICATES)).groupBy(spark_partition_id()).count()
        return [row["count"] for row in by.collect()]


def _by_jdbc(spark: Any, dsn: str, transactions: int) -> None:
    address = urlsplit(dsn)
    url = f"jdbc:postgresql://{address.hostname}:{address.port}/replview"
    properties = {
        "user": address.username or "", "password": address.password or "",
        "fetchsize": "10000", "driver": "org.postgresql.Driver",
    }  # fmt: skip
    edges = [_id_at(dsn, transactions * n // _PREDICATES) for n in range(_PREDICATES + 1)]
    predicates = [
        f"transaction_id > {low} AND transaction_id <= {high}" for low, high in pairwise(edges)
    ]
    frame = spark.read.jdbc(url, _JDBC_QUERY, predicates=predicates, properties=properties)
    own = ["op", "lsn", "seq", "commit_version", "commit_time", "xid", "actor"]
    _typed(frame, "image", own).write.format("noop").mode("overwrite").save()


def _typed(frame: Any, image: str, own: list[str]) -> Any:
    """The columns of a JSON image, typed by Spark, and other columns."""
    from pyspark.sql.functions import col, expr, from_json

    names = [column["name"] for column in COLUMNS]
    schema = ", ".join(f"{n} string" for n in names)
    texts = frame.withColumn("row", from_json(expr(image), schema))
    typed = [
        col(f"row.{each['name']}").cast(_TYPES.get(each["type"], each["type"])).alias(each["name"])
        for each in COLUMNS
    ]
    return texts.select(*typed, *own)


_edges: dict[int, int] = {0: 0}


def _id_at(dsn: str, commit_seq: int) -> int:
    if commit_seq not in _edges:
        import psycopg

        with psycopg.connect(dsn) as store:
            row = store.execute(
                "SELECT id FROM transaction WHERE commit_seq = %s", [commit_seq]
            ).fetchone()
        _edges[commit_seq] = row[0] if row else 0
    return _edges[commit_seq]

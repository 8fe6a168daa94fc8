"""History jobs over a million exported changes, each against a plain scan of the same Parquet.

All rows of every result are worked out and dropped (``noop``), on ``local[2]`` with 1 GiB, in turn;
warm: the medians of three rounds after one that is not counted. No bars: how long is too long is
for the one to say who waits for it.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from tests.benchmarks.report import Result
from tests.benchmarks.spark.filling import PER_TRANSACTION, ROWS, add_histories
from tests.benchmarks.spark.rounds import medians

CHANGES = 1_000_000


def history(dsn: str, changes: int) -> list[Result]:
    """Seconds of every job, and how many scans that is."""
    from replview.spark.sessions import session

    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    changes = min(changes, CHANGES)
    add_histories(dsn, changes)
    with tempfile.TemporaryDirectory() as root:
        _export(dsn, root)
        spark = session("local[2]", reads_store=False, spark__driver__memory="1g")
        spark.sparkContext.setLogLevel("ERROR")
        try:
            jobs = _jobs(spark, root, changes)
            seconds = dict(zip(jobs, medians(*jobs.values()), strict=True))
        finally:
            spark.stop()
    scan = seconds.pop("scan")
    found = [Result("a scan of the changes", f"{scan:.2f} s ({changes:,})", "", ok=True)]
    return found + [
        Result(name, f"{took:.2f} s, {took / scan:.1f} scans", "", ok=True)
        for name, took in seconds.items()
    ]


def _export(dsn: str, root: str) -> None:
    from replview.parquet import reading
    from replview.parquet.writing.exporting import export
    from replview.parquet.writing.targets import Target

    with reading.connect(dsn) as store:
        part = reading.resolve(store, source="shop", slot="histories")
    export(part, Target.of(root), dsn=dsn)


def _jobs(spark: Any, root: str, changes: int) -> dict[str, Callable[[int], None]]:
    from replview.spark.history.activity import (
        churn,
        hot_rows,
        transaction_rates,
        transaction_sizes,
        who_changed,
    )
    from replview.spark.history.datasets import END, Dataset, Incarnation, Moment
    from replview.spark.history.reach import Span
    from replview.spark.history.snapshots import as_of, row_versions, schema_versions

    incarnation, orders = Incarnation.find(root), Dataset.find(root, "public.orders")
    whole = Span(None, None, None, None)
    # Commit LSNs of the store's transactions go by the thousand.
    middle = changes // PER_TRANSACTION // 2 * 1000

    def job(made: Callable[[], Any]) -> Callable[[int], None]:
        return lambda _: _drop(made().frame)

    def scan(_: int) -> None:
        for table in incarnation.tables:
            _drop(table.changes(spark, END))

    return {
        "scan": scan,
        f"as-of, at the end ({ROWS:,} rows)": job(lambda: as_of(spark, orders)),
        "as-of, in the middle": job(lambda: as_of(spark, orders, Moment(lsn=middle))),
        "row versions (SCD type 2)": job(lambda: row_versions(spark, orders)),
        "churn by hour": job(lambda: churn(spark, orders, whole, every="hour")),
        "hot rows": job(lambda: hot_rows(spark, orders, whole)),
        "who changed what": job(lambda: who_changed(spark, incarnation.tables, whole)),
        "transaction sizes": job(lambda: transaction_sizes(spark, incarnation, whole)),
        "transaction rates by hour": job(lambda: transaction_rates(spark, incarnation, whole,
                                                                   every="hour")),
        "schema versions": job(lambda: schema_versions(spark, orders, whole)),
    }  # fmt: skip


def _drop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()

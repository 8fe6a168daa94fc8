"""History jobs over a million exported changes, each against a plain scan of the same Parquet.

All rows of every result are worked out and dropped (``noop``), on ``local[2]`` with 1 GiB, in turn;
warm: the medians of three rounds after one that is not counted. No bars: how long is too long is
for the one to say who waits for it. For a page's question there is one.
"""

import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result
from tests.benchmarks.spark.filling import PER_TRANSACTION, ROWS, add_histories
from tests.benchmarks.spark.rounds import medians

CHANGES = 1_000_000
#: A question that a page asks: the number of changes it is about, and the seconds allowed for its
#: answer.
QUESTION = 300_000
BAR_SECONDS = 3.0
_PATIENCE_SECONDS = 120.0
_ASKED = 3


def history(dsn: str, changes: int) -> list[Result]:
    """Seconds of every job, and how many scans that is."""
    from replview.spark.sessions import session

    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    changes = min(changes, CHANGES)
    add_histories(dsn, changes)
    with tempfile.TemporaryDirectory() as root:
        _export(dsn, root)
        spark = session("local[2]", spark__driver__memory="1g")
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


def page_question(dsn: str, changes: int) -> list[Result]:
    """Seconds from when a page asks who changed what until the worker has stored the answer."""
    from replview.features.history.job import KIND
    from replview.jobs import running
    from replview.store.models import Export, HistoryJob, Slot

    changes = min(changes, QUESTION)
    if not Slot.objects.filter(name="histories").exists():
        add_histories(dsn, changes)
    seconds = []
    with tempfile.TemporaryDirectory() as root:
        _export(dsn, root, through=changes // PER_TRANSACTION)
        Export.objects.create(slot_name="shop/histories", slice={}, target=root, state="done",
                              requested_by="bench", requested_how="page")  # fmt: skip
        before = _cpu_seconds()
        for _ in range(_ASKED):
            row = HistoryJob.objects.create(job="who-changed-what", root=root, requested_by="bench",
                                            words={"incarnation": "shop/histories-1"})  # fmt: skip
            began = time.monotonic()
            KIND.serve()
            while row.waits and time.monotonic() < began + _PATIENCE_SECONDS:
                time.sleep(0.02)
                row.refresh_from_db()
            seconds.append(time.monotonic() - began)
            details = (row.result or {}).get("details") or {}
            if row.state != "done" or details.get("rows_read") != changes:
                raise Failed(f"the job is {row.state}: {row.problem_cause} ({details})")
    # Its thread would look for the next one.
    running.stopping.set()
    took, cpu = statistics.median(seconds), (_cpu_seconds() - before) / _ASKED
    detail = f"{changes:,} rows, by {details['answered_by']}, {cpu:.1f} s of a processor"
    bar, what = f"≤ {BAR_SECONDS:g} s", "who changed what, asked on a page"
    return [Result(what, f"{took:.1f} s ({detail})", bar, took <= BAR_SECONDS)]


def _cpu_seconds() -> float:
    """Return the processor seconds of ended child processes; a job runs in one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _export(dsn: str, root: str, *, through: int | None = None) -> None:
    from replview.parquet import reading
    from replview.parquet.writing.exporting import export
    from replview.parquet.writing.targets import Target

    with reading.connect(dsn) as store:
        part = reading.resolve(
            store, reading.SliceRequest(source="shop", slot="histories", through_seq=through)
        )
    export(part, Target.of(root), dsn=dsn)


def _jobs(spark: Any, root: str, changes: int) -> dict[str, Callable[[int], None]]:
    from replview.spark.history.activity import (
        churn,
        hot_rows,
        transaction_rates,
        transaction_sizes,
        who_changed,
    )
    from replview.spark.history.datasets import Dataset, ExportedIncarnation
    from replview.spark.history.snapshots import as_of, row_versions, schema_versions
    from replview.spark.history.spans import END, HistoryEnd, HistoryRange

    incarnation, orders = ExportedIncarnation.find(root), Dataset.find(root, "public.orders")
    whole = HistoryRange(None, None, None, None)
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
        "as-of, in the middle": job(lambda: as_of(spark, orders, HistoryEnd(lsn=middle))),
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

"""Spark on a cluster of its own: workers without replview read, export and feed a lake."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from replview.parquet import reading
from replview.parquet.slices import Slice
from replview.parquet.writing.exporting import export
from replview.parquet.writing.targets import Target
from replview.spark import artefact
from tests.spark.elsewhere import history as history  # a fixture
from tests.spark.elsewhere import reads_the_history
from tests.spark.held_up import (
    CHANGES,
    DAYS,
    done,
    export_job,
    held_up,
    last_day_locked,
    recorded,
    waiting_port,
)
from tests.support.jars import JarsMissing
from tests.support.lake_connectors import connectors
from tests.support.spark_cluster import SparkCluster, spark_cluster
from tests.support.waiting import wait_for
from tests.support.written_rows import written_rows

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.own_jvm]

#: A batch of the lake has half of the days.
BATCH_CHANGES = DAYS * CHANGES // 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with spark_cluster() as running:
        yield running


def test_the_record_is_read_by_the_code_that_the_driver_sends(cluster, history, store_dsn) -> None:
    reads_the_history(cluster.url, store_dsn, cluster.environment)


def test_an_executor_killed_in_the_middle_leaves_the_same_rows(
    cluster, transactional_db, store_dsn, tmp_path
) -> None:
    part = recorded(store_dsn, CHANGES)
    with export_job(part, tmp_path, store_dsn, cluster.url, cluster.environment) as job:
        with held_up(job, store_dsn) as port:
            cluster.executor_at(port).send_signal(signal.SIGKILL)
        manifest = done(job)["manifest"]
    assert manifest["rows"] == DAYS * CHANGES
    assert len(manifest["files"]) >= 2 * DAYS
    assert b"Lost executor" in (tmp_path / "log").read_bytes()
    export(part, Target.of(str(tmp_path / "plain")), dsn=store_dsn)
    assert written_rows(tmp_path / "spark") == written_rows(tmp_path / "plain")


@contextmanager
def lake_job(cluster: SparkCluster, tmp_path: Path, dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that feeds a lake as users run it: by ``spark-submit``, with the artefact alone."""
    if isinstance(jars := connectors(), JarsMissing):
        pytest.skip(str(jars))
    artefact.build(tmp_path / "clean")
    command = [
        Path(sys.executable).parent / "spark-submit", "--master", cluster.url,
        "--driver-memory", "768m", "--conf", "spark.sql.shuffle.partitions=4",
        "--jars", ",".join(map(str, jars)),
        "--py-files", "replview-spark.zip", "replview-spark.py",
        "lake", "run", "--root", str(tmp_path / "lake"), "--format", "delta",
        "--slot", "shop/replview", "--table", "public.orders",
        "--changes", str(BATCH_CHANGES), "--connector", "none",
    ]  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        job = subprocess.Popen(
            command, env={**cluster.environment, "REPLVIEW_STORE_URL": dsn},
            cwd=tmp_path / "clean", stdout=subprocess.PIPE, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        yield job
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.communicate()


def rows_of(part: Slice, dsn: str) -> pa.Table:
    """The changes that are recorded, read without Spark."""
    with reading.connect(dsn) as store:
        [table] = reading.tables_of(store, part)
        return pa.Table.from_batches(reading.read_typed(store, part, table))


def held(table: pa.Table) -> list[dict[str, Any]]:
    return table.sort_by([("_commit_seq", "ascending"), ("_seq", "ascending")]).to_pylist()


def merging(job: subprocess.Popen[bytes], table: Path, before: set[Path]) -> set[Path]:
    """The files of ``current`` once a merge begins to write others than those of before."""

    def files() -> set[Path]:
        return {*table.glob("current/*/*.parquet")}

    wait_for(lambda: job.poll() is not None or files() - before, 240)
    return files()


def test_executors_killed_in_a_batch_leave_a_lake_with_each_row_once(
    cluster, transactional_db, store_dsn, tmp_path
) -> None:
    deltalake = pytest.importorskip("deltalake")
    record = rows_of(recorded(store_dsn, CHANGES), store_dsn)
    table = tmp_path / "lake" / "shop" / "replview" / "public~2Eorders"
    with lake_job(cluster, tmp_path, store_dsn) as job:
        # The first batch is merged; the second one waits while it is appended to ``changes``.
        merging(job, table, set())
        with last_day_locked(store_dsn):
            port = waiting_port(job, store_dsn)
            merged = merging(job, table, set())
            cluster.executor_at(port).send_signal(signal.SIGKILL)
        # It is merged into ``current``.
        merging(job, table, merged)
        cluster.executors()[0].send_signal(signal.SIGKILL)
        output, _ = job.communicate(timeout=300)
    log = (tmp_path / "log").read_text()
    assert job.returncode == 0, log[-3000:]
    facts = {"table": "public.orders", "reached": {"1": DAYS}, "batches": 2, "gaps": []}
    assert facts.items() <= orjson.loads(output.splitlines()[-1]).items()
    assert log.count("Lost executor") >= 2

    changes = deltalake.DeltaTable(str(table / "changes")).to_pyarrow_table()
    assert held(changes.select(record.column_names)) == held(record)
    current = deltalake.DeltaTable(str(table / "current")).to_pyarrow_table()
    last = {row["id"]: row for row in held(record)}
    assert current.num_rows == len(last) == CHANGES
    for row in current.to_pylist():
        assert row["status"] == last[row["id"]]["status"]
        assert row["_commit_seq"] == DAYS

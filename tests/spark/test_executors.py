"""Spark in the path: executors in processes of their own write the files, also when one dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import orjson
import psutil
import psycopg
import pytest

from replview.parquet import reading
from replview.parquet.reading import StoreProblem
from replview.parquet.slices import Slice
from replview.parquet.writing.exporting import export
from replview.parquet.writing.files import FilePart, PartWriter
from replview.parquet.writing.planning import estimate
from replview.parquet.writing.problems import Cancelled, TargetProblem
from replview.parquet.writing.targets import Target
from replview.spark import archive_job
from replview.spark.export_tasks import write_parts
from replview.store.write.partitions import ensure_partitions
from tests.support.days import Days, days_ago, today
from tests.support.digests import digests
from tests.support.history_rows import insert

pytestmark = pytest.mark.slow

DAYS, CHANGES = 6, 50_000
_GROW = """
    INSERT INTO change SELECT (jsonb_populate_record(c, jsonb_build_object(
        'seq', n, 'new', jsonb_build_object('id', n::text, 'status', md5(n::text), 'note', null)
    ))).* FROM change c, generate_series(2, %(changes)s) n WHERE c.transaction_id = %(id)s
"""


def recorded(store_dsn: str, changes: int) -> Slice:
    """A slice of six days, a large transaction a day: each is a file of its own."""
    with psycopg.connect(store_dsn, autocommit=True) as store:
        ensure_partitions(store, days_ago(DAYS).date(), today().date())
        history = Days()
        counts = {str(history.orders.relation_id): [changes, 0, 0, 0]}
        for day in range(DAYS, 0, -1):
            made = history.on(days_ago(day), insert(1), inserts=changes, relations=counts)
            store.execute(_GROW, {"id": made, "changes": changes})
    with reading.connect(store_dsn) as store:
        return reading.resolve(store, reading.SliceRequest(source="shop", slot="replview"))


def executor_writing(job: psutil.Process) -> psutil.Process | None:
    """One whose Python has a file half written."""
    for each in job.children(recursive=True):
        # Others end meanwhile.
        with suppress(psutil.Error):
            if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()) and any(
                "_writing-part-" in file.path
                for worker in each.children(recursive=True)
                for file in worker.open_files()
            ):
                return each
    return None


def kill_one(job: subprocess.Popen[bytes], root: Path) -> None:
    """Once one file is there and another is being written, its executor is gone."""
    until = time.monotonic() + 240
    while time.monotonic() < until and job.poll() is None:
        if list(root.rglob("public.orders/*/part-*.parquet")):
            executor = executor_writing(psutil.Process(job.pid))
            if executor is not None:
                executor.send_signal(signal.SIGKILL)
                return
        time.sleep(0.05)
    raise AssertionError(f"nothing was to be killed: {job.poll()}")


@pytest.mark.own_jvm
def test_an_executor_killed_in_the_middle_leaves_the_same_bytes(
    transactional_db, store_dsn, tmp_path
) -> None:
    part = recorded(store_dsn, CHANGES)
    root, order, log = tmp_path / "spark", tmp_path / "job.json", tmp_path / "log"
    asked = {"slice": part.to_json(), "target": str(root), "dsn_env": "STORE",
             "spark": "local-cluster[2,1,1024]"}  # fmt: skip
    order.write_bytes(orjson.dumps(asked))
    with log.open("wb") as lines:
        job = subprocess.Popen(
            [sys.executable, "-m", "replview.spark.export_job", order],
            env={**os.environ, "STORE": store_dsn, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=lines, start_new_session=True,
        )  # fmt: skip
    try:
        kill_one(job, root)
        out, _ = job.communicate(timeout=300)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
    last = orjson.loads(out.splitlines()[-1])
    assert (job.returncode, last["event"], last["manifest"]["rows"]) == (0, "done", DAYS * CHANGES)
    assert len(last["manifest"]["files"]) >= 2 * DAYS
    assert b"Lost executor" in log.read_bytes()
    export(part, Target.of(str(tmp_path / "plain")), dsn=store_dsn)
    assert digests(root) == digests(tmp_path / "plain")


def test_spark_writes_from_so_many_rows_on(
    transactional_db, store_dsn, tmp_path, monkeypatch
) -> None:
    part = recorded(store_dsn, 3)
    monkeypatch.setenv("REPLVIEW_STORE_URL", store_dsn)
    monkeypatch.setenv("REPLVIEW_SPARK", "sc://spark.example.com")

    def chosen(rows: str | None) -> tuple[bool, str | None]:
        """Of an export's page, and of the archive's job."""
        if rows is None:
            monkeypatch.delenv("REPLVIEW_SPARK_FROM_ROWS", raising=False)
        else:
            monkeypatch.setenv("REPLVIEW_SPARK_FROM_ROWS", rows)
        with reading.connect(store_dsn) as store:
            by_page = estimate(store, part).spark
        return by_page, archive_job._where("local[2]", part)

    pytest.importorskip("pyspark")
    assert chosen(None) == (False, None)
    assert chosen(str(3 * DAYS + 1)) == (False, None)
    assert chosen(str(3 * DAYS)) == (True, "local[2]")
    # Where Spark is not configured the archive is written without it.
    assert archive_job._where(None, part) is None


@pytest.mark.own_jvm
def test_what_goes_wrong_in_an_executor_is_told(
    transactional_db, store_dsn, spark, tmp_path
) -> None:
    part = recorded(store_dsn, 3)

    def problem(
        spoilt: Callable[[PartWriter, FilePart, str], tuple[PartWriter, FilePart, str]],
    ) -> str:
        """Of an export of which this becomes a file of the table."""

        def write(writer, parts, dsn, cancelled):
            [*_, one] = [each for each in parts if each.kind == "table"]
            writer, one, dsn = spoilt(writer, one, dsn)
            return write_parts(spark, writer, [one], dsn, cancelled)

        with pytest.raises((StoreProblem, TargetProblem)) as told:
            export(part, Target.of(str(tmp_path / "out")), dsn=store_dsn, write_parts=write)
        return f"{type(told.value).__name__}: {told.value.cause}"

    def lost(writer, one, dsn):
        return writer, replace(one, within=replace(one.within, rows=4)), dsn

    (tmp_path / "file").touch()
    elsewhere = Target.of(str(tmp_path / "file"))
    nowhere = "StoreProblem: nothing answers at the store's address"
    counted = "StoreProblem: the store gave 3 rows where it counted 4"
    assert problem(lambda writer, one, _: (writer, one, "postgresql://127.0.0.1:1/n")) == nowhere
    assert problem(lost) == counted
    refused = problem(lambda writer, one, dsn: (replace(writer, target=elsewhere), one, dsn))
    assert refused == "TargetProblem: a part of the path is a file"


@pytest.mark.own_jvm
def test_a_cancelled_export_ends_its_tasks(transactional_db, store_dsn, spark, tmp_path) -> None:
    part = recorded(store_dsn, 3)
    with psycopg.connect(store_dsn) as store:

        def write(writer, parts, dsn, _):
            # All is planned; a task that reads is surely at it while it is cancelled.
            store.execute("LOCK TABLE change IN ACCESS EXCLUSIVE MODE")
            return write_parts(spark, writer, parts, dsn, lambda: waiting(store_dsn) > 0)

        with pytest.raises(Cancelled):
            export(part, Target.of(str(tmp_path / "out")), dsn=store_dsn, write_parts=write)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def waiting(store_dsn: str) -> int:
    """Sessions that wait for a lock."""
    with psycopg.connect(store_dsn) as store:
        [(count,)] = store.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND datname = current_database()"
        ).fetchall()
    return int(count)

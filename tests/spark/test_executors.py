"""Spark in the path: executors in processes of their own write the files, also when one dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import psutil
import psycopg
import pytest
from psycopg import sql

from replview.parquet import reading
from replview.parquet.reading import StoreProblem
from replview.parquet.slices import Slice
from replview.parquet.writing.exporting import export
from replview.parquet.writing.files import FilePart, PartWriter
from replview.parquet.writing.planning import estimate
from replview.parquet.writing.problems import Cancelled, TargetProblem
from replview.parquet.writing.targets import Target
from replview.spark.exporting import write_parts
from replview.spark.processes import JobProcess
from replview.store.write.partitions import ensure_partitions
from tests.support.days import Days, days_ago, the, today
from tests.support.history_rows import insert
from tests.support.waiting import wait_for
from tests.support.written_rows import written_rows

pytestmark = pytest.mark.slow

DAYS, CHANGES = 6, 5_000
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


@contextmanager
def export_job(part: Slice, tmp_path: Path, dsn: str, spark: str) -> Iterator[Any]:
    """A process that exports the slice with Spark; what is left of it is killed."""
    order = tmp_path / "job.json"
    asked = {"slice": part.to_json(), "target": str(tmp_path / "spark"), "dsn_env": "STORE"}
    order.write_bytes(orjson.dumps({**asked, "spark": spark}))
    with (tmp_path / "log").open("ab") as lines:
        job = subprocess.Popen(
            [sys.executable, "-m", "replview.spark.export_job", order],
            env={**os.environ, "STORE": dsn, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=lines, start_new_session=True,
        )  # fmt: skip
    try:
        yield job
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.communicate()


@contextmanager
def held_up(job: subprocess.Popen[bytes], store_dsn: str) -> Iterator[int]:
    """The port from which a task reads the last day, which waits meanwhile."""
    assert job.stdout is not None
    # Progress is told once all is planned, before a task begins.
    assert orjson.loads(job.stdout.readline())["event"] == "progress"
    with psycopg.connect(store_dsn) as store:
        partition = sql.Identifier(f"change_{the(1):%Y%m%d}")
        store.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(partition))
        yield wait_for(lambda: reading_ports(store_dsn), seconds=240)[0]


def reading_ports(store_dsn: str) -> list[int]:
    """The ports of clients that wait for a lock."""
    with psycopg.connect(store_dsn) as store:
        found = store.execute(
            "SELECT client_port FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND datname = current_database()"
        )
        return [port for (port,) in found]


def executor_of(job: psutil.Process, port: int) -> psutil.Process:
    """The executor whose Python has a connection from this port."""
    for each in job.children(recursive=True):
        # Others end meanwhile.
        with suppress(psutil.Error):
            workers = each.children(recursive=True)
            if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()) and any(
                one.laddr and one.laddr[1] == port
                for worker in workers
                for one in worker.net_connections("tcp")
            ):
                return each
    raise AssertionError("no executor reads")


def done(job: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return the last message of a job that succeeds."""
    out, _ = job.communicate(timeout=300)
    last: dict[str, Any] = orjson.loads(out.splitlines()[-1])
    assert (job.returncode, last["event"]) == (0, "done")
    return last


@pytest.mark.own_jvm
def test_an_executor_killed_in_the_middle_leaves_the_same_rows(
    transactional_db, store_dsn, tmp_path
) -> None:
    part = recorded(store_dsn, CHANGES)
    with export_job(part, tmp_path, store_dsn, "local-cluster[2,1,1024]") as job:
        with held_up(job, store_dsn) as port:
            executor_of(psutil.Process(job.pid), port).send_signal(signal.SIGKILL)
        manifest = done(job)["manifest"]
    assert manifest["rows"] == DAYS * CHANGES
    assert len(manifest["files"]) >= 2 * DAYS
    assert b"Lost executor" in (tmp_path / "log").read_bytes()
    export(part, Target.of(str(tmp_path / "plain")), dsn=store_dsn)
    assert written_rows(tmp_path / "spark") == written_rows(tmp_path / "plain")


@pytest.mark.own_jvm
def test_an_export_killed_in_the_middle_goes_on(transactional_db, store_dsn, tmp_path) -> None:
    part = recorded(store_dsn, CHANGES)
    with export_job(part, tmp_path, store_dsn, "local[2]") as job, held_up(job, store_dsn):
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(30)
    assert list(tmp_path.glob("spark/*/*/_writing-*/*"))
    assert not list((tmp_path / "spark").rglob("_SUCCESS"))
    with export_job(part, tmp_path, store_dsn, "local[2]") as job:
        done(job)
    export(part, Target.of(str(tmp_path / "plain")), dsn=store_dsn)
    assert written_rows(tmp_path / "spark") == written_rows(tmp_path / "plain")


@pytest.mark.own_jvm
def test_a_job_that_is_ended_takes_back_what_it_wrote(
    transactional_db, store_dsn, tmp_path
) -> None:
    part = recorded(store_dsn, 3)
    order = {"slice": part.to_json(), "target": str(tmp_path / "out"), "spark": "local[2]"}
    (tmp_path / "job.json").write_bytes(orjson.dumps({**order, "dsn_env": "STORE"}))
    job = JobProcess.start(
        [str(tmp_path / "job.json")], log=tmp_path / "log", scratch=tmp_path / "scratch",
        module="replview.spark.export_job",
        environment={"STORE": store_dsn, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    try:
        assert job.process.stdout is not None
        with held_up(job.process, store_dsn):
            assert list(tmp_path.glob("out/*/*/_writing-*"))
            job.end()
        assert orjson.loads(job.process.stdout.readlines()[-1]) == {"event": "cancelled"}
    finally:
        job.end(at_once=True)
        job.process.communicate()
    assert job.process.returncode == 3
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def test_spark_writes_from_so_many_rows_on(
    transactional_db, store_dsn, tmp_path, monkeypatch
) -> None:
    part = recorded(store_dsn, 3)
    monkeypatch.setenv("REPLVIEW_STORE_URL", store_dsn)
    monkeypatch.setenv("REPLVIEW_SPARK", "sc://spark.example.com")

    def chosen(rows: str | None) -> bool:
        if rows is None:
            monkeypatch.delenv("REPLVIEW_SPARK_FROM_ROWS", raising=False)
        else:
            monkeypatch.setenv("REPLVIEW_SPARK_FROM_ROWS", rows)
        with reading.connect(store_dsn) as store:
            return estimate(store, part).spark

    pytest.importorskip("pyspark")
    assert not chosen(None)
    assert not chosen(str(3 * DAYS + 1))
    assert chosen(str(3 * DAYS))


@pytest.mark.own_jvm
def test_what_goes_wrong_in_an_executor_is_told(
    transactional_db, store_dsn, spark, tmp_path
) -> None:
    part = recorded(store_dsn, 3)

    def problem(
        spoilt: Callable[[PartWriter, FilePart, str], tuple[PartWriter, FilePart, str]],
    ) -> str:
        """Of an export of which this becomes a file of the table."""

        def write(writer, parts, dsn, wrote, cancelled):
            [*_, one] = [each for each in parts if each.kind == "table"]
            writer, one, dsn = spoilt(writer, one, dsn)
            return write_parts(spark, writer, [one], dsn, wrote, cancelled)

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
    assert refused == "TargetProblem: the folder cannot be made"


@pytest.mark.own_jvm
def test_a_cancelled_export_ends_its_tasks(transactional_db, store_dsn, spark, tmp_path) -> None:
    part = recorded(store_dsn, 3)
    with psycopg.connect(store_dsn) as store:

        def write(writer, parts, dsn, wrote, _):
            # All is planned; a task that reads is surely at it while it is cancelled.
            store.execute("LOCK TABLE change IN ACCESS EXCLUSIVE MODE")
            reads = partial(reading_ports, store_dsn)
            return write_parts(spark, writer, parts, dsn, wrote, lambda: bool(reads()))

        with pytest.raises(Cancelled):
            export(part, Target.of(str(tmp_path / "out")), dsn=store_dsn, write_parts=write)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []

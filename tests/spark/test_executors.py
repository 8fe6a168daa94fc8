"""Exports by Spark: one that is killed goes on, and what its tasks say reaches the driver."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import orjson
import psycopg
import pytest

from replview.parquet import reading
from replview.parquet.reading import StoreProblem
from replview.parquet.writing.exporting import export
from replview.parquet.writing.files import FilePart, PartWriter
from replview.parquet.writing.planning import estimate
from replview.parquet.writing.problems import Cancelled, TargetProblem
from replview.parquet.writing.targets import Target
from replview.spark.exporting import write_parts
from replview.spark.processes import JobProcess
from tests.spark.held_up import CHANGES, DAYS, done, export_job, held_up, reading_ports, recorded
from tests.support.written_rows import written_rows

pytestmark = pytest.mark.slow


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
        """Return the problem of an export whose last file of the table is spoilt."""

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

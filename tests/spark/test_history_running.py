"""History jobs asked for on the page are run by job processes, which a worker follows."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from django.test import Client

from decoder.scalars import LSN
from replview.features.history import job as history_running
from replview.jobs import running
from replview.store.models import Export, HistoryJob
from tests.spark.exporting import exported
from tests.support.people import make_user

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def stopping(monkeypatch) -> Iterator[threading.Event]:
    """The worker's; set in the end, so that no thread and no job is left."""
    event = threading.Event()
    monkeypatch.setattr(running, "stopping", event)
    yield event
    event.set()
    wait_for(no_thread_is_left)


def no_thread_is_left() -> bool:
    return not any(thread.name == "history-job" for thread in threading.enumerate())


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


def alive(pid: int) -> bool:
    try:
        return b"replview.spark" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def begun() -> HistoryJob:
    history_running.KIND.serve()
    wait_for(lambda: HistoryJob.objects.filter(job_pid__isnull=False, state="running").exists())
    return HistoryJob.objects.get(state="running")


def ended() -> HistoryJob:
    wait_for(no_thread_is_left)
    return HistoryJob.objects.latest("pk")


@pytest.fixture
def asked(source, record, store_dsn, tmp_path, settings) -> tuple[dict[str, str], list[Any]]:
    """A job, ``paid`` as of a moment over what was exported; and what it held then."""
    settings.DATA_DIR = tmp_path
    source.run("CREATE TABLE paid (id int PRIMARY KEY, status text)")
    recording = record(source)
    source.run(
        "TRUNCATE paid",
        "INSERT INTO paid SELECT n, 'new' FROM generate_series(1, 250) n",
        "UPDATE paid SET status = '<b>paid</b>' WHERE id % 2 = 0",
        "UPDATE paid SET id = 1000 WHERE id = 7",
    )
    with source.connect() as session:
        live = session.execute("SELECT id, status FROM paid ORDER BY id").fetchall()
    recording.caught_up()
    moment = LSN(recording.transactions(state="committed")[-1].commit_lsn)
    source.run("DELETE FROM paid WHERE id > 3")
    recording.caught_up()
    recording.end()
    root = tmp_path / "out"
    exported(store_dsn, recording, root)
    Export.objects.create(
        slot_name=str(recording.slot), slice={}, target=str(root), requested_by="alice",
        requested_how="page", state="done",
    )  # fmt: skip
    return {"job": "as-of", "root": str(root), "table": "public.paid", "lsn": str(moment)}, live


@pytest.fixture
def client(transactional_db) -> Client:
    client = Client()
    client.force_login(make_user("alice"))
    return client


def test_as_of_on_the_page_is_what_the_table_held(asked, client, tmp_path, monkeypatch) -> None:
    words, live = asked
    # DuckDB needs neither.
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("REPLVIEW_SPARK", "local[1]")
    client.post("/history/new/", words)
    begun()
    row = ended()
    assert (row.state, row.problem_cause, row.attempts) == ("done", "", 1)
    assert not [*(tmp_path / "job-scratch").iterdir()]
    files = ds.dataset(row.output, format="parquet").to_table(columns=["id", "status"])
    assert sorted((one["id"], one["status"]) for one in files.to_pylist()) == live
    page = client.get(f"/history/{row.pk}/").content.decode()
    assert "Done: more than 200 rows, answered by DuckDB in the worker." in page
    assert "Complete: all input is exported." in page
    assert row.result is not None
    assert {(int(one[0]), one[1]) for one in row.result["rows"]} <= set(live)
    log = client.get(f"/history/{row.pk}/log/").content.decode()
    assert f"written to file://{row.output}" in log
    assert os.environ.get("REPLVIEW_SECRET_KEY", "no secret") not in log

    # A larger question is Spark's, and this machine has no Java.
    monkeypatch.setenv("REPLVIEW_SPARK_ABOVE", "200")
    client.post("/history/new/", words)
    begun()
    row = ended()
    assert (row.state, row.problem_cause) == ("failed", "Spark finds no Java here")
    assert row.problem_remedy.startswith("install Java")
    assert not Path(row.output).exists()


@pytest.mark.own_jvm
def test_a_worker_that_is_told_to_stop_gives_the_job_back(
    asked, client, tmp_path, monkeypatch, stopping
) -> None:
    words, live = asked
    monkeypatch.setenv("REPLVIEW_SPARK_ABOVE", "0")
    client.post("/history/new/", words)
    pid = begun().job_pid
    assert pid is not None
    stopping.set()
    assert ended().state == "waiting"
    assert not alive(pid)
    stopping.clear()
    begun()
    row = ended()
    assert (row.state, row.problem_cause, row.attempts) == ("done", "", 1)
    files = ds.dataset(row.output, format="parquet").to_table(columns=["id", "status"])
    assert sorted((one["id"], one["status"]) for one in files.to_pylist()) == live
    assert "answered by Spark." in client.get(f"/history/{row.pk}/").content.decode()


def test_what_keeps_a_job_from_running_is_said_with_its_remedy(
    transactional_db, tmp_path, settings, stopping
) -> None:
    settings.DATA_DIR = tmp_path
    (tmp_path / "exports" / "shop").mkdir(parents=True)
    HistoryJob.objects.create(
        job="as-of", root=str(tmp_path / "exports" / "shop"), requested_by="alice",
        words={"table": "public.paid"},
    )  # fmt: skip
    begun()
    row = ended()
    assert (row.state, row.problem_cause) == ("failed", "nothing is exported there")
    assert row.problem_remedy
    assert not Path(row.output).exists()

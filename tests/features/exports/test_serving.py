"""Exports that were asked for are done by job processes, which workers follow."""

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from django.db import connection

from replview.features.exports import job as exporting
from replview.features.exports.job import ExportProcess, order_path
from replview.features.exports.request import ask, read_export_request
from replview.jobs import exports, running
from replview.jobs.following import end_leftover
from replview.runtime.failpoints import Point
from replview.store import instance_settings
from replview.store.models import Export
from tests.support.failpoints import environment, pause
from tests.support.history_rows import History
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


class Wakes:
    """Records the wake-ups of exports in place of sending them."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def export_changed(self, export_id: int) -> None:
        self.told.append(export_id)


@pytest.fixture(autouse=True)
def stopping(monkeypatch) -> Iterator[threading.Event]:
    """The worker's; set in the end, so that no thread and no job is left."""
    event = threading.Event()
    monkeypatch.setattr(running, "stopping", event)
    monkeypatch.setattr(exporting, "publisher", Wakes)
    yield event
    event.set()
    wait_for(no_thread_is_left)


def no_thread_is_left() -> bool:
    return not any(thread.name == "export" for thread in threading.enumerate())


def paused_in_a_file(patch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Let jobs that start from now on wait in a file; return what exists once one waits there."""
    reached = folder / "reached"
    for name, value in environment({Point.IN_EXPORT_FILE: pause(reached)}).items():
        patch.setenv(name, value)
    return reached


def asked(history: History, target: str = "out", **words: str) -> Export:
    export_request = read_export_request(history.slot, words)
    return ask(export_request, target, by="alice", how=Export.How.PAGE, anywhere=False)


def ended(row: Export, state: str) -> Export:
    wait_for(lambda: Export.objects.get(pk=row.pk).state == state)
    wait_for(no_thread_is_left)
    return Export.objects.get(pk=row.pk)


def rows_of(target: str | Path) -> list[dict[str, object]]:
    folder = Path(target) / "shop" / "replview-1" / "public~2Eorders"
    folder = folder if folder.exists() else folder.with_name("public.orders")
    return ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()


def alive(pid: int | None) -> bool:
    try:
        return pid is not None and b"replview" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_it_is_written_and_live_pages_hear_of_it(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, wakes = asked(history, ops="I"), Wakes()
    monkeypatch.setattr(exporting, "publisher", lambda: wakes)
    exporting.KIND.serve()
    done = ended(row, "done")

    assert [(one["id"], one["_change_type"]) for one in rows_of(done.target)] == [
        ("1", "insert"),
        ("2", "insert"),
        ("3", "insert"),
    ]
    assert (done.rows, done.problem_cause) == (3, "")
    assert row.pk in wakes.told
    assert connection.settings_dict["PASSWORD"] not in Path(done.log_path).read_text()
    assert not list(Path(done.log_path).parent.glob("*.json"))


def test_a_worker_that_stops_gives_it_back_and_another_ends_it(
    history: History, stopping: threading.Event
) -> None:
    row = asked(history)
    exporting.KIND.serve()
    wait_for(lambda: Export.objects.get().job_pid)
    pid = Export.objects.get().job_pid
    stopping.set()
    given_back = ended(row, "waiting")
    assert not alive(pid)
    assert given_back.attempts == 0

    stopping.clear()
    exporting.KIND.serve()
    assert ended(row, "done").rows == 4


def test_what_a_lost_worker_left_running_is_ended_first(
    history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = asked(history)
    claim = exports.rows.claim()
    assert claim is not None
    # A worker that died between two heartbeats: its job goes on, nobody follows.
    with monkeypatch.context() as patch:
        reached = paused_in_a_file(patch, tmp_path)
        job = ExportProcess(row)
    wait_for(reached.exists)
    host = os.uname().nodename
    exports.rows.beat(claim, worker=f"{host}:1", job_pid=job.pid, log_path=str(job.log_path))
    Export.objects.update(heartbeat_at="2020-01-01T00:00:00Z")
    assert alive(job.pid)

    exporting.KIND.serve()
    assert job.wait(30)
    assert job.status == -9
    done = ended(row, "done")
    assert (done.rows, done.attempts) == (4, 2)
    assert not exports.rows.finish(claim, result={})


def test_a_process_that_is_not_the_job_is_left_alone(history: History) -> None:
    row = asked(history)
    row.job_pid, row.worker = os.getpid(), f"{os.uname().nodename}:1"
    end_leftover(row, str(order_path(row.pk)))


def test_cancelled_while_it_runs_it_leaves_nothing(
    history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = asked(history)
    reached, terminate = paused_in_a_file(monkeypatch, tmp_path), subprocess.Popen.terminate

    def terminate_and_go_on(job: subprocess.Popen[bytes]) -> None:
        terminate(job)
        reached.unlink(missing_ok=True)

    monkeypatch.setattr(subprocess.Popen, "terminate", terminate_and_go_on)
    exporting.KIND.serve()
    wait_for(reached.exists)
    wait_for(lambda: Export.objects.get().job_pid)
    assert exports.rows.cancel(row.pk)
    wait_for(no_thread_is_left)

    assert not alive(Export.objects.get().job_pid)
    assert Export.objects.get().state == "cancelled"
    assert not [path for path in Path(row.target).rglob("*") if path.is_file()]


def test_what_went_wrong_is_kept_with_its_remedy(history: History) -> None:
    row = asked(history)
    Path(row.target).parent.mkdir(parents=True, exist_ok=True)
    Path(row.target).write_text("a file stands in the way")
    exporting.KIND.serve()
    failed = ended(row, "failed")
    assert failed.problem_cause
    assert failed.problem_remedy

    row = asked(history, target="link")
    Path(row.target).symlink_to("/tmp")
    exporting.KIND.serve()
    assert "only folders within" in ended(row, "failed").problem_cause

    row = asked(history, target="off")
    instance_settings.write("exports.allowed", False, "root")
    exporting.KIND.serve()
    assert "switched off" in ended(row, "failed").problem_cause


def test_cancelled_when_its_last_file_is_written_it_leaves_nothing(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = exports.rows.finish

    def finish_too_late(claim: Export, **columns: object) -> bool:
        assert exports.rows.cancel(claim.pk)
        return finish(claim, **columns)

    row = asked(history)
    with monkeypatch.context() as patch:
        patch.setattr(exports.rows, "finish", finish_too_late)
        exporting.KIND.serve()
        ended(row, "cancelled")
    assert not [path for path in Path(row.target).rglob("*") if path.is_file()]

    row = asked(history)
    exporting.KIND.serve()
    done = ended(row, "done")
    again = asked(history)
    with monkeypatch.context() as patch:
        patch.setattr(exports.rows, "finish", finish_too_late)
        exporting.KIND.serve()
        ended(again, "cancelled")
    # An export that found everything there wrote nothing that could be deleted.
    assert len(rows_of(done.target)) == done.rows == 4
    assert done.result is not None
    assert "written" not in done.result

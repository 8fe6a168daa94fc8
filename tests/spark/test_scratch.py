"""The temporary files of a job go with it, however it ends."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replview.spark.processes import JobProcess
from tests.support.waiting import wait_for
from tests.support.written_history import History


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[[], JobProcess]]:
    """Return a function that starts a Spark job, and waits until its JVM has temporary files."""
    history = History(tmp_path / "root")
    history.commit(*(("I", {"id": n, "a": "x", "big": "b"}) for n in range(7)))
    history.write()
    question = ["row-versions", f"--root={tmp_path / 'root'}", "--table=t"]
    jobs = []

    def started() -> JobProcess:
        job = JobProcess.start(
            [*question, "--spark=local[1]", "--spark-above=0"], log=tmp_path / "log",
            scratch=tmp_path / "scratch", output=subprocess.DEVNULL,
        )  # fmt: skip
        jobs.append(job)
        wait_for(lambda: [*job.scratch.glob("blockmgr-*")], what=job.problem)
        return job

    yield started
    for job in jobs:
        job.end(at_once=True)


@pytest.mark.slow
@pytest.mark.own_jvm
def test_the_files_of_killed_jobs_are_removed(start, tmp_path) -> None:
    first, second = start(), start()
    # Kill the job with its JVM: nobody removes its files yet.
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert {"lock", "blockmgr", "spark"} <= {
        path.name.partition("-")[0] for path in first.scratch.iterdir()
    }
    # The next job removes them, and leaves those of a job that runs.
    third = start()
    assert {*(tmp_path / "scratch").iterdir()} == {second.scratch, third.scratch}

    for job in (second, third):
        job.process.kill()
        job.process.wait()
        job.end()
    assert not [*(tmp_path / "scratch").iterdir()]


def test_the_folder_of_a_job_is_locked_while_it_lives(tmp_path, monkeypatch) -> None:
    (tmp_path / "answerer.py").write_text(
        "import os, sys, tempfile\n"
        "print(tempfile.gettempdir(), os.environ['SPARK_SUBMIT_OPTS'], flush=True)\n"
        "sys.stdin.read() or __import__('time').sleep(60)\n"
    )
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    scratch = tmp_path / "a folder"

    def started() -> tuple[JobProcess, Path]:
        job = JobProcess.start([], log=tmp_path / "log", scratch=scratch, module="answerer",
                               environment={"PYTHONPATH": str(tmp_path)})  # fmt: skip
        assert job.process.stdout is not None
        folder = job.scratch
        said = job.process.stdout.readline().decode().strip()
        assert said == f"{folder} -Dmine=1 '-Djava.io.tmpdir={folder}'"
        return job, folder

    first, folder = started()
    second, _ = started()
    assert folder.exists()
    first.process.kill()
    first.process.wait()
    third, _ = started()
    assert not folder.exists()
    for job in (first, second, third):
        job.end(at_once=True)
        job.process.stdout.close()
    assert not [*scratch.iterdir()]

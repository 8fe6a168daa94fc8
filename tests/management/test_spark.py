"""History jobs as commands, as processes, and on a cluster."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from replview.parquet.writing.problems import TargetProblem
from replview.spark import artefact
from replview.spark.__main__ import check, main, parser
from replview.spark.history.results import Result, as_table
from replview.spark.processes import JobProcess
from replview.spark.sessions import SparkProblem
from replview.store.connecting import store_conninfo
from tests.support.written_history import History

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def root(tmp_path) -> str:
    """Write an exported history that ends with one row, and return its folder."""
    history = History(tmp_path / "exported")
    history.commit(("T",), ("I", {"id": 1, "a": "x", "big": "b"}), ("I", {"id": 2, "a": "y"}))
    history.commit(("U", {"id": 3, "a": "z"}, {"id": 1}), ("D", {"id": 2}), actor="alice")
    history.write()
    return str(tmp_path / "exported")


def replview(*words: str, data: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "REPLVIEW_DATA": str(data), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [str(Path(sys.executable).parent / "replview"), *words],
        capture_output=True, text=True, env=environment, cwd=ROOT, timeout=300,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.own_jvm
def test_a_job_shows_its_result_and_writes_it(root, tmp_path) -> None:
    output = tmp_path / "result"
    ran = replview(
        "spark", "as-of", "--root", root, "--table", "public.t", "--spark", "local[1]",
        "--output", str(output), data=tmp_path,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    header, _, only = ran.stdout.splitlines()
    assert header.split()[:3] == ["id", "a", "big"]
    assert only.split()[:3] == ["3", "z", "b"]
    [found] = ds.dataset(output).to_table().to_pylist()
    assert (found["id"], found["_actor"]) == (3, "alice")
    assert list((tmp_path / "spark-logs").glob("as-of-*.log"))


@pytest.mark.slow
@pytest.mark.own_jvm
def test_what_is_wrong_is_one_line(root, tmp_path) -> None:
    ran = replview("spark", "hot-rows", "--root", root, "--table", "none", data=tmp_path)
    assert ran.returncode == 1
    assert "no table none is exported of source/slot-1: there are: public.t" in ran.stderr
    assert "Traceback" not in ran.stderr
    ran = replview("spark", "as-of", "--root", root, data=tmp_path)
    assert (ran.returncode, "--table" in ran.stderr) == (64, True)


def test_what_is_wrong_is_said_before_spark_starts(root, tmp_path) -> None:
    (tmp_path / "file").touch()
    for words, said in (
        (["--root", f"{root}/not", "--table", "t"], f"there is no folder {root}/not"),
        (["--root", root, "--table", "none"], "no table none is exported of source/slot-1"),
        (["--root", root, "--table", "t", "--incarnation", "a/b-1"], "is exported of a/b-1"),
        # A folder of slices would be none any more.
        (["--root", root, "--table", "t", "--output", root], "--output is not empty"),
        (["--root", root, "--table", "t", "--output", f"{tmp_path}/file/x"], "path is a file"),
    ):
        with pytest.raises((SparkProblem, TargetProblem)) as told:
            check(parser().parse_args(["as-of", *words]))
        assert said in told.value.cause
    check(parser().parse_args(["as-of", "--root", root, "--table", "t"]))
    with pytest.raises(SystemExit) as ended:
        main(["hot-rows", "--root", root, "--table", "t", "--top", "0"])
    assert ended.value.code == 64


def test_a_lake_has_its_own_command() -> None:
    with pytest.raises(CommandError, match="replview lake run NAME") as told:
        call_command("spark", "lake", "run", "--root", "/srv/lake")
    assert told.value.returncode == 64


def test_a_job_over_a_slots_record_reads_the_store_of_the_instance(
    settings, tmp_path, monkeypatch
) -> None:
    settings.DATA_DIR, settings.STORE_URL = tmp_path, "postgresql://the-store/"
    started: list[dict[str, str]] = []

    def start(*_: object, environment: dict[str, str], **__: object) -> JobProcess:
        started.append(environment)
        raise OSError("enough")

    monkeypatch.setattr(JobProcess, "start", start)
    for words in (["as-of", "--root=x"], ["as-of", "--slot=shop/orders"]):
        with pytest.raises(CommandError, match="enough"):
            call_command("spark", *words)
    # A job that reads files alone need not know where the store is.
    assert started == [{}, {"REPLVIEW_STORE_URL": store_conninfo()}]


@pytest.mark.slow
@pytest.mark.own_jvm
def test_spark_submit_runs_it_on_a_cluster_with_nothing_but_the_artefact(root, tmp_path) -> None:
    artefact.build(tmp_path / "clean")
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "DJANGO"))
    }
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    # Away from the sources, and without the folder of the project's own installation.
    submit = str(Path(sys.executable).parent / "spark-submit")
    ran = subprocess.run(
        [submit, "--master", "local-cluster[2,1,1024]", "--driver-memory", "512m",
         "--py-files", "replview-spark.zip", "replview-spark.py",
         "as-of", "--root", root, "--table", "public.t", "--json"],
        capture_output=True, text=True, env=environment, cwd=tmp_path / "clean", timeout=300,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr[-4000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    [row] = [dict(zip(told["columns"], row, strict=True)) for row in told["rows"]]
    assert (row["id"], row["a"], row["big"], row["_actor"]) == (3, "z", "b", "alice")
    assert told["complete"] is True


def test_the_artefact_is_the_same_each_time_and_has_nothing_of_django(tmp_path) -> None:
    first, _ = artefact.build(tmp_path / "one")
    second, _ = artefact.build(tmp_path / "two")
    assert first.read_bytes() == second.read_bytes()
    code = "import sys, replview.spark.__main__ as m; print(m.__file__, 'django' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(first)},
    )  # fmt: skip
    assert ran.stdout.split() == [f"{first}/replview/spark/__main__.py", "False"]


def test_a_process_is_ended_with_what_it_started(tmp_path) -> None:
    (tmp_path / "sleeper.py").write_text(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "print('replview: it is asleep: wake it', file=sys.stderr, flush=True)\n"
        "time.sleep(60)\n"
    )
    log = tmp_path / "logs" / "one.log"
    job = JobProcess.start([], log=log, scratch=tmp_path / "scratch", module="sleeper",
                           environment={"PYTHONPATH": str(tmp_path)})  # fmt: skip
    child = int(job.process.stdout.readline())
    assert job.wait(0) is None
    until = time.monotonic() + 10
    while not log.stat().st_size and time.monotonic() < until:
        time.sleep(0.02)
    job.end()
    job.process.stdout.close()

    assert job.problem() == "it is asleep: wake it"
    assert job.wait(0) == -15
    # The signal is sent; a busy machine lets it arrive a moment later.
    until = time.monotonic() + 10
    while _runs(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


class _Frame:
    """Has the parts of a DataFrame that a printed table needs."""

    columns = ["name", "n"]

    def take(self, most: int) -> list[tuple]:
        return [("\x1b[31mred", 1), (None, 22)][:most]


def test_a_table_does_not_steer_the_terminal() -> None:
    told = as_table(Result(_Frame(), False, ("history begins late",)), limit=1)
    assert told.splitlines() == [
        "name      n",
        "────────  ─",
        "·[31mred  1",
        "… the first 1 rows: --limit shows more, --output writes all",
        "",
        "Not complete: history begins late.",
    ]

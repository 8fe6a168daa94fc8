"""Spark Connect by URL: a server that knows nothing of us reads, exports and computes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, LiteralString

import orjson
import psycopg
import pytest

from replview.parquet import reading
from replview.parquet.writing.exporting import export
from replview.parquet.writing.targets import Target
from replview.runtime.machine import free_port
from replview.spark.sessions import SparkProblem, session
from tests.spark.elsewhere import client, reads_the_history
from tests.spark.elsewhere import history as history  # a fixture
from tests.spark.export_job import ended
from tests.spark.export_job import job as job  # a fixture
from tests.support.written_rows import written_rows

pytestmark = [pytest.mark.slow, pytest.mark.own_jvm]

#: Names of jobs, and what each needs besides a root.
JOBS = {
    "as-of": ["--table", "public.orders"],
    "row-versions": ["--table", "public.orders"],
    "churn": ["--table", "public.orders"],
    "hot-rows": ["--table", "public.orders"],
    "transaction-sizes": [],
    "transaction-rates": [],
    "who-changed-what": [],
    "schema-versions": ["--table", "public.orders"],
}
_JOBS = """
import json, sys
from replview.spark.__main__ import parser
from replview.spark.history.commands import Question
from replview.spark.history.results import as_json
from replview.spark.sessions import session

spark = session(sys.argv[1])
found = {}
for name, words in json.loads(sys.argv[3]).items():
    options = parser().parse_args([name, "--root", sys.argv[2], *words])
    found[name] = json.loads(as_json(Question.of(options).answer(spark), 20))
print(json.dumps(found))
spark.stop()
"""


class Server(str):
    """The address of a server, which writes a log and events below ``folder``."""

    def __new__(cls, address: str, folder: Path) -> "Server":
        self = super().__new__(cls, address)
        self.folder = folder
        return self


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Spark Connect server of its own."""
    folder, port = tmp_path_factory.mktemp("connect"), free_port()
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
    }
    (folder / "events").mkdir()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]",
                "--driver-memory", "768m",
                "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
                *(word for item in settings.items() for word in ("--conf", "=".join(item))),
                "spark-internal",
            ],
            env={**environment, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
            cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        wait_for(port, process)
        yield Server(f"sc://127.0.0.1:{port}", folder)
    finally:
        process.terminate()
        process.wait(30)


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server listens."""
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the server of Spark Connect does not listen")


def events(folder: Path) -> bytes:
    """Return the event log of a server that has this folder."""
    files = (path for path in (folder / "events").rglob("*") if path.is_file())
    return b"".join(path.read_bytes() for path in files)


def test_the_record_is_read_by_the_code_that_the_client_sends(server, history, store_dsn) -> None:
    reads_the_history(server, store_dsn)
    password = psycopg.conninfo.conninfo_to_dict(store_dsn)["password"]
    until(lambda: b"SparkListenerConnectOperationStarted" in events(server.folder))
    assert password.encode() not in events(server.folder)


def test_an_export_has_the_same_rows_and_every_history_job_runs_over_it(
    server, history, store_dsn, tmp_path
) -> None:
    with reading.connect(store_dsn) as store:
        part = reading.resolve(store, reading.SliceRequest(slot="replview"))
    job = {"slice": part.to_json(), "target": str(tmp_path / "there"), "dsn_env": "STORE"}
    (tmp_path / "job.json").write_bytes(orjson.dumps({**job, "spark": server}))
    ran = subprocess.run(
        [sys.executable, "-m", "replview.spark.export_job", str(tmp_path / "job.json")],
        capture_output=True, env={**os.environ, "STORE": store_dsn}, timeout=300,
    )  # fmt: skip
    assert orjson.loads(ran.stdout.splitlines()[-1])["event"] == "done", ran.stderr[-3000:]
    export(part, Target.of(str(tmp_path / "here")), dsn=store_dsn)
    assert written_rows(tmp_path / "there") == written_rows(tmp_path / "here")

    found = client(_JOBS, server, str(tmp_path / "there"), json.dumps(JOBS))
    as_of = [dict(zip(found["as-of"]["columns"], row, strict=True))
             for row in found["as-of"]["rows"]]  # fmt: skip
    assert [(row["id"], row["status"], row["note"]) for row in as_of] == [("1", "paid", "x")]
    assert all(found[name]["rows"] for name in JOBS)


def test_a_lake_is_refused(server) -> None:
    command = [sys.executable, "-m", "replview.spark", "lake", "run", "--root", "/srv/lake",
               "--format", "delta", "--slot", "shop/replview", "--table", "public.orders",
               "--spark", server]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 1
    assert "a lake cannot be fed by Spark Connect: name a cluster" in ran.stderr


@pytest.mark.long
def test_a_cancelled_export_ends_its_task_and_leaves_nothing(
    server, job, store_dsn, tmp_path
) -> None:
    process = job(tmp_path / "out", spark=server)
    assert orjson.loads(process.stdout.readline())["event"] == "progress"
    with psycopg.connect(store_dsn, autocommit=True) as watching:
        with psycopg.connect(store_dsn) as store:
            # So that the task on the server is surely at it, and would go on once it may.
            store.execute("LOCK TABLE change IN ACCESS EXCLUSIVE MODE")
            until(lambda: sessions(watching, "wait_event_type = 'Lock'") == 1)
            process.send_signal(signal.SIGTERM)
            status, lines = ended(process, store_dsn)
            assert (status, lines[-1:]) == (3, [{"event": "cancelled"}])
        until(lambda: sessions(watching, "application_name = 'replview spark'") == 0)
    time.sleep(1)
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def until(condition: Callable[[], bool]) -> None:
    """It becomes true, on a busy machine too."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def sessions(store: psycopg.Connection[Any], which: LiteralString) -> int:
    """Return the number of such sessions of the store."""
    query = f"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND {which}"
    return store.execute(query).fetchone()[0]


def test_what_is_wrong_with_the_address_is_said_at_once() -> None:
    started = time.monotonic()
    with pytest.raises(SparkProblem, match="no Spark Connect server answers at sc:"):
        session("sc://127.0.0.1:1")
    with pytest.raises(SparkProblem, match="holds a token, which would be recorded") as caught:
        session("sc://127.0.0.1:1/;use_ssl=true;token=hidden")
    assert "hidden" not in str(caught.value)
    assert time.monotonic() - started < 5

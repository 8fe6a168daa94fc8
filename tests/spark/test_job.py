"""An export in a process of its own: its lines, its end by signals, and no secret anywhere."""

import contextlib
import datetime as dt
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

from replview.parquet import reading
from replview.store.write.partitions import ensure_partitions
from tests.support.digests import digests
from tests.support.history_rows import History, insert

pytestmark = pytest.mark.slow

ROWS = 150_000


@pytest.fixture
def job(store_dsn, tmp_path):
    """Start a job on one large transaction."""
    today = dt.datetime.now(dt.UTC).date()
    with psycopg.connect(store_dsn, autocommit=True) as store:
        ensure_partitions(store, today, today)
    history = History()
    identifier = history.commit(insert(1))
    with psycopg.connect(store_dsn, autocommit=True) as store:
        store.execute(
            """INSERT INTO change (transaction_id, seq, lsn, relation_id, version_id, op, new)
               SELECT transaction_id, n, lsn, relation_id, version_id, op,
                      jsonb_set(new, '{id}', to_jsonb(n::text))
               FROM change, generate_series(2, %s) n WHERE transaction_id = %s""",
            [ROWS, identifier],
        )
        store.execute(
            "UPDATE transaction SET inserts = %s, size_bytes = 60 * %s,"
            " relations = jsonb_build_object(%s::text, jsonb_build_array(%s::int, 0, 0, 0))",
            [ROWS, ROWS, history.orders.relation_id, ROWS],
        )
    with reading.connect(store_dsn) as store:
        part = reading.resolve(store, source="shop", slot="replview")
    started = []

    def start(
        target: Path | str, spark: str | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        asked = {"slice": part.to_json(), "target": str(target), "dsn_env": "STORE"}
        path = tmp_path / "job.json"
        path.write_bytes(orjson.dumps({**asked, "spark": spark}))
        process = subprocess.Popen(
            [sys.executable, "-m", "replview.spark.export_job", path],
            env={**os.environ, "STORE": store_dsn},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[bytes], store_dsn: str) -> tuple[int, list[dict[str, Any]]]:
    out, log = process.communicate(timeout=120)
    password = psycopg.conninfo.conninfo_to_dict(store_dsn)["password"]
    assert password.encode() not in out + log
    return process.returncode, [orjson.loads(line) for line in out.splitlines()]


def wait_for_half(root: Path) -> None:
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in root.rglob("_writing-*.parquet-*")):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_it_survives_a_kill_and_is_cancelled_cleanly(job, store_dsn, tmp_path) -> None:
    root = tmp_path / "out"
    process = job(root)
    with contextlib.suppress(FileNotFoundError):
        wait_for_half(root)
    process.kill()
    process.communicate()
    assert not list(root.rglob("_SUCCESS"))

    process = job(root)
    assert process.stdout is not None
    assert orjson.loads(process.stdout.readline())["event"] == "progress"
    process.send_signal(signal.SIGTERM)
    status, lines = ended(process, store_dsn)
    assert (status, lines[-1:]) == (3, [{"event": "cancelled"}])
    assert [path for path in root.rglob("*") if path.is_file()] == []

    status, lines = ended(job(root), store_dsn)
    assert (status, lines[-1]["event"]) == (0, "done")
    manifest = lines[-1]["manifest"]
    assert (manifest["rows"], manifest["transactions"]) == (ROWS, 1)
    [last] = [line for line in lines if line["event"] == "progress"][-1:]
    assert (last["rows"], last["files"]) == (last["total_rows"], last["total_files"])
    assert last["bytes"] == manifest["bytes"]
    status, lines = ended(job(root), store_dsn)
    assert lines[-1]["manifest"] == manifest
    assert sum(path.endswith(".parquet") for path in digests(root)) == len(manifest["files"])


def test_a_full_disk_says_what_to_mend(job, store_dsn, tmp_path) -> None:
    limit = 100_000

    def no_large_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    status, lines = ended(job(tmp_path / "out", preexec_fn=no_large_files), store_dsn)
    assert status == 1
    assert lines[-1]["problem"] == "files may not grow that large there"
    assert "ulimit -f" in lines[-1]["remedy"]
    assert not list((tmp_path / "out").rglob("_writing-*"))

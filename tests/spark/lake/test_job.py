"""``lake`` as a job: what it prints, and its exit status for schedulers."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from replview.spark.__main__ import parser
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.jars import JarsMissing
from tests.support.lake_connectors import connectors

pytestmark = pytest.mark.slow


def lake(action: str, root: Path, dsn: str) -> tuple[int, str, str]:
    if isinstance(jars := connectors(), JarsMissing):
        pytest.skip(str(jars))
    classes = os.pathsep.join(map(str, jars))
    environment = {
        **os.environ,
        "REPLVIEW_STORE_URL": dsn,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": f"--driver-class-path {classes} pyspark-shell",
    }
    command = [sys.executable, "-m", "replview.spark", "lake", action, "--root", str(root),
               "--format", "delta", "--slot", "shop/replview", "--table", "public.orders",
               "--connector", "none", "--spark", "local[2]"]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.own_jvm
def test_a_run_says_how_far_it_came_and_the_next_one_that_nothing_is_new(
    store_dsn: str, tmp_path: Path
) -> None:
    make_partitions()
    history = History()
    history.commit(insert(1))
    history.commit(insert(2))
    status, output, log = lake("run", tmp_path, store_dsn)
    assert status == 0, log
    facts = {"table": "public.orders", "reached": {"1": 2}, "batches": 1, "gaps": []}
    assert orjson.loads(output) == facts
    status, output, log = lake("run", tmp_path, store_dsn)
    assert status == 2, log
    assert orjson.loads(output) == facts | {"batches": 0}
    status, output, log = lake("status", tmp_path, store_dsn)
    assert status == 0, log
    reached = {"stored": {"1": 2}, "changes": {"1": 2}, "current": {"1": 2}}
    assert orjson.loads(output) == {"table": "public.orders", **reached}


def test_wrong_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parser().parse_args(["lake", "run", "--root", "/srv/lake", "--format", "hudi"])
    assert left.value.code == 64
    assert "'delta', 'iceberg'" in capsys.readouterr().err

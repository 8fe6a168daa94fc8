"""``lake`` as a job: what it prints, and its exit status for schedulers."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from replview.spark.__main__ import parser
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.lake_connectors import session_variables

pytestmark = pytest.mark.slow


def lake(action: str, root: Path, dsn: str) -> tuple[int, list[dict[str, Any]], str]:
    environment = {**os.environ, **session_variables(), "REPLVIEW_STORE_URL": dsn}
    command = [sys.executable, "-m", "replview.spark", "lake", action, "--root", str(root),
               "--format", "delta", "--slot", "shop/replview", "--table", "public.orders",
               "--connector", "none", "--spark", "local[2]"]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    reports = [orjson.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, reports, done.stderr


@pytest.mark.own_jvm
def test_a_run_says_how_far_it_came_and_the_next_one_that_nothing_is_new(
    store_dsn: str, tmp_path: Path
) -> None:
    make_partitions()
    history = History()
    history.commit(insert(1))
    history.commit(insert(2))
    status, reports, log = lake("run", tmp_path, store_dsn)
    assert status == 0, log
    table = {"table": "public.orders"}
    facts = {**table, "state": "idle", "reached": {"1": 2}, "batches": 1, "gaps": []}
    assert reports[0] == {**table, "state": "running"}
    assert facts.items() <= reports[1].items()
    sizes = reports[1]["sizes"]
    assert [sizes[kind]["rows"] for kind in ("changes", "current")] == [2, 2]
    # Both were appended on one day; their keys may be of one bucket or of two.
    assert (sizes["changes"]["files"], 0 < sizes["current"]["files"] < 3) == (1, True)
    assert min(sizes[kind]["bytes"] for kind in sizes) > 0
    status, reports, log = lake("run", tmp_path, store_dsn)
    assert status == 2, log
    assert (facts | {"batches": 0}).items() <= reports[1].items()
    status, reports, log = lake("status", tmp_path, store_dsn)
    assert status == 0, log
    reached = {"stored": {"1": 2}, "changes": {"1": 2}, "current": {"1": 2}}
    assert reached.items() <= reports[1].items()


def test_wrong_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parser().parse_args(["lake", "run", "--root", "/srv/lake", "--format", "hudi"])
    assert left.value.code == 64
    assert "'delta', 'iceberg'" in capsys.readouterr().err

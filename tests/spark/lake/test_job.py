"""``lake`` as a job: what it prints, and its exit status for schedulers."""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from replview.spark.__main__ import parser
from replview.spark.lake import commands
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.lake_connectors import session_variables
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


def started(action: str, root: Path, dsn: str, *more: str) -> subprocess.Popen[str]:
    """Start the job in a process group of its own."""
    environment = {**os.environ, **session_variables(), "REPLVIEW_STORE_URL": dsn}
    command = [sys.executable, "-m", "replview.spark", "lake", action, "--root", str(root),
               "--format", "delta", "--slot", "shop/replview", "--table", "public.orders",
               "--connector", "none", "--spark", "local[2]", *more]  # fmt: skip
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def lake(action: str, root: Path, dsn: str) -> tuple[int, list[dict[str, Any]], str]:
    with started(action, root, dsn) as process:
        output, log = process.communicate(timeout=300)
    return process.returncode, [orjson.loads(line) for line in output.splitlines()], log


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
    begun, before, after, ended = reports
    assert begun == {**table, "state": "running"}
    progress = {**begun, "reached": {}, "batches": 0, "changes": 0, "of": 2}
    assert before == progress
    assert after == {**progress, "reached": {"1": 2}, "batches": 1, "changes": 2}
    assert facts.items() <= ended.items()
    sizes = ended["sizes"]
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


@pytest.mark.own_jvm
def test_a_run_that_was_killed_in_a_batch_is_continued(store_dsn: str, tmp_path: Path) -> None:
    make_partitions()
    history = History()
    for number in range(4):
        history.commit(insert(number))
    root = tmp_path / "shop/replview/public~2Eorders"
    with started("run", tmp_path, store_dsn, "--changes", "1") as process:
        try:
            # The first batch is in changes, and not merged yet.
            log = root / "changes/_delta_log"
            wait_for(lambda: len([*log.glob("*.json")]) > 1, seconds=240)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    status, _, text = lake("run", tmp_path, store_dsn)
    assert status == 0, text
    for kind in ("changes", "current"):
        rows = DeltaTable(root / kind).to_pyarrow_table()
        assert sorted(rows["id"].to_pylist()) == ["0", "1", "2", "3"], kind


@pytest.mark.parametrize(
    ("statuses", "status"),
    [([0, 2], 0), ([2, 2], 2), ([0, 3, 2], 3), ([3, 1, 0], 1)],
    ids=["something is new", "nothing is new", "a gap", "a failure"],
)
def test_the_worst_table_decides_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, statuses: list[int], status: int
) -> None:
    monkeypatch.setattr(commands, "_feeds", lambda *_: statuses)
    monkeypatch.setattr(commands, "_report", lambda feed, _: feed)
    assert commands.run(None, argparse.Namespace(follow=None)) == status


def test_a_run_that_follows_goes_on_until_a_table_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([[2, 2], [0, 3], [0, 1], [0, 0]])
    paused: list[float] = []
    monkeypatch.setattr(commands, "_feeds", lambda *_: next(rounds))
    monkeypatch.setattr(commands, "_report", lambda feed, _: feed)
    monkeypatch.setattr(commands.time, "sleep", paused.append)
    assert commands.run(None, argparse.Namespace(follow=2.5)) == 1
    assert paused == [2.5, 2.5]


def test_wrong_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parser().parse_args(["lake", "run", "--root", "/srv/lake", "--format", "hudi"])
    assert left.value.code == 64
    assert "'delta', 'iceberg'" in capsys.readouterr().err

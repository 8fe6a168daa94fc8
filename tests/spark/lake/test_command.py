"""``replview lake`` with a real Spark: what it writes, stores, prints and deletes."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from django.core.management.base import CommandError

from replview.features.lake.facts import lake_facts
from replview.features.lake.job import KIND
from replview.features.lake.request import request_run
from replview.store.models import Lake, LakeRun
from replview.store.retention.tidy import make_partitions
from tests.support.commands import an_instance as an_instance
from tests.support.commands import run as run
from tests.support.history_rows import History, insert
from tests.support.lake_connectors import session_variables
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.own_jvm]

Run = Callable[..., str]


@pytest.fixture
def history(transactional_db, settings, tmp_path: Path, monkeypatch) -> History:
    """Two orders, and the folder and the variables of jobs."""
    settings.DATA_DIR = tmp_path
    for name, value in session_variables().items():
        monkeypatch.setenv(name, value)
    make_partitions()
    history = History()
    history.commit(insert(1))
    history.commit(insert(2))
    return history


@pytest.fixture
def lake(history: History, run: Run, tmp_path: Path) -> Lake:
    """A lake of the orders, which nothing has fed."""
    run("lake", "add", "orders", slot="shop/replview", root=str(tmp_path / "lake"),
        format="delta", table=["public.orders"], connector="none")  # fmt: skip
    return Lake.objects.get()


def test_a_lake_is_fed_shown_and_removed_with_its_tables(
    history: History, lake: Lake, run: Run, tmp_path: Path
) -> None:
    [table] = lake_facts(lake)["tables"]
    assert (table["behind_changes"], table["changes"], table["reported_at"]) == (2, None, None)

    said = run("lake", "run", "orders")
    assert "public.orders: 0 of 2 changes\npublic.orders: 2 of 2 changes\n" in said
    assert "public.orders: 1 batch; changes has 2 rows in 1 file" in said
    folder = tmp_path / "lake" / "shop" / "replview" / "public~2Eorders"
    assert (folder / "changes" / "_delta_log").is_dir()
    [table] = orjson.loads(run("lake", "status", json=True))[0]["tables"]
    assert (table["state"], table["reached"], table["behind_changes"]) == ("idle", {"1": 2}, 0)
    assert (table["changes"]["rows"], table["current"]["rows"]) == (2, 2)

    with pytest.raises(CommandError, match="nothing is new") as error:
        run("lake", "run", "orders")
    assert error.value.returncode == 2
    assert lake.runs.count() == 2

    said = run("lake", "remove", "orders", delete_tables=True, yes=True)
    assert f"deleted {folder}" in said
    assert (folder.exists(), Lake.objects.exists()) == (False, False)


def test_a_worker_does_what_the_page_asks_for(history: History, lake: Lake) -> None:
    row = request_run(lake, LakeRun.Action.RUN, by="alice", how=LakeRun.How.PAGE)
    KIND.serve()
    wait_for(lambda: not LakeRun.objects.get(pk=row.pk).waits, seconds=120)
    row.refresh_from_db()
    assert (row.state, row.problem_cause, row.result) == ("done", "", {"status": 0})
    assert lake.relations.get().reached == {"1": 2}


def test_a_run_that_fails_says_why_and_what_to_do(
    history: History, lake: Lake, run: Run, tmp_path: Path
) -> None:
    blocked = tmp_path / "lake" / "shop" / "replview"
    blocked.mkdir(parents=True)
    (blocked / "public~2Eorders").write_text("a file where the tables belong")
    with pytest.raises(CommandError, match=r"run \d+ failed: public.orders: ") as error:
        run("lake", "run", "orders")
    assert error.value.returncode == 1
    relation = lake.relations.get()
    assert "failed unexpectedly" in relation.problem_cause
    assert relation.problem_remedy.startswith("the log of the run names the place")
    assert lake_facts(lake)["tables"][0]["state"] == "failed"

"""Lakes: what may be added, one run at a time, what a run reports, how far a table is behind."""

import datetime as dt
import threading
from collections import deque
from pathlib import Path

import pytest
from django.utils import timezone

from replview.features.lake import schedule
from replview.features.lake.facts import behind_text, lake_facts, run_facts, state_of
from replview.features.lake.job import _Reports, _store_report, arguments, carry_out
from replview.features.lake.request import add, remove, request_run, set_schedule
from replview.features.lake.schedule import request_due_runs
from replview.health import lake_lag
from replview.health.lake_lag import LakeLag, lag_of
from replview.jobs.lakes import rows
from replview.store import instance_settings
from replview.store.models import AccessRecord, Lake, LakeRelation, LakeRun, Source
from replview.store.retention.tidy import make_partitions
from replview.targets.policy import Refused
from replview.text.formats import age_words
from tests.support.history_rows import History, insert


@pytest.fixture
def history(transactional_db, settings, tmp_path: Path) -> History:
    """A slot with two committed orders."""
    settings.DATA_DIR = tmp_path
    make_partitions()
    history = History()
    history.commit(insert(1))
    history.commit(insert(2))
    return history


@pytest.fixture
def lake(history: History, tmp_path: Path) -> Lake:
    """A lake of the orders."""
    return add(new_lake(history), ["public.orders"], anywhere=True, base=tmp_path)


def new_lake(history: History, name: str = "orders", **values: str) -> Lake:
    return Lake(name=name, slot=history.slot, **{"format": "delta", "root": "lake", **values})


def run_of(lake: Lake, how: LakeRun.How = LakeRun.How.PAGE) -> LakeRun:
    return request_run(lake, LakeRun.Action.RUN, by="alice", how=how)


def test_a_lake_is_added_with_an_absolute_root_and_recorded(lake: Lake, tmp_path: Path) -> None:
    assert (lake.root, lake.slot_name) == (str(tmp_path / "lake"), "shop/replview")
    assert [one.name for one in lake.relations.all()] == ["public.orders"]
    record = AccessRecord.objects.latest("pk")
    assert (record.action, record.subject, record.tables) == (
        "exported", "lake orders", ["public.orders"]
    )  # fmt: skip
    assert record.details == {"act": "added", "target": lake.root}


@pytest.mark.parametrize(
    ("values", "tables", "why"),
    [
        ({}, ["public.nothing"], "has recorded no change of public.nothing"),
        ({"name": "orders", "root": "other"}, ["public.orders"], "there is a lake orders already"),
        ({"name": "same"}, ["public.orders"], "lake orders writes public.orders there already"),
        ({"name": "a/b"}, ["public.orders"], "a/b is no name of a lake"),
        ({"root": "gopher://x/y"}, ["public.orders"], "gopher:// is not allowed"),
        ({"root": "s3://key:secret@bucket/x"}, ["public.orders"], "a name or a password in it"),
    ],
)
def test_what_is_refused(
    history: History, lake: Lake, tmp_path: Path, values: dict[str, str], tables: list[str],
    why: str,
) -> None:  # fmt: skip
    with pytest.raises(Refused, match=why):
        add(new_lake(history, **{"name": "second", **values}), tables, anywhere=True, base=tmp_path)
    assert Lake.objects.count() == 1


def test_a_lake_has_one_run_at_a_time(lake: Lake) -> None:
    first = run_of(lake)
    with pytest.raises(Refused, match=f"run {first.pk} .run. is waiting"):
        request_run(lake, LakeRun.Action.MAINTAIN, by="bob", how=LakeRun.How.COMMAND)
    with pytest.raises(Refused, match="is busy"):
        remove(lake, delete_tables=False)
    rows.cancel(first.pk)
    assert run_of(lake, LakeRun.How.COMMAND).state == "running"


def test_a_killed_command_does_not_hold_its_lake(lake: Lake) -> None:
    killed = run_of(lake, LakeRun.How.COMMAND)
    long_ago = timezone.now() - dt.timedelta(minutes=1)
    LakeRun.objects.filter(pk=killed.pk).update(heartbeat_at=long_ago)
    assert run_of(lake).state == "waiting"
    killed.refresh_from_db()
    assert (killed.state, killed.problem_cause) == ("failed", "its command was killed")


def due_runs(lake: Lake) -> int:
    """Return how many runs the schedule has requested, after it was asked once more."""
    request_due_runs()
    return lake.runs.filter(requested_how="schedule").count()


def test_a_lake_runs_on_its_schedule_alone(lake: Lake, monkeypatch) -> None:
    assert due_runs(lake) == 0
    set_schedule(lake, 5)
    assert due_runs(lake) == 1
    # Neither beside a run nor before its time, whatever became of the run.
    assert due_runs(lake) == 1
    run = rows.claim()
    assert run is not None
    assert (run.requested_by, run.action) == ("the schedule", "run")
    rows.fail(run, "the disk is full", "Make room")
    assert due_runs(lake) == 1
    LakeRun.objects.update(requested_at=timezone.now() - dt.timedelta(minutes=6))
    request_run(lake, LakeRun.Action.MAINTAIN, by="alice", how=LakeRun.How.PAGE)
    assert due_runs(lake) == 1
    LakeRun.objects.update(state="done")
    monkeypatch.setattr(schedule, "_KEPT_RUNS", 2)
    assert due_runs(lake) == 1
    assert [each.requested_how for each in lake.runs.all()] == ["schedule", "page"]
    set_schedule(lake, None)
    LakeRun.objects.all().delete()
    assert due_runs(lake) == 0
    with pytest.raises(Refused, match="0 is no number of minutes"):
        set_schedule(lake, 0)


def test_beat_asks_for_what_is_due() -> None:
    from replview.celery import app

    app.loader.import_default_modules()
    assert "replview.request_lake_runs" in app.tasks


def claimed(lake: Lake) -> LakeRun:
    run_of(lake)
    claim = rows.claim()
    assert claim is not None
    return claim


def failure_of(lake: Lake) -> tuple[str, str]:
    """Return the state and cause of a run that needs no process."""
    run = claimed(lake)
    carry_out(run, threading.Event())
    run.refresh_from_db()
    return run.state, run.problem_cause


def test_a_run_is_refused_when_exports_are_off_or_the_folders_have_other_names(lake: Lake) -> None:
    instance_settings.write("exports.allowed", False, "root")
    assert failure_of(lake) == ("failed", "exports are switched off on this instance")
    instance_settings.write("exports.allowed", True, "root")
    Source.objects.update(name="store")
    state, cause = failure_of(lake)
    assert (state, cause) == (
        "failed",
        "slot shop/replview is called store/replview now, and the lake's folders are not",
    )
    lake.slot.delete()
    assert "was removed, and its record with it" in failure_of(lake)[1]


def test_the_job_gets_the_lake_and_no_secret(lake: Lake, monkeypatch) -> None:
    monkeypatch.delenv("REPLVIEW_SPARK", raising=False)
    run = run_of(lake)
    run.words = {"follow": 2.5}
    assert arguments(run) == [
        "lake", "run", f"--root={lake.root}", "--format=delta", "--slot=shop/replview",
        "--spark=local[2]", "--follow=2.5", "--table=public.orders",
    ]  # fmt: skip


def test_what_a_run_reports_is_kept(lake: Lake) -> None:
    sizes = {"changes": {"rows": 2, "files": 1, "bytes": 900}}
    report = {"table": "public.orders", "state": "idle", "reached": {"1": 2}, "batches": 1,
              "gaps": [[1, 1, 1]], "no_current": "", "sizes": sizes}  # fmt: skip
    _store_report(lake, "public.orders", report)
    problem = {"state": "failed", "problem": "the disk is full", "remedy": "make room"}
    _store_report(lake, "public.orders", {**problem, "gaps": [[1, 1, 1], [1, 5, 6]]})
    relation = lake.relations.get()
    assert (relation.reached, relation.gaps) == ({"1": 2}, [[1, 1, 1], [1, 5, 6]])
    assert (relation.problem_cause, relation.problem_remedy) == ("the disk is full", "make room")
    [table] = lake_facts(lake)["tables"]
    assert (table["state"], table["changes"], table["current"]) == (
        "failed", sizes["changes"], None
    )  # fmt: skip
    assert state_of(relation, LakeRun(state="running", reading="public.orders")) == "running"
    _store_report(lake, "public.orders", report)
    assert lake_facts(lake)["tables"][0]["state"] == "idle"


class ReportingProcess:
    """A process of a run that has written these reports."""

    def __init__(self, *reports: dict[str, object]) -> None:
        self.reports = deque(reports)


def test_a_batch_is_kept_before_the_table_ends(lake: Lake) -> None:
    LakeRelation.objects.create(lake=lake, name="public.people")
    running = {"table": "public.people", "state": "running"}
    process = ReportingProcess(running)
    run = claimed(lake)
    reports = _Reports(run, process, None)  # type: ignore[arg-type]
    rows.beat(run, **reports.store() or {})
    run.refresh_from_db()
    progress = {"table": 2, "tables": 2, "changes": None, "of": None}
    assert (run.reading, run_facts(run)["progress"]) == ("public.people", progress)
    process.reports.append(
        {**running, "reached": {"1": 5}, "batches": 3, "changes": 1204, "of": 9000}
    )
    rows.beat(run, **reports.store() or {})
    run.refresh_from_db()
    progress = {"table": 2, "tables": 2, "changes": 1204, "of": 9000}
    assert run_facts(run)["progress"] == progress
    relation = lake.relations.get(name="public.people")
    assert (relation.reached, relation.batches) == ({"1": 5}, 3)
    # A run that somebody cancelled is at no table.
    rows.cancel(run.pk)
    run.refresh_from_db()
    assert run_facts(run)["progress"] is None


@pytest.mark.parametrize(
    ("changes", "more", "seconds", "reached", "text"),
    [
        (None, False, None, {}, "unknown"),
        (0, True, None, {"1": 2}, "unknown"),
        (0, False, None, {}, "nothing stored yet"),
        (0, False, None, {"1": 2}, "up to date"),
        (1, False, None, {"1": 2}, "1 change"),
        (1204, True, 247.0, {"1": 2}, f"at least 1,204 changes, {age_words(247)}"),
    ],
)
def test_how_far_behind_in_words(
    changes: int | None, more: bool, seconds: float | None, reached: dict[str, int], text: str
) -> None:
    table = {"behind_changes": changes, "behind_more": more, "behind_seconds": seconds}
    assert behind_text({**table, "reached": reached}) == text


def test_how_far_a_table_is_behind(lake: Lake, history: History, monkeypatch) -> None:
    relation = LakeRelation.objects.select_related("lake__slot").get()
    now = timezone.now()
    lag = lag_of(relation)
    assert lag is not None
    assert (lag.changes, lag.more) == (2, False)
    relation.reached = {"1": 2}
    assert lag_of(relation) == LakeLag(changes=0)
    # Another table's transaction is no lag of this one.
    people = history.table("people", 16385, ["id", "name"])
    history.commit({"op": "I", "new": {"id": "1"}, "version": people})
    assert lag_of(relation) == LakeLag(changes=0)
    history.new_incarnation()
    history.commit(insert(3), commit_time=now - dt.timedelta(seconds=90))
    history.commit(insert(4), commit_time=now)
    lag = lag_of(relation)
    assert lag is not None
    assert lag.seconds is not None
    assert (lag.changes, lag.more, 90 <= lag.seconds < 150) == (2, False, True)
    monkeypatch.setattr(lake_lag, "_MOST_TRANSACTIONS", 2)
    lag = lag_of(relation)
    assert lag is not None
    assert (lag.changes, lag.more) == (1, True)
    relation.lake.slot = None
    assert lag_of(relation) is None

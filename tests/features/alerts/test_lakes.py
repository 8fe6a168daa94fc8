"""Alerts on lakes: one that is far behind, and one whose last run failed."""

import datetime as dt

import pytest
from django.utils import timezone

from replview.features.alerts.kinds import KINDS
from replview.features.alerts.kinds.base import MeasuredKind
from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.store.models import Lake, LakeRelation, LakeRun
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert


@pytest.fixture
def history(transactional_db) -> History:
    """A slot whose only change was committed two hours ago."""
    make_partitions()
    history = History()
    history.commit(insert(1), commit_time=timezone.now() - dt.timedelta(hours=2))
    return history


@pytest.fixture
def lake(history: History) -> Lake:
    """A lake of the orders."""
    lake = Lake.objects.create(name="shop", slot=history.slot, slot_name=str(history.slot),
                               format="delta", root="/nowhere")  # fmt: skip
    LakeRelation.objects.create(lake=lake, name="public.orders")
    return lake


def measured(key: str) -> list[Measured]:
    kind = KINDS[key]
    assert isinstance(kind, MeasuredKind)
    return list(kind.measure(StoreSnapshot(timezone.now())))


def message(key: str) -> str:
    kind = KINDS[key]
    assert isinstance(kind, MeasuredKind)
    [value] = measured(key)
    return kind.fired_message(value)


def test_a_lake_is_as_far_behind_as_its_last_table(lake: Lake, history: History) -> None:
    [never_run] = measured("lake_lag")
    assert (never_run.value, never_run.source_id) == (None, history.slot.source_id)
    lake.relations.update(reported_at=timezone.now())
    history.table("people", 16385, ["id"])
    read = {"reached": {"1": 1}, "reported_at": timezone.now()}
    LakeRelation.objects.create(lake=lake, name="public.people", **read)
    assert message("lake_lag") == "Lake shop is 2 h behind (1 change of a table)."
    lake.relations.update(reached={"1": 1})
    [up_to_date] = measured("lake_lag")
    assert (up_to_date.value, up_to_date.detail) == (0.0, {})


def test_the_last_run_that_ended_by_itself_counts(lake: Lake) -> None:
    assert measured("lake_failed") == []
    for state, value in (("failed", 1.0), ("cancelled", 1.0), ("waiting", 1.0), ("done", 0.0)):
        LakeRun.objects.filter(state="waiting").delete()
        LakeRun.objects.create(lake=lake, action="run", requested_how="page", state=state)
        [found] = measured("lake_failed")
        assert (found.value, found.subject) == (value, f"lake:{lake.pk}")
    assert message("lake_failed") == "Lake shop: its last run failed."


def test_a_lake_without_its_slot_is_no_subject(lake: Lake) -> None:
    LakeRun.objects.create(lake=lake, action="run", requested_how="page", state="failed")
    Lake.objects.update(slot=None)
    assert measured("lake_lag") == measured("lake_failed") == []

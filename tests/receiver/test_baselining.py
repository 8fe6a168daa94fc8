"""Baselines that are asked for are claimed and read in threads of the tasks worker."""

import threading

import pytest

from replview.features.baselines import job as baselining
from replview.jobs import baselines, running
from replview.store.dsn import set_dsn
from replview.store.models import Baseline, Source, Transaction
from tests.support.baselines import asked
from tests.support.recording import Recording
from tests.support.waiting import wait_for


class Wakes:
    """Records the wake-ups of live pages in place of sending them."""

    def __init__(self) -> None:
        self.told: list[tuple[int, ...]] = []

    def wake(self, slot_id: int, incarnation_id: int, commit_seq: int) -> None:
        self.told.append((slot_id, incarnation_id, commit_seq))

    def slot_changed(self, slot_id: int) -> None:
        pass


@pytest.fixture
def recording(source, record) -> Recording:
    """A slot that is received, whose source can be reached by its row."""
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 90)")
    made = record(source)
    row = Source.objects.get(pk=made.slot.source_id)
    set_dsn(row, source.dsn)
    row.save()
    return made


def no_thread_is_left() -> bool:
    return not any(thread.name == "baseline" for thread in threading.enumerate())


def state_is(state: str) -> bool:
    return Baseline.objects.get().state == state


@pytest.fixture(autouse=True)
def wakes(monkeypatch: pytest.MonkeyPatch) -> Wakes:
    """Return the recorder that replaces the publisher of wake-ups."""
    told = Wakes()
    monkeypatch.setattr(baselining, "publisher", lambda: told)
    return told


def test_it_is_served_and_live_pages_are_woken(recording: Recording, wakes: Wakes) -> None:
    baseline = asked(recording, "t")
    baselining.KIND.serve()
    wait_for(lambda: state_is("done"))
    wait_for(no_thread_is_left)

    taken = Transaction.objects.get(state="snapshot")
    assert wakes.told == [(recording.slot.pk, taken.incarnation_id, taken.commit_seq)]
    assert Baseline.objects.get(pk=baseline.pk).transaction_id == taken.pk


def test_what_went_wrong_is_kept(recording: Recording, source) -> None:
    asked(recording, "t")
    source.run("DROP TABLE t")
    baselining.KIND.serve()
    wait_for(lambda: state_is("failed"))
    wait_for(no_thread_is_left)

    failed = Baseline.objects.get()
    assert failed.problem_code == "not_published"
    assert "ADD TABLE" in failed.problem_remedy


def test_a_worker_that_is_told_to_stop_gives_it_back(recording: Recording, monkeypatch) -> None:
    stopping = threading.Event()
    monkeypatch.setattr(running, "stopping", stopping)
    asked(recording, "t", rows_per_second=10)
    baselining.KIND.serve()
    wait_for(lambda: Baseline.objects.get().rows)
    stopping.set()
    wait_for(lambda: state_is("requested"))
    wait_for(no_thread_is_left)

    assert Transaction.objects.get().state == "discarded"
    baselining.KIND.serve()
    assert baselines.rows.rows(baselines.rows.unended).exists()
    assert state_is("requested"), "it begins nothing any more"


def test_a_source_whose_dsn_is_of_no_use_is_named(recording: Recording) -> None:
    Source.objects.update(conninfo="env:NOT_SET_ANYWHERE")
    asked(recording, "t")
    baselining.KIND.serve()
    wait_for(lambda: state_is("failed"))
    wait_for(no_thread_is_left)

    assert Baseline.objects.get().problem_code == "bad_dsn"

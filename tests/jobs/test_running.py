"""One queue: what waits is begun when it is announced, and found by the sweep where it was not."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import current_app
from django.db import transaction

from replview.jobs import running
from replview.jobs.running import JobKind, announce
from replview.runtime import celery_settings

pytestmark = pytest.mark.django_db(transaction=True)


class Waiting:
    """Jobs that wait in a list, and those that were done."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.done: list[str] = []
        self.recovered = 0
        self.go_on = threading.Event()

    def kind(self, **options: Any) -> JobKind[str]:
        return JobKind(
            name="counted",
            task="tests.serve_counted",
            waits=lambda: bool(self.names),
            claim=lambda: self.names.pop(0) if self.names else None,
            run=self.run,
            recover=self.recover,
            **options,
        )

    def run(self, name: str, stop: threading.Event) -> None:
        self.go_on.wait(10)
        if name == "fails":
            raise ValueError("a value of somebody's")
        if not stop.is_set():
            self.done.append(name)

    def recover(self) -> None:
        self.recovered += 1


@pytest.fixture(autouse=True)
def stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The worker's; set in the end, so that no thread is left."""
    event = threading.Event()
    monkeypatch.setattr(running, "stopping", event)
    monkeypatch.setattr(running, "_kinds", [])
    monkeypatch.setattr(running, "PAUSE_SECONDS", 0.01)
    yield event
    event.set()
    wait_for(lambda: not threads())


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "counted"]


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_as_many_as_there_is_room_for_are_begun_and_the_rest_follows() -> None:
    waiting = Waiting("a", "b", "c")
    kind = waiting.kind(at_once=2)
    kind.serve()
    assert len(threads()) == 2
    kind.serve()
    assert waiting.names == ["c"]

    waiting.go_on.set()
    wait_for(lambda: len(waiting.done) == 3)
    assert sorted(waiting.done) == ["a", "b", "c"]


def test_where_nothing_waits_nothing_is_claimed_or_recovered() -> None:
    waiting = Waiting()
    waiting.kind().serve()
    assert (waiting.recovered, threads()) == (0, [])


def test_a_job_that_fails_leaves_its_room_to_the_next(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting("fails", "after")
    waiting.go_on.set()
    waiting.kind(private=True).serve()
    wait_for(lambda: waiting.done == ["after"])
    assert "counted: left to another worker (ValueError)" in caplog.text
    assert "somebody" not in caplog.text


def test_a_worker_that_stops_begins_nothing_any_more(stopping: threading.Event) -> None:
    waiting = Waiting("a")
    stopping.set()
    waiting.kind().serve()
    assert waiting.names == ["a"]


def test_the_sweep_serves_all_kinds_though_one_fails() -> None:
    def away() -> bool:
        raise ConnectionError

    first, second = Waiting("a"), Waiting("b")
    for waiting in (first, second):
        waiting.go_on.set()
    broken = first.kind()
    broken._waits = away
    running._kinds.extend([broken, second.kind()])
    running.sweep()
    wait_for(lambda: second.done == ["b"])
    assert first.names == ["a"]


def test_an_announcement_waits_for_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(running, "_send", sent.append)
    with transaction.atomic():
        announce("replview.serve_exports")
        assert sent == []
    assert sent == ["replview.serve_exports"]
    with transaction.atomic():
        announce("replview.serve_exports")
        transaction.set_rollback(True)
    assert len(sent) == 1


def test_without_redis_an_announcement_is_soon_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(celery_settings, "broker_url", "redis://127.0.0.1:1/0")
    running._sender.cache_clear()
    began = time.monotonic()
    announce("replview.serve_exports")
    running._sender.cache_clear()
    assert time.monotonic() - began < 20


def test_every_task_that_beat_or_an_announcement_names_is_known() -> None:
    from replview.celery import app

    app.loader.import_default_modules()
    scheduled = {entry["task"] for entry in celery_settings.beat_schedule.values()}
    kinds = ("archive", "baselines", "drafts", "erasures", "exports", "history_jobs", "peeks")
    asked = {f"replview.serve_{kind}" for kind in kinds}
    former = {"sample_slots", "keep_sampling", "enforce_budgets", "write_heartbeats", "watch",
              "roll_activity", "evaluate_alerts", "deliver_alerts", "propose_receivers", "receive",
              "sweep_intentions"}  # fmt: skip
    wanted = scheduled | asked | {f"replview.{name}" for name in former}
    assert wanted <= set(app.tasks) | set(current_app.tasks)

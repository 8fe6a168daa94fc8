"""Looks into slots in the store: claimed once, ended once, given up, deleted."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from replview.jobs import peeks
from replview.store.models import SlotPeek, Source

pytestmark = pytest.mark.django_db

RESULT = {"plugin": "pgoutput", "changes": 0, "first_changes": [], "unknown": []}


@pytest.fixture
def source() -> Source:
    """Known to the store alone."""
    return Source.objects.create(name="shop", conninfo="host=shop.example")


def ask(source: Source, slot_name: str = "theirs") -> SlotPeek:
    return peeks.request(source, slot_name, options={}, max_changes=1000, max_seconds=5, by="alice")


def test_the_oldest_is_claimed_first(source: Source) -> None:
    first, second = ask(source), ask(source)

    claimed = peeks.rows.claim()
    assert claimed == first
    assert claimed.state == "running"
    assert claimed.started_at is not None
    assert peeks.rows.claim() == second
    assert peeks.rows.claim() is None


@pytest.mark.django_db(transaction=True)
def test_two_workers_never_claim_the_same(source: Source) -> None:
    for _ in range(20):
        ask(source)
    claimed: list[int] = []

    def work() -> None:
        try:
            while (peek := peeks.rows.claim()) is not None:
                claimed.append(peek.pk)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == sorted(SlotPeek.objects.values_list("pk", flat=True))


def test_it_ends_once(source: Source) -> None:
    peek = ask(source)
    assert not peeks.finish(peek, RESULT), "nobody has begun it"
    claim = peeks.rows.claim()
    assert peeks.finish(claim, RESULT)
    assert not peeks.rows.fail(claim, "y", "z")

    peek.refresh_from_db()
    assert (peek.state, peek.result["plugin"], peek.problem_code) == ("done", "pgoutput", "")
    assert peek.finished_at is not None


def test_one_whose_worker_vanished_is_given_up(source: Source) -> None:
    peek, other = ask(source), ask(source)
    claim = peeks.rows.claim()
    peeks.rows.claim()
    over = timezone.now() - timedelta(seconds=5 + peeks.ABANDONED_AFTER_SECONDS + 1)
    SlotPeek.objects.filter(pk=peek.pk).update(started_at=over)

    assert peeks.fail_abandoned() == 1
    peek.refresh_from_db()
    other.refresh_from_db()
    assert (peek.state, other.state) == ("failed", "running")
    assert "ended before the peek had finished" in peek.problem_cause
    assert not peeks.finish(claim, RESULT)


def test_old_ones_are_deleted(source: Source) -> None:
    old, new = ask(source), ask(source)
    SlotPeek.objects.filter(pk=old.pk).update(requested_at=timezone.now() - timedelta(days=8))

    assert peeks.delete_old() == 1
    assert list(SlotPeek.objects.all()) == [new]


def test_what_jsonb_refuses_is_stored_all_the_same(source: Source) -> None:
    peek = ask(source)
    claim = peeks.rows.claim()
    change = {"op": "insert", "new": {"zebra": "a\0b", "ab": None}}
    assert peeks.finish(claim, {**RESULT, "first_changes": [change]})

    peek.refresh_from_db()
    (stored,) = peek.result["first_changes"]
    assert stored["new"]["zebra"] == "a�b"
    assert stored["columns"] == ["zebra", "ab"], "the order of the table's columns"


def test_a_result_that_is_too_large_keeps_its_numbers(source: Source, monkeypatch) -> None:
    monkeypatch.setattr(peeks, "RESULT_LIMIT_BYTES", 1000)
    peek = ask(source)
    claim = peeks.rows.claim()
    change = {"op": "insert", "new": {"body": "x" * 2000}}
    peeks.finish(claim, {**RESULT, "changes": 7, "first_changes": [change]})

    peek.refresh_from_db()
    assert peek.result["changes"] == 7
    assert peek.result["first_changes"] == []
    assert "larger than a result may be" in peek.result["unknown"][0]

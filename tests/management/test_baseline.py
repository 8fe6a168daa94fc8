"""``replview baseline``."""

import pytest
from django.core.management.base import CommandError

from replview.store.models import Baseline, PublicationLook, Slot


@pytest.fixture
def mine(run, registered) -> Slot:
    run("slot", "add", "shop", "mine", "--yes", "--stopped")
    return Slot.objects.get()


def test_it_says_the_cost_and_asks_for_tables(run, mine: Slot) -> None:
    text = run("baseline", "shop/mine", "orders", "--yes", "--rate", "500")

    assert "a baseline of public.orders:" in text
    assert "temporary replication slot" in text
    [asked] = Baseline.objects.all()
    assert (asked.table, asked.rows_per_second, asked.state) == ("orders", 500, "requested")
    assert "public.orders  requested" in run("baseline", "shop/mine")


def test_all_tables(run, mine: Slot) -> None:
    run("baseline", "shop/mine", "--all", "--yes")

    assert set(Baseline.objects.values_list("table", flat=True)) == {"orders", "audit"}


def test_a_partitioned_table_stands_for_its_partitions(run, registered, shop) -> None:
    shop.run(
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "CREATE PUBLICATION p FOR TABLE parts",
    )
    run("slot", "add", "shop", "mine", "--yes", "--stopped", "--publication", "p")
    run("baseline", "shop/mine", "parts", "--yes")

    assert Baseline.objects.get().table == "parts_1"


def test_what_is_not_published_is_refused(run, mine: Slot) -> None:
    with pytest.raises(CommandError, match="nowhere is not published to shop/mine; published: "):
        run("baseline", "shop/mine", "nowhere", "--yes")
    with pytest.raises(CommandError, match="at least 1 row"):
        run("baseline", "shop/mine", "orders", "--rate", "0")
    assert not Baseline.objects.exists()


def test_without_a_terminal_yes_must_answer(run, mine: Slot) -> None:
    with pytest.raises(CommandError, match="--yes"):
        run("baseline", "shop/mine", "orders")
    assert not Baseline.objects.exists()


def test_waiting_tells_what_became_of_it(run, mine: Slot, monkeypatch) -> None:
    def fail(baseline_ids: list[int]) -> None:
        Baseline.objects.update(
            state="failed", problem_cause="it could not be read", problem_remedy="Ask again"
        )

    from replview.management.commands import baseline as command

    monkeypatch.setattr(command.time, "sleep", fail)
    with pytest.raises(CommandError, match="1 of 1 baseline failed"):
        run("baseline", "shop/mine", "orders", "--yes", "--wait")


def test_cancelling(run, mine: Slot) -> None:
    run("baseline", "shop/mine", "--all", "--yes")
    assert "1 baseline cancelled" in run("baseline", "shop/mine", "public.orders", "--cancel")
    assert "1 baseline cancelled" in run("baseline", "shop/mine", "--cancel")


def test_a_new_slot_is_looked_at_and_offered_a_baseline(run, registered) -> None:
    text = run("slot", "add", "shop", "mine", "--yes", "--stopped", "--baseline")

    assert PublicationLook.objects.count() == 1
    assert "2 baselines requested" in text
    assert Baseline.objects.filter(state="requested").count() == 2


def test_a_new_slot_without_one_says_how(run, registered) -> None:
    text = run("slot", "add", "shop", "mine", "--yes", "--stopped")

    assert "replview baseline shop/mine --all" in text
    assert not Baseline.objects.exists()

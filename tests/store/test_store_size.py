"""The store's size, and what its budget does to receivers."""

import pytest

from replview.store import instance_settings
from replview.store.models import Slot, SlotEvent, Source
from replview.store.retention import size as store_size
from replview.store.retention.tidy import make_partitions

pytestmark = pytest.mark.django_db


@pytest.fixture
def slots() -> tuple[Slot, Slot]:
    """Return a running slot and one that somebody stopped."""
    source = Source.objects.create(name="s", conninfo="nowhere")
    running = Slot.objects.create(source=source, name="running")
    stopped = Slot.objects.create(source=source, name="stopped", desired="stopped")
    return running, stopped


def desired(*slots: Slot) -> list[str]:
    store_size.enforce()
    for slot in slots:
        slot.refresh_from_db()
    return [slot.desired for slot in slots]


def budget(size: int | None, protect: str = "record") -> None:
    instance_settings.write("store.budget_bytes", size, "test")
    instance_settings.write("store.protect", protect, "test")


def test_it_is_measured_by_table_and_nothing_is_counted_twice() -> None:
    make_partitions()
    found = store_size.measure()

    names = [name for name, _ in found.tables]
    assert len(names) == len(set(names))
    assert not any(name.startswith("change_2") for name in names)
    assert sum(size for _, size in found.tables) < found.size_bytes
    assert (found.share, found.days_left) == (None, None)


def test_at_the_budget_receivers_stop_and_go_on_by_themselves(slots) -> None:
    budget(1)
    assert desired(*slots) == ["stopped", "stopped"]
    assert desired(*slots) == ["stopped", "stopped"]
    running, stopped = slots
    assert (running.problem_code, stopped.problem_code) == ("store_budget", "")
    assert SlotEvent.objects.filter(kind="budget").count() == 1, "said once"
    # A receiver's last word, as it stopped, may have been that all is well.
    Slot.objects.filter(pk=running.pk).update(problem_code="")
    assert desired(running) == ["stopped"]
    assert running.problem_code == "store_budget"

    budget(1 << 50)
    assert desired(*slots) == ["running", "stopped"], "only what replview had stopped"
    assert running.problem_code == ""


def test_to_protect_the_database_receivers_go_on(slots) -> None:
    budget(1, "database")

    assert desired(*slots) == ["running", "stopped"]


@pytest.mark.parametrize("protect", ["database", "record"])
def test_the_order_of_sacrifice_is_said_beforehand(protect) -> None:
    steps = store_size.order_of_sacrifice(1, protect)

    assert len(steps) >= 3
    assert ("receivers stop" in steps[0]) == (protect == "record")

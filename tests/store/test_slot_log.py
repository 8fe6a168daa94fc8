"""Reading a slot's log, and following it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from replview.store.models import Slot, SlotEvent, Source
from replview.store.slot_log import LogReader, line_of, read_log

pytestmark = pytest.mark.django_db


@pytest.fixture
def slot() -> Slot:
    """Return a slot without a log."""
    source = Source.objects.create(name="shop", conninfo="host=shop.example")
    return Slot.objects.create(source=source, name="replview")


def write(slot: Slot, kind: str = "connected", seconds: float = 0) -> SlotEvent:
    at = timezone.now() - timedelta(seconds=seconds)
    return SlotEvent.objects.create(slot=slot, kind=kind, message="It happened.", at=at)


def test_a_page_begins_with_its_line(slot: Slot) -> None:
    oldest, middle, newest = (write(slot, seconds=age) for age in (30, 20, 10))

    assert read_log(slot).lines == [newest, middle, oldest]
    page = read_log(slot, start=middle, limit=1)
    assert (page.lines, page.older) == ([middle], oldest)
    assert read_log(slot, start=oldest, limit=1).older is None


def test_a_narrowed_page_may_begin_at_any_line(slot: Slot) -> None:
    gap, other = write(slot, "gap", 20), write(slot, seconds=10)

    assert read_log(slot, kinds=["gap"], start=other).lines == [gap]


def test_lines_of_another_slot_are_none_of_its(slot: Slot) -> None:
    another = Slot.objects.create(source=slot.source, name="another")
    line = write(another)

    assert read_log(slot).lines == []
    assert line_of(slot, line.pk) is None


def test_following_gives_each_line_once(slot: Slot) -> None:
    write(slot)
    reader = LogReader(slot)
    assert list(reader.fresh()) == []

    first, second = write(slot), write(slot, "gap")
    assert list(reader.fresh()) == [first, second]
    assert list(reader.fresh()) == []


def test_a_line_that_became_visible_late_is_not_missed(slot: Slot) -> None:
    late = write(slot)
    late.delete()
    reader = LogReader(slot)
    newer = write(slot)
    assert list(reader.fresh()) == [newer]

    late.save(force_insert=True)  # its transaction began before, and ends now
    assert list(reader.fresh()) == [late]


def test_following_is_narrowed_too(slot: Slot) -> None:
    reader = LogReader(slot, ["gap"])
    write(slot)
    gap = write(slot, "gap")

    assert list(reader.fresh()) == [gap]

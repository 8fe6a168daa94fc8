"""``replview slot quarantine``."""

import getpass

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

from decoder.scalars import LSN
from replview.store.models import Quarantine, Slot, SlotIncarnation, Source


@pytest.fixture
def slot(db) -> Slot:
    """shop/mine in its first incarnation."""
    source = Source.objects.create(name="shop", conninfo="host=shop.example")
    slot = Slot.objects.create(source=source, name="mine")
    slot.incarnation = SlotIncarnation.objects.create(
        slot=slot, number=1, system_identifier="7", timeline=1, reason="created"
    )
    slot.save()
    return slot


def make(slot: Slot, **values) -> Quarantine:
    """An update of transaction 757 that could not be stored."""
    known = {"xid": 757, "lsn": LSN.parse("0/1B2C310"), "relation": "public.orders", "tag": "U",
             "raw": b"U", "raw_bytes": 1, "cause": "a value does not fit",
             "remedy": "mend it"}  # fmt: skip
    return Quarantine.objects.create(slot=slot, incarnation=slot.incarnation, **(known | values))


def test_nothing_stops_the_slot(run, slot: Slot) -> None:
    assert "slot shop/mine has no message in quarantine" in run(
        "slot", "quarantine", "shop", "mine"
    )
    with pytest.raises(CommandError, match="nothing to decide"):
        run("slot", "quarantine", "shop", "mine", "--retry")


def test_it_shows_what_stops_the_slot_and_the_ways_on(run, slot: Slot) -> None:
    row = make(slot)
    text = run("slot", "quarantine", "shop", "mine")

    for expected in ("a value does not fit", "0/1B2C310", "public.orders", "update (U)", "757",
                     "commit   unknown", "mend it", "--retry", "--skip 757"):  # fmt: skip
        assert expected in text
    row.refresh_from_db()
    assert row.decision == ""


def test_try_again(run, slot: Slot) -> None:
    row = make(slot)
    run("slot", "quarantine", "shop", "mine", "--retry")

    row.refresh_from_db()
    assert row.decision == "retry"
    assert row.decided_by == f"command line ({getpass.getuser()})"
    assert "decided to try again" in run("slot", "quarantine", "shop", "mine")


def test_skip_needs_the_right_xid(run, slot: Slot) -> None:
    row = make(slot)
    with pytest.raises(CommandError, match="transaction 757 that stops the slot, not 758"):
        run("slot", "quarantine", "shop", "mine", "--skip", "758")
    row.refresh_from_db()
    assert row.decision == ""

    text = run("slot", "quarantine", "shop", "mine", "--skip", "757")
    assert "transaction 757 will never be stored" in text
    row.refresh_from_db()
    assert row.decision == "skip"


def test_only_the_first_decision_counts(run, slot: Slot) -> None:
    make(slot, decision="skip", decided_by="alice")

    with pytest.raises(CommandError, match="alice has decided already: skip"):
        run("slot", "quarantine", "shop", "mine", "--retry")


def test_what_belongs_to_no_transaction_is_not_skipped(run, slot: Slot) -> None:
    make(slot, xid=None, tag="R")

    assert "--skip" not in run("slot", "quarantine", "shop", "mine")
    with pytest.raises(CommandError, match="belongs to no transaction"):
        run("slot", "quarantine", "shop", "mine", "--skip", "757")


def test_earlier_ones_are_listed(run, slot: Slot) -> None:
    at = timezone.now()
    make(slot, decision="skip", decided_by="alice", decided_at=at, settled_at=at)

    assert "transaction 757 skipped by alice: a value does not fit" in run(
        "slot", "quarantine", "shop", "mine"
    )

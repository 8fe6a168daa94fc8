"""Alerts that would say the same twice: of two rules of a kind, and of two ways to one server."""

from typing import Any

import pytest

from replview.features.alerts.evaluation import evaluate
from replview.features.slots.facts import same_slot
from replview.store.models import Alert, AlertRule, Source, SourceLook, WatchedSlot
from tests.support.alerted_source import GB, START, Sampled

HALF, NEAR = "Retained WAL over half its limit", "Retained WAL near its limit"
STARTED = "2026-11-19T06:00:00+00:00"


def states() -> dict[str, str]:
    return dict(Alert.objects.order_by("pk").values_list("rule__name", "state"))


def test_the_graver_of_two_rules_stands_for_the_milder_while_it_fires(
    sampled: Sampled,
) -> None:
    sampled.sample(retained_wal_bytes=6 * GB)
    assert states() == {HALF: "firing"}

    sampled.sample(retained_wal_bytes=int(9.5 * GB))
    assert states() == {HALF: "cleared", NEAR: "firing"}
    over = Alert.objects.get(rule__name=HALF)
    assert over.detail["over_because"] == f"“{NEAR}” replaces it now"

    sampled.sample(retained_wal_bytes=6 * GB)
    assert list(Alert.objects.filter(state="firing").values_list("rule__name", flat=True)) == [HALF]


def test_what_jumps_beyond_both_thresholds_fires_once(sampled: Sampled) -> None:
    sampled.sample(retained_wal_bytes=int(9.5 * GB))

    assert states() == {NEAR: "firing"}


def test_two_rules_as_grave_as_each_other_both_tell(sampled: Sampled) -> None:
    evaluate(START)
    AlertRule.objects.create(kind="retained_share", name="mine", severity="now", threshold=0.7)
    sampled.sample(retained_wal_bytes=int(9.5 * GB))

    assert states() == {NEAR: "firing", "mine": "firing"}


@pytest.fixture
def twice(sampled: Sampled) -> WatchedSlot:
    """A second source to the same server; each sees the slot ``others`` of database ``b``."""
    Source.objects.update(system_identifier="75")
    second = Source.objects.create(
        name="shop-b", conninfo="", system_identifier="75", checked_at=START,
        max_slot_wal_keep_bytes=10 * GB,
    )  # fmt: skip
    sampled.source.refresh_from_db()
    sampled.saw(holders={"started_at": STARTED, "database": "a"})
    SourceLook.objects.create(
        source=second, looked_at=START, prepared=[], running=[],
        holders={"started_at": STARTED, "database": "b"},
    )  # fmt: skip
    values: dict[str, Any] = {
        "name": "others", "database": "b", "last_seen_at": START,
        "facts": {"active": True, "wal_status": "reserved", "retained_wal_bytes": 6 * GB},
    }  # fmt: skip
    WatchedSlot.objects.create(id=sampled.slot.pk + 500, source=sampled.source, **values)
    return WatchedSlot.objects.create(id=sampled.slot.pk + 501, source=second, **values)


def test_a_slot_that_two_sources_lead_to_is_alerted_of_once(
    sampled: Sampled, twice: WatchedSlot
) -> None:
    evaluate(START)

    [alert] = Alert.objects.filter(state="firing")
    assert alert.slot == twice, "that of the source whose database it is of"
    assert alert.detail["also_seen_as"] == "shop/others"
    same = same_slot(sampled.source, "others")
    assert same is not None
    assert (same.alerted, same.here) == ("shop-b/others", False)


def test_a_prepared_transaction_that_two_sources_show_is_alerted_of_once(
    sampled: Sampled, twice: WatchedSlot
) -> None:
    prepared = [{"gid": "g", "xid": 9, "prepared_at": "2026-11-20T06:00:00+00:00"}]
    SourceLook.objects.update(prepared=prepared)
    evaluate(START)

    assert Alert.objects.filter(rule__kind="prepared_age", state="firing").count() == 1


def test_a_standby_or_a_copy_of_the_server_has_slots_of_its_own(
    sampled: Sampled, twice: WatchedSlot
) -> None:
    look = SourceLook.objects.get(source=twice.source)
    look.holders["started_at"] = "2026-11-19T07:00:00+00:00"
    look.save()
    evaluate(START)

    assert Alert.objects.filter(state="firing").count() == 2
    assert same_slot(sampled.source, "others") is None

"""All slots, ours and others': the list, the page of one that is only watched, failover."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from replview.features.slots.list_page import SlotListRow, SlotsPage, read_page
from replview.features.slots.slot_page import (
    SlotPage,
    WatchedSlotPage,
    slot_page,
    watched_slot_page,
)
from replview.health.fleet import read_fleet
from replview.store import instance_settings
from replview.store.models import Slot, Source, WatchedSlot, WatchedSubscription
from tests.support import watched_scene
from tests.support.page_elements import spaced
from tests.support.scene import GB, Scene
from tests.support.watched_scene import LOST_16, subscription, watch


@pytest.fixture
def watched(scene: Scene) -> dict[str, WatchedSlot]:
    return watched_scene.others(scene)


def text_of(response) -> str:
    return response.content.decode()


def listed(query: str = "") -> SlotsPage:
    """Return the list of slots that an address asks for."""
    return read_page(read_fleet(), QueryDict(query))


def names(page: SlotsPage) -> list[str]:
    return [row.view.name for row in page.rows]


def row_named(page: SlotsPage, name: str) -> SlotListRow:
    [row] = (row for row in page.rows if row.view.name == name)
    return row


def ours_of(name: str) -> SlotPage:
    view = read_fleet().find_slot(name)
    assert view is not None
    return slot_page(view, QueryDict())


def watched_of(name: str) -> WatchedSlotPage:
    view = read_fleet().find_other(name)
    assert view is not None
    return watched_slot_page(view)


def row_of(page: str, name: str) -> str:
    return next(row for row in page.split("<tr ") if f">{name}</a>" in row)


def test_all_slots_worst_first(watched: dict[str, WatchedSlot]) -> None:
    page = listed()

    assert names(page)[:2] == ["debezium_billing", "replview_billing"]
    assert "left_us" not in names(page)
    assert (page.total, page.level) == (17, "now")
    standby = row_named(page, "standby_fra")
    assert (standby.ours, standby.kind) == (False, "physical")
    title = row_named(page, "search_feed").view.health.title
    assert "catching up at 40\xa0MB/s, about 82\xa0s to go" in title


def test_the_list_is_rendered(signed_in: Client, watched: dict[str, WatchedSlot]) -> None:
    page = text_of(signed_in.get("/slots/"))

    assert re.findall(r'id="slot-link-[^"]+" href="[^"]+">([^<]+)', spaced(page))[:2] == [
        "debezium_billing", "replview_billing"
    ]  # fmt: skip
    assert "17 slots on 5 sources." in page
    assert "watched · physical" in row_of(page, "standby_fra")
    assert "catching up at 40\xa0MB/s, about 82\xa0s to go" in row_of(page, "search_feed")
    unneeded = page.split('id="unneeded"')[1]
    assert "pg_drop_replication_slot(\n  &#x27;o&#x27;&#x27;brien_trial&#x27;);" in unneeded


def test_a_lost_slot_is_never_shown_as_zero_lag(
    signed_in: Client, watched: dict[str, WatchedSlot]
) -> None:
    listed, overview = text_of(signed_in.get("/slots/")), text_of(signed_in.get("/"))
    for name in ("lost_15", "lost_16", "lost_18"):
        address = f"{watched[name].source.name}/{name}"
        for shown in (
            row_of(listed, name),
            overview.split(f'href="/slots/{address}/"')[1][:300],
            text_of(signed_in.get(f"/slots/{address}/")).split("<main")[-1],
            text_of(signed_in.get(f"/shell/health/?slot={address}")).split("data-health")[1],
        ):
            assert not re.search(r"(?<![\d.,])0\xa0(?:B|kB|MB|GB|s)\b", shown)
            assert "caught up" not in shown
            assert "lost" in shown or "health-now" in shown


def test_a_lost_slot_of_ours_is_lost_whatever_its_samples_say(
    signed_in: Client, scene: Scene
) -> None:
    slot = scene.slots["shop/replview"]
    WatchedSlot.objects.create(
        id=slot.pk, slot=slot, source=slot.source, name=slot.name, facts=LOST_16
    )

    assert row_named(listed("source=shop"), "replview").lost
    page = ours_of("shop/replview")
    assert page.sentence.title.startswith("replview is lost")
    assert page.retained.lost.startswith("lost")
    steps = " ".join(step.run for step in page.on_server.steps)
    assert "pg_create_logical_replication_slot" in steps

    assert '<span class="lost"' in text_of(signed_in.get("/slots/?source=shop"))
    assert "<b>lost" in text_of(signed_in.get("/slots/shop/replview/"))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("source=crm&state=look", {"replview", "o'brien_trial"}),
        ("whose=others&source=billing-eu", {"debezium_billing", "standby_fra", "lost_16"}),
        ("whose=nobody&source=crm", {"o'brien_trial"}),
        ("whose=gone", {"left_us"}),
        ("source=%00&state=x&whose=y", None),
    ],
)
def test_the_address_narrows_the_list(
    watched: dict[str, WatchedSlot], query: str, expected: set[str] | None
) -> None:
    shown = names(listed(query))

    assert len(shown) > 8 if expected is None else set(shown) == expected


def test_an_address_that_means_nothing_lists_all(
    signed_in: Client, watched: dict[str, WatchedSlot]
) -> None:
    page = text_of(signed_in.get("/slots/?source=%00&state=x&whose=y"))

    assert page.count('id="slot-link-') == 17


def test_a_sample_is_current_for_four_intervals(scene: Scene, watched) -> None:
    subscription(scene, "warehouse", "from_shop")
    then = timezone.now() - timedelta(seconds=100)
    WatchedSlot.objects.update(last_seen_at=then)
    WatchedSubscription.objects.update(last_seen_at=then)

    def current() -> list[bool]:
        fleet = read_fleet()
        reading = fleet.find_slot("shop/replview").reading
        [view] = listed().subscriptions
        return [replace(reading, sampled_at=then).fresh(fleet.now),
                fleet.find_other("shop/search_feed").present_known,
                "Unknown for" not in view.health.title]  # fmt: skip

    assert current() == [False] * 3
    instance_settings.write("sampling.seconds", 60)
    assert current() == [True] * 3


def test_slots_nobody_needs_come_with_how_to_drop_them(watched: dict[str, WatchedSlot]) -> None:
    drops = {unneeded["row"].view.name: unneeded["run"] for unneeded in listed().unneeded}

    assert "pg_drop_replication_slot(\n  'o''brien_trial');" in drops["o'brien_trial"]
    assert "debezium_billing" not in drops


def test_a_watched_slot_has_a_page(watched: dict[str, WatchedSlot]) -> None:
    page = watched_of("billing-eu/debezium_billing")

    assert page.view.health.title == "debezium_billing will be lost in about 1\xa0h\xa044\xa0min."
    assert page.adopt_command == "replview slot add billing-eu debezium_billing --adopt"
    retained = page.retained
    assert (retained.number, retained.half, retained.end) == (
        "32.2\xa0GB", "half: alerts from here", "64\xa0GB: wal_removed, the slot is lost"
    )  # fmt: skip
    facts = {fact.name: fact for fact in page.on_server.facts}
    assert facts["Held back by"].text == "the missing consumer"
    assert facts["failover"].unknown == "unknown: needs 17"
    assert facts["Created by"].text == "not replview; monitored"
    assert any("128GB" in step.run for step in page.on_server.steps)


def test_the_page_of_a_watched_slot_is_rendered(
    signed_in: Client, watched: dict[str, WatchedSlot]
) -> None:
    page = text_of(signed_in.get("/slots/billing-eu/debezium_billing/"))

    heading = re.search(r"<h1>(.*?)</h1>", page, re.DOTALL)
    assert heading is not None
    assert "debezium_billing will be lost in about 1\xa0h\xa044\xa0min." in heading[1]
    for expected in (
        "Only monitored, not received by replview", "replview slot add billing-eu debezium_billing",
        "<b>32.2\xa0GB</b>", "64\xa0GB: wal_removed, the slot is lost", "half: alerts from here",
        "the missing consumer", "unknown: needs 17", "not replview; monitored", "128GB",
        'aria-label="Scope: billing-eu/debezium_billing"', "slot=billing-eu/debezium_billing",
    ):  # fmt: skip
        assert expected in page, expected


def test_a_watched_page_polls_only_its_part(
    signed_in: Client, watched: dict[str, WatchedSlot]
) -> None:
    part = text_of(signed_in.get("/slots/shop/search_feed/", headers={"HX-Request": "true"}))

    assert "<html" not in part
    assert 'id="slot-sentence" hx-swap-oob="innerHTML"' in part


def test_a_gone_slots_page_says_so(signed_in: Client, watched: dict[str, WatchedSlot]) -> None:
    page = text_of(signed_in.get("/slots/crm/left_us/"))

    assert "left_us is gone from the server." in page
    assert "slot add" not in page


def test_the_overview_counts_others(signed_in: Client, watched: dict[str, WatchedSlot]) -> None:
    page = signed_in.get("/").context["page"]

    (view,) = (view for view, _ in page.rows if view.source.name == "billing-eu")
    assert view.health.title.startswith("debezium_billing will be lost in about")
    assert "/slots/billing-eu/debezium_billing/" in [slot.url for slot in view.chips]


def test_ours_says_its_budget(scene: Scene) -> None:
    Slot.objects.filter(pk=scene.slots["shop/replview"].pk).update(wal_budget_bytes=4 * GB)
    retained = ours_of("shop/replview").retained

    assert retained.limit == "budget 4\xa0GB (protect the database)"
    assert retained.end == "4\xa0GB: replview drops the slot"


def test_subscriptions_say_whether_they_apply(signed_in: Client, scene: Scene) -> None:
    subscription(scene, "warehouse", "from_shop", apply_error_count=3, confl_insert_exists=2)
    subscription(scene, "crm", "stuck", pid=None)
    subscription(scene, "crm", 'of"f', subenabled=False)
    views = {view.name: view for view in listed().subscriptions}

    applies = views["from_shop"]
    assert applies.health.title == "Caught up."
    assert (applies.errors, applies.conflicts) == ("3 apply errors", "2 insert exists")
    assert views["stuck"].health.title == "Its worker does not run."
    assert views["stuck"].conflicts == ""
    assert views['of"f'].run == 'ALTER SUBSCRIPTION "of""f" ENABLE;'

    page = text_of(signed_in.get("/slots/")).split('id="subscriptions"')[1]
    assert "3 apply errors" in page
    assert "ALTER SUBSCRIPTION &quot;of&quot;&quot;f&quot; ENABLE;" in page
    assert "unknown: needs 18" in page


def test_readers_that_wait_for_no_standby_are_warned_of(signed_in: Client, scene: Scene) -> None:
    shop = scene.sources["shop"]
    Source.objects.filter(name="shop-replica").update(
        system_identifier=shop.system_identifier, problem_code=""
    )
    watched_scene.settings_of(scene, shop, synchronized_standby_slots="")
    watched_scene.settings_of(scene, scene.sources["shop-replica"], sync_replication_slots="off")
    watch(scene, shop, "cdc_ha", facts={"failover": True})

    [(source, warning)] = listed().warnings
    assert source == shop
    assert "synchronized_standby_slots is empty" in warning
    failover = watched_of("shop/cdc_ha").on_server.failover
    assert failover.words == "no: no standby has it ready"
    assert [(line.standby, line.words) for line in failover.lines] == [
        ("shop-replica", "not there; lacks sync_replication_slots")
    ]
    assert any("sync_replication_slots = on" in step.run for step in failover.steps)

    assert "synchronized_standby_slots is empty" in text_of(signed_in.get("/slots/"))
    page = text_of(signed_in.get("/slots/shop/cdc_ha/"))
    assert "<b>shop-replica</b>: not there; lacks sync_replication_slots" in page


def test_queries_do_not_grow_with_watched_slots(signed_in: Client, scene: Scene) -> None:
    def queries(address: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            signed_in.get(address)
        return len(seen)

    watch(scene, scene.sources["shop"], "one")
    addresses = ("/slots/", "/slots/shop/one/", "/sources/")
    before = [queries(address) for address in addresses]
    for number in range(40):
        watch(scene, scene.sources["crm"], f"more_{number}",
              last_seen_at=scene.now - timedelta(seconds=number))  # fmt: skip
    assert [queries(address) for address in addresses] == before

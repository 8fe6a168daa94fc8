"""All slots, ours and others': the list, the page of one that is only watched, failover."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from replview.store.models import Slot, Source, WatchedSlot
from tests.support import watched_scene
from tests.support.page_elements import spaced
from tests.support.scene import GB, Scene
from tests.support.watched_scene import LOST_16, subscription, watch


@pytest.fixture
def watched(scene: Scene) -> dict[str, WatchedSlot]:
    return watched_scene.others(scene)


def text_of(response) -> str:
    return response.content.decode()


def names(page: str) -> list[str]:
    return re.findall(r'id="slot-link-[^"]+" href="[^"]+">([^<]+)', spaced(page))


def row_of(page: str, name: str) -> str:
    return next(row for row in page.split("<tr ") if f">{name}</a>" in row)


def test_all_slots_worst_first(signed_in: Client, watched: dict[str, WatchedSlot]) -> None:
    page = text_of(signed_in.get("/slots/"))

    listed = names(page)
    assert listed[:2] == ["debezium_billing", "replview_billing"]
    assert "17 slots on 5 sources." in page
    assert "left_us" not in listed
    assert "watched · physical" in row_of(page, "standby_fra")
    assert "catching up at 40\xa0MB/s, about 82\xa0s to go" in row_of(page, "search_feed")


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

    assert '<span class="lost"' in text_of(signed_in.get("/slots/?source=shop"))
    page = text_of(signed_in.get("/slots/shop/replview/"))
    assert "replview is lost" in page
    assert "<b>lost" in page
    assert "pg_create_logical_replication_slot" in page


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
    signed_in: Client, watched: dict[str, WatchedSlot], query: str, expected: set[str] | None
) -> None:
    page = text_of(signed_in.get(f"/slots/?{query}"))

    listed = {name.replace("&#x27;", "'") for name in names(page)}
    assert len(listed) > 8 if expected is None else listed == expected


def test_slots_nobody_needs_come_with_how_to_drop_them(
    signed_in: Client, watched: dict[str, WatchedSlot]
) -> None:
    page = text_of(signed_in.get("/slots/")).split('id="unneeded"')[1]

    assert "pg_drop_replication_slot(\n  &#x27;o&#x27;&#x27;brien_trial&#x27;);" in page
    assert "debezium_billing" not in page


def test_a_watched_slot_has_a_page(signed_in: Client, watched: dict[str, WatchedSlot]) -> None:
    page = text_of(signed_in.get("/slots/billing-eu/debezium_billing/"))

    heading = re.search(r"<h1>(.*?)</h1>", page, re.DOTALL)
    assert heading is not None
    assert "debezium_billing will be lost in about 1\xa0h\xa044\xa0min." in heading[1]
    for expected in (
        "Only watched; not received by replview", "replview slot add billing-eu debezium_billing",
        "<b>32.2\xa0GB</b>", "64\xa0GB: wal_removed, the slot is lost", "half: alerts from here",
        "the missing consumer", "unknown: needs 17", "not replview; only watched", "128GB",
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
    page = text_of(signed_in.get("/"))

    assert "debezium_billing will be lost in about" in page
    assert 'href="/slots/billing-eu/debezium_billing/"' in page


def test_ours_says_its_budget(signed_in: Client, scene: Scene) -> None:
    Slot.objects.filter(pk=scene.slots["shop/replview"].pk).update(wal_budget_bytes=4 * GB)
    page = text_of(signed_in.get("/slots/shop/replview/"))

    assert "budget 4\xa0GB (protect the database)" in page
    assert "4\xa0GB: replview drops the slot" in page


def test_subscriptions_say_whether_they_apply(signed_in: Client, scene: Scene) -> None:
    subscription(scene, "warehouse", "from_shop", apply_error_count=3, confl_insert_exists=2)
    subscription(scene, "crm", "stuck", pid=None)
    subscription(scene, "crm", 'of"f', subenabled=False)
    page = text_of(signed_in.get("/slots/")).split('id="subscriptions"')[1]

    assert "Applies as it receives." in page
    assert "3 apply errors" in page
    assert "2 insert exists" in page
    assert "Its worker does not run." in page
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

    assert "synchronized_standby_slots is empty" in text_of(signed_in.get("/slots/"))
    page = text_of(signed_in.get("/slots/shop/cdc_ha/"))
    assert "no: no standby has it ready" in page
    assert "<b>shop-replica</b>: not there; lacks sync_replication_slots" in page
    assert "sync_replication_slots = on" in page


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

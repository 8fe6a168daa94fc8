"""The WAL budget on a slot's page: shown in words, changed, refused with why."""

from django.test import Client

from replview.features.slots.budget import budget_of
from replview.store import instance_settings
from replview.store.models import Slot, SlotEvent
from tests.support.people import make_user
from tests.support.scene import Scene

SHOP = "/slots/shop/replview/"


def test_a_slot_from_before_says_that_it_has_no_budget(signed_in: Client, scene: Scene) -> None:
    budget = budget_of(scene.slots["shop/replview"])
    assert budget.sentence.startswith("No budget: replview never drops this slot")
    assert budget.used_percent is None

    page = signed_in.get(SHOP).content.decode()
    assert "No budget: replview never drops this slot" in page
    assert 'action="/slots/shop/replview/budget/"' in page


def test_it_is_changed_and_the_log_says_by_whom(signed_in: Client, scene: Scene) -> None:
    answer = signed_in.post(
        f"{SHOP}budget/", {"wal_budget": "20 GB", "protect": "database", "heartbeat": "60"}
    )

    assert answer["Location"] == f"{SHOP}#budget"
    slot = Slot.objects.get(source__name="shop", name="replview")
    assert (slot.wal_budget_bytes, slot.protect, slot.heartbeat_seconds) == (
        20 << 30, "database", 60
    )  # fmt: skip
    assert SlotEvent.objects.filter(slot=slot, kind="budget").count() == 1
    budget = budget_of(slot)
    assert "at 20\xa0GB it stops receiving and drops the slot" in budget.sentence
    assert budget.form["wal_budget"].value() == "20GB"


def test_what_makes_no_sense_is_refused_and_shown_again(signed_in: Client, scene: Scene) -> None:
    answer = signed_in.post(f"{SHOP}budget/", {"wal_budget": "<b>9", "protect": "record"})

    assert answer.status_code == 422
    page = answer.content.decode()
    assert 'role="alert"' in page
    assert "is no size" in page
    assert 'value="&lt;b&gt;9"' in page
    assert Slot.objects.get(source__name="shop", name="replview").wal_budget_bytes is None


def test_each_error_stands_beside_its_field(signed_in: Client, scene: Scene) -> None:
    sent = {"wal_budget": "10GB", "protect": "nobody", "heartbeat": "1"}
    page = signed_in.post(f"{SHOP}budget/", sent).content.decode()

    assert 'id="id_wal_budget_error"' not in page
    _, protect, rest = page.partition('id="id_protect_error"')
    assert protect
    assert "Choose what to protect at the budget." in rest
    _, heartbeat, rest = rest.partition('id="id_heartbeat_error"')
    assert heartbeat
    assert "A heartbeat is written every 5 to 86,400 seconds, or never." in rest
    assert 'aria-invalid="true" aria-describedby="id_heartbeat_helptext id_heartbeat_error"' in page


def test_only_a_signed_in_user_and_only_a_post_changes_it(client: Client, scene: Scene) -> None:
    assert client.post(f"{SHOP}budget/", {"wal_budget": "20GB"}).status_code in (302, 403)
    assert Slot.objects.get(source__name="shop", name="replview").wal_budget_bytes is None


def test_the_store_page_says_what_gives_way_first(client: Client, scene: Scene) -> None:
    client.force_login(make_user("ada", role="admin"))
    signed_in = client
    page = signed_in.get("/store/").content.decode()
    assert "No budget" in page

    signed_in.post("/store/", {"budget": "50GB", "protect": "record"})

    page = signed_in.get("/store/").content.decode()
    assert (
        "When the store reaches its budget, all receivers stop; nothing stored is deleted." in page
    )
    exact = (10 << 30) + 1
    instance_settings.write("store.budget_bytes", exact, "ada")
    page = signed_in.get("/store/").content.decode()
    assert f'value="{exact}B"' in page, "the text was rounded"
    refused = signed_in.post("/store/", {"budget": "lots", "protect": "record"})
    assert refused.status_code == 422

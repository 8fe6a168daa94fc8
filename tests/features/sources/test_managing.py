"""Sources and slots managed in the browser, against a real source: shown, confirmed, recorded."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from decoder.scalars import LSN
from replview.access.tokens import make_token
from replview.acts import adopting, dropping, moving, receiving
from replview.acts.columns import plan_columns
from replview.acts.credentials import take_into_use, try_address
from replview.acts.slot_making import make_slot
from replview.acts.sources import plan_remove, remove_source
from replview.acts.tables import plan_tables
from replview.catalog.connections import connect
from replview.catalog.plan.new_slot import make_plan
from replview.catalog.plan.plan import Plan
from replview.catalog.plan.slot_request import SlotRequest
from replview.catalog.problems import SourceProblem
from replview.features.sources.views import list_sources, read_publications_page
from replview.health.fleet import read_fleet
from replview.jobs import intentions
from replview.store.dsn import full_conninfo, set_dsn
from replview.store.models import (
    AccessRecord,
    SavedFilter,
    Slot,
    SlotEvent,
    Source,
    WatchedSlot,
)
from replview.store.reachable import DSNError
from replview.store.retention.tidy import make_partitions, remove_slots
from replview.ui.managed import Outcome
from tests.support.page_elements import spaced
from tests.support.people import make_user
from tests.support.sampling import sample_source
from tests.support.source_traces import left_on

pytestmark = pytest.mark.django_db


def signed_in_as(role: str) -> Client:
    client = Client()
    client.force_login(make_user(f"the_{role}", role))
    return client


@pytest.fixture
def operator(db) -> Client:
    """Signed in as an operator."""
    return signed_in_as("operator")


@pytest.fixture
def admin(db) -> Client:
    """Signed in as an admin."""
    return signed_in_as("admin")


@pytest.fixture
def shop(source, db) -> Source:
    """A source with tables that have a key and one that has none."""
    source.run(
        "CREATE TABLE orders (id int PRIMARY KEY, status text)",
        "CREATE TABLE customers (id int PRIMARY KEY)",
        "CREATE TABLE audit (what text)",
    )
    row = Source(name="shop")
    set_dsn(row, source.dsn)
    row.save()
    return row


@pytest.fixture
def slot(shop, source) -> Slot:
    """A slot and its publication as ``replview slot add`` makes them; stopped."""
    with connect(source.dsn) as connection:
        plan = make_plan(connection, SlotRequest(slot_name="mine", tables=("orders",)))
    return make_slot(shop, source.dsn, plan, print, stopped=True, options={})


def sampled(shop: Source) -> None:
    """Look at it once, as the sampler does."""
    make_partitions()
    assert sample_source(shop) is None
    shop.refresh_from_db()


def text_of(answer) -> str:
    """Return an answer's text without its tags, with quotes and ampersands as they are read."""
    text = re.sub(r"<[^>]+>", "", spaced(answer.content.decode()))
    return text.replace("&quot;", '"').replace("&#x27;", "'").replace("&amp;", "&")


def page_of(answer) -> Any:
    """Return the page that an answer shows."""
    return answer.context["page"]


def outcome_of(answer) -> Outcome:
    """Return what an answer says was done."""
    outcome: Outcome = answer.context["outcome"]
    return outcome


def sql_of(plan: Plan) -> list[str]:
    return [statement.sql for statement in plan.statements]


def why_not(plan: Plan) -> str:
    """Return the cause for which the plan cannot be carried out."""
    assert plan.refusal is not None
    return plan.refusal.cause


def confirmed(client: Client, address: str, typed: str = "", **sent: object):
    """The page, then the confirmation of what it showed."""
    answer = client.get(address, sent)
    shown = page_of(answer).shown
    assert f'name="shown" value="{shown}"' in answer.content.decode()
    form = {**sent, "shown": shown, "typed": typed}
    return client.post(address, form, follow=True)


def test_a_slot_is_stopped_and_started_with_who_did_it(operator, shop) -> None:
    slot = Slot.objects.create(source=shop, name="mine")
    plan = receiving.plan_stop(slot)
    assert plan.statements == ()
    assert "retains WAL until it is started again" in plan.consequences[0]
    page = text_of(operator.get("/slots/shop/mine/stop/"))
    assert "No statement changes anything there" in page
    assert plan.consequences[0] in page

    done = outcome_of(confirmed(operator, "/slots/shop/mine/stop/"))

    assert (done.title, done.statements) == ("shop/mine is stopped.", [])
    assert [word for word, _ in done.links] == ["shop/mine", "Source shop", "Start it again"]
    slot.refresh_from_db()
    assert slot.desired == "stopped"
    assert SlotEvent.objects.get(slot=slot).message.endswith("Done by the_operator.")
    record = AccessRecord.objects.get(action="changed_slot")
    assert (record.user_name, record.subject, record.details["act"]) == (
        "the_operator", "shop/mine", "stop"
    )  # fmt: skip
    assert why_not(receiving.plan_stop(slot)) == "slot shop/mine is already stopped"
    confirmed(operator, "/slots/shop/mine/start/")
    slot.refresh_from_db()
    assert slot.desired == "running"


def test_nothing_happens_without_what_was_shown(operator, shop) -> None:
    slot = Slot.objects.create(source=shop, name="mine")

    answer = operator.post("/slots/shop/mine/stop/", {"shown": "something else"})

    assert answer.status_code == 422
    assert page_of(answer).trouble.code == "changed"
    assert "has changed since it was shown" in text_of(answer)
    slot.refresh_from_db()
    assert slot.desired == "running"


def test_a_slot_is_dropped_its_record_kept_and_created_anew(operator, slot, source) -> None:
    address = "/slots/shop/mine/drop/"
    answer = operator.get(address)
    page = page_of(answer)
    assert (page.keep, page.leave, page.act.typed) == (True, False, "mine")
    assert sql_of(page.act) == [
        "SELECT pg_drop_replication_slot('mine')", 'DROP PUBLICATION IF EXISTS "mine"'
    ]  # fmt: skip
    assert 'DROP PUBLICATION IF EXISTS "mine";' in text_of(answer)
    assert not page_of(operator.get(address, {"record": "delete", "leave": "on"})).keep

    assert confirmed(operator, address, "Mine").status_code == 422
    assert left_on(source) == ({"mine"}, {"mine"})
    done = outcome_of(confirmed(operator, address, "mine"))
    assert done.title == "shop/mine was dropped; its history is kept."

    assert left_on(source) == (set(), set())
    slot.refresh_from_db()
    assert (slot.desired, slot.problem_code) == ("stopped", "given_up")
    assert "its history is kept" in text_of(operator.get("/sources/shop/"))
    again = receiving.plan_start(slot)
    assert sql_of(again)[0].startswith('CREATE PUBLICATION "mine" FOR TABLE "public"."orders"')
    assert "history shows the gap" in again.consequences[0]
    confirmed(operator, "/slots/shop/mine/start/")
    assert left_on(source) == ({"mine"}, {"mine"})
    slot.refresh_from_db()
    assert (slot.desired, slot.problem_code) == ("running", "")


def test_tables_are_changed_as_shown_and_a_baseline_is_offered(operator, slot, source) -> None:
    answer = operator.get("/slots/shop/mine/tables/")
    listed = page_of(answer).choices
    assert (listed.own, listed.inside_count, listed.outside_count) == (("mine",), 1, 2)
    assert [table.name for table in listed.inside] == ["public.orders"]
    audit, customers = listed.outside
    assert (audit.usable, audit.reason) == (False, "it has no primary key")
    assert audit.mend.startswith("ALTER TABLE")
    assert customers.usable
    assert "it has no primary key" in text_of(answer)
    found = page_of(operator.get("/slots/shop/mine/tables/", {"q": "CUST"})).choices
    assert [table.name for table in found.outside] == ["public.customers"]
    chosen = {"add": ["public.customers"], "remove": ["public.orders"]}

    done = confirmed(operator, "/slots/shop/mine/tables/", **chosen)

    assert outcome_of(done).title == "The tables of shop/mine are changed."
    assert 'ALTER PUBLICATION "mine" ADD TABLE "public"."customers";' in outcome_of(done).statements
    text = text_of(done)
    assert 'ALTER PUBLICATION "mine" DROP TABLE "public"."orders";' in text
    assert "/slots/shop/mine/baselines/?table=public.customers" in spaced(done.content.decode())
    with source.connect() as connection:
        published = connection.execute("SELECT tablename FROM pg_publication_tables").fetchall()
    assert published == [("customers",)]
    line = SlotEvent.objects.filter(slot=slot, kind="managed").latest("pk")
    assert line.detail["added"] == ["public.customers"]


def published_columns(source) -> dict[str, tuple]:
    """Columns and row filter of each table."""
    query = "SELECT tablename, attnames::text[], rowfilter FROM pg_publication_tables"
    with source.connect() as connection:
        return {name: (names, rows) for name, names, rows in connection.execute(query)}


def test_columns_of_a_published_table_are_changed_as_shown(admin, slot, source) -> None:
    source.run(
        "ALTER TABLE orders ADD email text, ADD note text",
        "ALTER PUBLICATION mine SET TABLE orders WHERE (id > 0), customers (id) WHERE (id < 9)",
    )
    address, chosen = "/slots/shop/mine/columns/", {"table": "public.orders", "show": "1"}
    tables = page_of(admin.get(address)).choice.tables
    assert [table.name for table in tables] == ["public.customers", "public.orders"]
    answer = admin.get(address, {"table": "public.orders"})
    kept = {column.name: column for column in page_of(answer).choice.columns}
    assert (kept["note"].rule, kept["note"].must_be_sent) == ("keep", "")
    assert kept["id"].must_be_sent
    page = spaced(answer.content.decode())
    assert 'name="column note" value="keep" checked' in page
    assert re.search(r'name="column id" value="drop" disabled', page), "it tells rows apart"

    done = confirmed(admin, address, **chosen, **{"column note": "drop", "column email": "mask"})

    ran = outcome_of(done).statements
    assert 'ALTER PUBLICATION "mine" DROP TABLE "public"."orders";' in ran
    added = 'ADD TABLE "public"."orders" ("id", "status", "email") WHERE ((id > 0));'
    assert any(statement.endswith(added) for statement in ran)
    assert not any("customers" in statement for statement in ran)
    assert published_columns(source) == {
        "orders": (["id", "status", "email"], "(id > 0)"),
        "customers": (["id"], "(id < 9)"),
    }
    slot.refresh_from_db()
    assert slot.column_rules == {"public.orders": {"email": "mask", "note": "drop"}}
    assert slot.epoch == 1
    # Moved to another publication or out and in again, it keeps its list.
    confirmed(admin, "/slots/shop/mine/tables/", remove=["public.orders"])
    confirmed(admin, "/slots/shop/mine/tables/", add=["public.orders"])
    assert published_columns(source)["orders"][0] == ["id", "status", "email"]

    again = confirmed(admin, address, **chosen, **{"column note": "keep", "column email": "mask"})
    assert any("sends public.orders.note again" in line for line in outcome_of(again).lines)
    assert published_columns(source)["orders"][0] == ["id", "status", "email", "note"]
    same = admin.get(address, {**chosen, "column email": "mask"})
    assert "these rules already apply" in why_not(page_of(same).act)


def posted(user: str, role: str, words: str, **asked: object):
    """A program's call, with the token of somebody of this role."""
    token, _ = make_token(make_user(user, role), user, scope="operate")
    return Client().post(f"/api/v1/{words}", asked, content_type="application/json",
                         headers={"Authorization": f"Bearer {token}"})  # fmt: skip


def test_programs_change_columns_and_name_only_those_that_change(slot, source) -> None:
    source.run("ALTER TABLE orders ADD email text, ADD note text")
    slot.column_rules = {"public.orders": {"email": "mask", "gone": "drop"}}
    slot.save()
    words, asked = "slots/shop/mine/columns", {"exclude": ["public.orders.note"]}

    told = posted("ada", "admin", words, **asked, dry_run=True).json()
    assert 'ADD TABLE "public"."orders" ("id", "status", "email")' in told["statements"][1]["sql"]
    assert (told["done"], published_columns(source)["orders"][0][-1]) == (False, "note")
    assert posted("bea", "admin", words, **asked).json()["done"]
    assert posted("olga", "operator", words, **asked).status_code == 403
    again = posted("cleo", "admin", words, keep=["orders.email"], mask=["orders.status"])

    assert again.json()["statements"] == [], "what is left out stays so"
    slot.refresh_from_db()
    assert slot.column_rules == {"public.orders": {"note": "drop", "status": "mask"}}
    assert published_columns(source)["orders"][0] == ["id", "status", "email"]
    record = AccessRecord.objects.filter(action="changed_slot").first()
    assert (record.details["act"], record.via) == ("columns", "api")
    for wrong, why in (
        ({"mask": ["public.orders.nothing"]}, "there is no column public.orders.nothing"),
        ({"mask": ["orders.note"], "keep": ["orders.note"]}, "is named twice"),
        ({"keep": ["orders"]}, "is not a column's name"),
        ({}, "these rules already apply"),
    ):
        refused = posted(f"eve {why}", "admin", words, **wrong, dry_run=True).json()["refused"]
        assert why in refused["cause"]


def test_columns_that_must_be_sent_are_refused_with_the_reason(
    admin, operator, slot, source
) -> None:
    source.run("CREATE PUBLICATION theirs FOR TABLE orders")

    key = plan_columns(slot, {"public.orders": {"id": "drop"}})
    slot.publications = ["mine", "theirs"]
    slot.save()
    clash = plan_columns(slot, {"public.orders": {"status": "drop"}})

    assert "is in the replica identity" in why_not(key)
    assert "UPDATE and DELETE would fail" in why_not(key)
    assert why_not(clash).startswith(
        "publication theirs, which slot mine reads too, publishes other columns"
    )
    asked = {"table": "public.orders", "show": "1", "drop": "status"}
    address = "/slots/shop/mine/columns/"
    assert why_not(page_of(admin.get(address, asked)).act) == why_not(clash)
    assert operator.get(address).status_code == 403, "values may come back to be seen"


def test_a_table_without_identity_gets_a_publication_once_the_stream_is_there(
    operator, slot, source
) -> None:
    add = {"add": ["public.audit"]}
    early = plan_tables(slot, **add)
    assert "which the slot can read only after it has received the WAL up to there" in why_not(
        early
    )

    # A receiver that is caught up stores such a row.
    Slot.objects.filter(pk=slot.pk).update(
        state="streaming", desired="running", checkpoint_lsn=LSN.parse("FFFFFF/0")
    )
    done = outcome_of(confirmed(operator, "/slots/shop/mine/tables/", **add))

    assert any(sql.startswith('CREATE PUBLICATION "mine_inserts"') for sql in done.statements)
    slot.refresh_from_db()
    assert (slot.publications, slot.epoch) == (["mine", "mine_inserts"], 1)
    source.run("INSERT INTO audit VALUES ('x')", "UPDATE audit SET what = 'y'")
    drops = sql_of(dropping.plan_drop(slot))
    assert 'DROP PUBLICATION IF EXISTS "mine_inserts"' in drops, "ours to drop from then on"


def test_publications_of_others_are_not_changed(operator, shop, source) -> None:
    source.run("CREATE PUBLICATION theirs FOR TABLE orders")
    slot = Slot.objects.create(source=shop, name="mine", publications=["theirs"])

    plan = plan_tables(slot, add=["public.customers"])
    assert why_not(plan).startswith("replview created none of the publications")
    answer = operator.get("/slots/shop/mine/tables/")
    assert page_of(answer).none_ours
    assert "not created by replview" in text_of(answer)


def test_an_idle_slot_of_others_is_adopted_and_one_in_use_is_not(operator, shop, source) -> None:
    source.run(
        "CREATE PUBLICATION theirs FOR TABLE orders",
        "SELECT pg_create_logical_replication_slot('old', 'pgoutput')",
    )
    sampled(shop)
    [old] = page_of(operator.get("/sources/shop/")).others
    assert old.adoptable
    assert "pg_drop_replication_slot" in old.drop, "to be copied"
    address = "/slots/shop/old/adopt/"
    unchosen = page_of(operator.get(address))
    assert (unchosen.publications, unchosen.act.refusal.code) == (("theirs",), "no_publications")
    words = adopting.plan_adopt(shop, "old", ["theirs"]).consequences
    assert any("No WAL budget" in sentence for sentence in words)
    chosen = text_of(operator.get(f"{address}?publication=theirs"))
    assert words[0] in chosen
    assert "--" not in chosen, "an option of a command helps nobody here"

    done = confirmed(operator, address, "old", publication=["theirs"])

    assert outcome_of(done).title == "shop/old is adopted."
    slot = Slot.objects.get(name="old")
    assert (slot.owned, slot.publications) == (False, ["theirs"])
    made_nothing = dropping.plan_drop(slot)
    assert made_nothing.statements == ()
    assert any("replview created nothing there" in words for words in made_nothing.consequences)


def test_a_slot_received_through_another_source_of_the_server_is_no_others_there(
    operator, shop, slot, source
) -> None:
    again = Source(name="again")
    set_dsn(again, source.dsn)
    again.save()
    for one in (shop, again):
        sampled(one)

    assert page_of(operator.get("/sources/again/")).others == []
    assert operator.get("/slots/again/mine/").headers["Location"] == "/slots/shop/mine/"
    adopt = page_of(operator.get("/slots/again/mine/adopt/?publication=mine"))
    assert "as shop/mine" in why_not(adopt.act)
    with pytest.raises(SourceProblem, match="as shop/mine"):
        adopting.adopt(again, "mine", ["mine"], by="bo")

    stranger = Client()
    stranger.force_login(make_user("cy", "operator", sources=[again]))
    page = spaced(stranger.get("/sources/again/").content.decode())
    own = spaced(stranger.get("/slots/again/mine/").content.decode())
    refused = text_of(stranger.get("/slots/again/mine/adopt/?publication=mine"))
    assert "pg_drop_replication_slot" not in page + own
    assert "Adopt" not in page
    assert "through another source of the same server" in refused
    assert "shop" not in re.sub(re.escape(source.name), "", page + own + refused)


def test_of_two_who_adopt_a_slot_at_once_one_does(shop, source, monkeypatch) -> None:
    source.run(
        "CREATE PUBLICATION theirs FOR TABLE orders",
        "SELECT pg_create_logical_replication_slot('old', 'pgoutput')",
    )

    def after_another(*arguments: object, **more: object) -> Slot:
        Slot.objects.create(source=shop, name="old")
        return make_slot(*arguments, **more)

    # Another adopts it after this one has looked at it.
    monkeypatch.setattr(adopting, "make_slot", after_another)

    with pytest.raises(SourceProblem, match="already has a slot"):
        adopting.adopt(shop, "old", ["theirs"], by="bo")
    assert Slot.objects.get().publications == [], "the other's is what there is"


def test_credentials_are_tried_then_sealed_and_never_shown(admin, slot, shop, source) -> None:
    sampled(shop)
    source.run("CREATE ROLE keeper LOGIN REPLICATION PASSWORD 'geheim-1'")
    try:
        Slot.objects.filter(pk=slot.pk).update(desired="running")
        before, address = shop.sealed_password, "/sources/shop/credentials/"
        wrong = admin.post(address, {"user": "keeper", "password": "geheim-2"})

        assert wrong.status_code == 422
        assert "refused the password of role keeper" in page_of(wrong).trouble.cause
        assert page_of(wrong).form["user"].value() == "keeper"
        assert "geheim" not in spaced(wrong.content.decode())
        shop.refresh_from_db()
        assert shop.sealed_password == before

        right = admin.post(address, {"user": "keeper", "password": "geheim-1"}, follow=True)

        assert outcome_of(right).title == "shop has new credentials."
        shop.refresh_from_db()
        slot.refresh_from_db()
        assert "user=keeper" in full_conninfo(shop)
        assert "geheim-1" in full_conninfo(shop)
        assert (shop.credentials_by, slot.epoch) == ("the_admin", 1)
        pages = [right, admin.get(address), admin.get("/sources/shop/"),
                 admin.get("/api/v1/sources/shop"), admin.get("/slots/shop/mine/")]  # fmt: skip
        assert not any("geheim" in spaced(page.content.decode()) for page in pages)
        told = [str(one.details) for one in AccessRecord.objects.all()]
        assert not any("geheim" in one for one in told)
        # A whole address of another database is no new credential.
        elsewhere = source.server.dsn("postgres")
        other = admin.post(address, {"dsn": elsewhere})
        assert "this is database postgres" in page_of(other).trouble.cause
    finally:
        source.run("DROP ROLE keeper")


def test_of_two_who_change_an_address_at_once_the_second_is_told(db) -> None:
    shop = Source.objects.create(name="shop", conninfo="host=old", password_ref="env:OLD_PASSWORD")
    seen = Source.objects.get(pk=shop.pk)
    take_into_use(shop, Source(conninfo="host=old", password_ref="env:NEW_PASSWORD"))

    with pytest.raises(SourceProblem, match="another user has changed the address"):
        take_into_use(seen, Source(conninfo="host=new", password_ref="env:OLD_PASSWORD"))

    shop.refresh_from_db()
    assert (shop.conninfo, shop.password_ref) == ("host=old", "env:NEW_PASSWORD")


def test_a_move_within_the_cluster_goes_on(admin, slot, shop, source) -> None:
    sampled(shop)
    Slot.objects.filter(pk=slot.pk).update(desired="running")
    elsewhere = source.dsn.replace("127.0.0.1", "localhost")
    tried = admin.post("/sources/shop/move/", {"dsn": elsewhere, "action": "try"}, follow=True)
    page = page_of(tried)
    assert (page.move.kind, page.act.typed) == ("same", ""), "nothing is destroyed"
    assert [one.word for one in page.move.outcomes] == ["goes on"]
    text = text_of(tried)
    assert "The new address leads to the same cluster." in text
    assert "continues where its record ends" in text
    assert "Type" not in text
    assert source.server.password not in spaced(tried.content.decode())

    done = confirmed(admin, "/sources/shop/move/", action="move")

    assert outcome_of(done).title == "shop is read at its new address."
    shop.refresh_from_db()
    slot.refresh_from_db()
    assert ("host=localhost" in shop.conninfo, slot.epoch) == (True, 1)


def test_a_program_that_moves_a_source_has_its_address_tried_once(
    slot, shop, source, monkeypatch
) -> None:
    sampled(shop)
    elsewhere, tried = source.dsn.replace("127.0.0.1", "localhost"), []

    def counted(conninfo: str, **more: object):
        tried.append(more)
        return try_address(conninfo, **more)

    monkeypatch.setattr(moving, "try_address", counted)
    assert posted("ada", "admin", "sources/shop/move", dsn=elsewhere).json()["done"]

    shop.refresh_from_db()
    assert ("host=localhost" in shop.conninfo, len(tried)) == (True, 1)


def test_a_slot_whose_source_cannot_be_reached_is_not_stopped_by_dropping_it(slot, shop) -> None:
    Slot.objects.filter(pk=slot.pk).update(desired="running")
    for away in ({"password_ref": "env:NOT_THERE"}, {"conninfo": "host=127.0.0.1 port=1"}):
        Source.objects.filter(pk=shop.pk).update(**away, sealed_password="")
        slot = Slot.objects.get(pk=slot.pk)

        with pytest.raises((DSNError, SourceProblem)):
            dropping.drop_slot(slot, by="bo")

        slot.refresh_from_db()
        assert slot.desired == "running", away


def test_a_source_on_which_a_slot_is_being_made_is_not_forgotten(admin, shop) -> None:
    intention = intentions.begin(shop, "half", None)
    assert plan_remove(shop).refusal is None, "nothing was begun"
    undo = "SELECT pg_drop_replication_slot('half')"
    intentions.add(intention, "slot", "half", "SELECT 1", undo)

    answer = admin.get("/sources/shop/remove/")
    page = page_of(answer)
    assert (page.act.refusal.code, page.leave, page.slots) == ("being_made", False, ())
    assert "half is being created on shop, or a process ended while it created it" in why_not(
        page.act
    )
    assert 'href="?leave=on"' in spaced(answer.content.decode())
    with pytest.raises(SourceProblem, match="is being created"):
        remove_source(shop, by="bo", with_slots=True)

    left = page_of(admin.get("/sources/shop/remove/?leave=on"))
    assert left.leave
    assert f"Run this there yourself: {undo}" in " ".join(left.act.consequences)
    done = outcome_of(confirmed(admin, "/sources/shop/remove/", "shop", leave="on"))
    assert done.title == "shop was removed."
    assert not Source.objects.exists()


def test_a_move_to_another_cluster_says_what_begins_anew(
    admin, slot, shop, source, source_cluster_16
) -> None:
    sampled(shop)
    elsewhere = source_cluster_16.dsn("postgres")

    page = admin.post("/sources/shop/move/", {"dsn": elsewhere, "action": "try"}, follow=True)

    move = page_of(page).move
    assert (move.kind, [one.word for one in move.outcomes]) == ("other", ["missing"])
    assert "The server has no slot mine" in move.outcomes[0].sentence
    assert "The new address leads to another cluster." in text_of(page)
    assert confirmed(admin, "/sources/shop/move/", "no", action="move").status_code == 422
    with connect(elsewhere, read_only=False) as there:
        there.execute("SELECT pg_create_logical_replication_slot('mine', 'pgoutput')")
        sent = {"action": "move", "typed": "shop", "shown": page_of(page).shown}
        late = admin.post("/sources/shop/move/", sent)
        there.execute("SELECT pg_drop_replication_slot('mine')")
    assert page_of(late).trouble.code == "changed", "it has the slot by now"
    done = outcome_of(confirmed(admin, "/sources/shop/move/", "shop", action="move"))
    assert ("Create mine there", "/slots/shop/mine/start/") in done.links
    shop.refresh_from_db()
    assert shop.server_version // 10000 == 16


def test_a_source_is_renamed_and_saved_filters_follow(admin, shop) -> None:
    Slot.objects.create(source=shop, name="mine")
    user = make_user("bo", "viewer")
    SavedFilter.objects.create(
        user=user, page="transactions", name="x", query="slot=shop/mine&actor=a"
    )

    done = admin.post("/sources/shop/rename/", {"name": "store 2"}, follow=True)

    assert outcome_of(done).title == "shop is now named store 2."
    assert SavedFilter.objects.get().query == "slot=store%202/mine&actor=a"
    assert admin.get("/sources/store%202/").status_code == 200
    refused = admin.post("/sources/store%202/rename/", {"name": "a/b"})
    assert refused.status_code == 422
    page = page_of(refused)
    assert (page.form["name"].value(), page.source.name) == ("a/b", "store 2")
    assert 'aria-invalid="true" aria-describedby="id_name_error"' in refused.text
    assert "Rename store 2." in text_of(admin.get("/sources/store%202/rename/"))


def test_a_source_goes_with_its_slots(admin, slot, shop, source) -> None:
    answer = admin.get("/sources/shop/remove/")
    page = page_of(answer)
    assert (page.slots, page.act.typed) == ((slot,), "shop")
    assert "SELECT pg_drop_replication_slot('mine')" in sql_of(page.act)
    assert "Its slots are removed too" in text_of(answer)

    done = outcome_of(confirmed(admin, "/sources/shop/remove/", "shop"))

    assert done.title == "shop was removed."
    assert left_on(source) == (set(), set())
    [listed] = read_fleet().slots
    assert "is being removed" in listed.health.title + listed.health.cause
    remove_slots(float("inf"))
    assert not Source.objects.exists()
    acts = AccessRecord.objects.filter(action="changed_source").values_list("details", flat=True)
    assert [one["act"] for one in acts] == ["remove"]


def test_the_page_of_a_source_lists_publications_and_what_was_done(operator, slot, source) -> None:
    source.run("CREATE PUBLICATION theirs FOR TABLE customers WITH (publish = 'insert')")
    confirmed(operator, "/slots/shop/mine/start/")

    mine, theirs = read_publications_page(slot.source).views
    assert (mine.publication.name, mine.ours, mine.read_by) == ("mine", True, ("mine",))
    assert (theirs.publication.name, theirs.ours, theirs.read_by) == ("theirs", False, ())
    assert (theirs.operations, theirs.named) == ("I", ["public.customers"])

    page = text_of(operator.get("/sources/shop/"))
    publications = text_of(operator.get("/sources/shop/publications/"))
    assert re.search(r"the_operator\s+started\s+shop/mine", page)
    assert "theirs others'" in publications
    assert "mine ours" in publications


def test_publications_that_cannot_be_read_are_told_with_the_cause(operator, shop) -> None:
    Source.objects.update(conninfo="host=127.0.0.1 port=1 dbname=x")

    answer = operator.get("/sources/shop/publications/")

    page = page_of(answer)
    assert (page.views, page.trouble.code) == ((), "unreachable")
    assert "Cannot read the publications of shop." in text_of(answer)


def test_the_list_of_sources_is_headed_by_the_worst(operator, admin, slot, shop) -> None:
    sampled(shop)
    page = list_sources(read_fleet())
    [cluster] = page.clusters
    [server] = cluster.servers
    [view] = server.sources
    assert (view.source, [one.slot for one in view.slots]) == (shop, [slot])
    assert (page.level, page.next_step, page.feeds) == (view.level, "", {})
    assert page.title.startswith("1 source")
    assert page.title in text_of(admin.get("/sources/"))


def test_without_a_source_the_list_says_what_to_do(operator, admin) -> None:
    page = list_sources(read_fleet())

    assert (page.level, page.title, page.next_step) == ("idle", "No sources yet.", "add one.")
    assert page.clusters == []
    assert 'href="/sources/new/"' in spaced(admin.get("/sources/").content.decode())
    assert 'href="/sources/new/"' not in spaced(operator.get("/sources/").content.decode())


def test_names_of_a_source_are_escaped_where_acts_are_shown(admin, operator, slot, source) -> None:
    evil = "<b>x<b>"
    source.run(f'CREATE TABLE "{evil}" ("{evil}" int PRIMARY KEY)',
               f'CREATE PUBLICATION "{evil}" FOR TABLE "{evil}"',
               f'ALTER PUBLICATION mine ADD TABLE "{evil}"',
               "SELECT pg_create_logical_replication_slot('old', 'pgoutput')")  # fmt: skip
    sampled(slot.source)
    Source.objects.update(name=evil)
    of_source, of_slot = f"/sources/{evil}/", f"/slots/{evil}/mine/"
    addresses = [
        "/sources/", of_source, f"{of_source}publications/", f"/slots/{evil}/old/adopt/",
        *(f"{of_source}{act}/" for act in ("credentials", "move", "rename", "remove")),
        *(f"{of_slot}{act}/" for act in ("start", "stop", "drop", "tables", "columns")),
    ]  # fmt: skip

    for address in addresses:
        answer = admin.get(address)
        page = answer.content.decode()
        assert (answer.status_code, escape(evil) in page, evil in page) == (200, True, False), (
            address
        )
    table = page_of(admin.get(f"{of_slot}tables/")).choices.inside[0].name
    assert evil in table
    for asked in ({}, {"show": "1", "mask": evil}):
        answer = admin.get(f"{of_slot}columns/", {"table": table, **asked})
        page = answer.content.decode()
        assert (answer.status_code, escape(evil) in page, evil in page) == (200, True, False)
    done = confirmed(operator, f"{of_slot}tables/", remove=[table])
    assert evil not in done.content.decode()


@pytest.mark.parametrize("act", ["credentials", "move", "rename", "remove"])
def test_an_operator_does_not_change_a_source(operator, shop, act) -> None:
    assert operator.get(f"/sources/shop/{act}/").status_code == 403
    assert operator.post(f"/sources/shop/{act}/", {"name": "x"}).status_code == 403
    assert f"/sources/shop/{act}/" not in spaced(operator.get("/sources/shop/").content.decode())


def test_a_viewer_sees_and_does_nothing(shop) -> None:
    Slot.objects.create(source=shop, name="mine")
    viewer = signed_in_as("viewer")

    page = spaced(viewer.get("/sources/shop/").content.decode())

    assert "/slots/shop/mine/stop/" not in page
    assert viewer.post("/slots/shop/mine/stop/").status_code == 403
    assert viewer.post("/api/v1/slots/shop/mine/stop").status_code == 403


def test_programs_manage_with_a_token_that_may(shop) -> None:
    slot = Slot.objects.create(source=shop, name="mine")
    user = make_user("robot", "operator")
    client = Client(enforce_csrf_checks=True)
    may, _ = make_token(user, "may", scope="operate")
    may_not, _ = make_token(user, "may not", scope="read")

    def post(token: str, words: str, **asked: object):
        return client.post(f"/api/v1/{words}", asked, content_type="application/json",
                           headers={"Authorization": f"Bearer {token}"})  # fmt: skip

    assert post(may_not, "slots/shop/mine/stop").status_code == 403
    told = post(may, "slots/shop/mine/stop", dry_run=True).json()
    assert (told["done"], told["statements"], told["refused"]) == (False, [], None)
    slot.refresh_from_db()
    assert slot.desired == "running"
    assert post(may, "slots/shop/mine/stop").json()["done"]
    assert post(may, "slots/shop/mine/stop").json()["error"] == "slot shop/mine is already stopped"
    missing = post(may, "slots/shop/mine/drop", record="delete")
    assert (missing.status_code, missing.json()["remedy"]) == (
        400, "Type mine to confirm; nothing was changed"
    )  # fmt: skip
    assert post(may, "sources/shop/rename", name="x").status_code == 403
    assert AccessRecord.objects.get(action="changed_slot").via == "api"


def test_a_browser_session_needs_its_csrf_token_for_the_api(shop) -> None:
    slot = Slot.objects.create(source=shop, name="mine")
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("olga", "operator"))

    forged = client.post("/api/v1/slots/shop/mine/stop")

    assert forged.status_code in (401, 403)
    slot.refresh_from_db()
    assert slot.desired == "running"
    client.get("/slots/shop/mine/stop/")
    token = client.cookies["csrftoken"].value
    answer = client.post("/api/v1/slots/shop/mine/stop", {}, content_type="application/json",
                         headers={"X-CSRFToken": token})  # fmt: skip
    assert answer.json()["done"]


def test_who_sees_one_table_takes_no_other_along(shop, slot, source) -> None:
    client = Client()
    user = make_user("one_table", "operator", sources=[shop], tables=["public.customers"])
    client.force_login(user)
    token, _ = make_token(user, "x", scope="operate")
    refused = client.get("/slots/shop/mine/tables/", {"remove": ["public.orders"]})
    assert "You have no right on public.orders" in text_of(refused)
    for record in ("keep", "delete"):
        page = client.get("/slots/shop/mine/drop/", {"record": record})
        assert page.status_code == 403
        assert "affects tables that you have no right on" in text_of(page)
        asked = {"confirm": "mine", "record": record}
        dropped = client.post("/api/v1/slots/shop/mine/drop", asked, "application/json",
                              headers={"Authorization": f"Bearer {token}"})  # fmt: skip
        assert dropped.status_code == 403
    assert left_on(source) == ({"mine"}, {"mine"})
    WatchedSlot.objects.create(pk=1, source=shop, name="other", plugin="pgoutput")
    headers = {"Authorization": f"Bearer {token}"}
    for refused in (
        client.get("/slots/shop/other/adopt/"),
        client.post("/api/v1/slots/shop/other/adopt", {"publications": ["mine"]},
                    "application/json", headers=headers),
        client.post("/slots/shop/mine/budget/", {"wal_budget": "1MB", "protect": "database"}),
    ):  # fmt: skip
        assert refused.status_code == 403
        assert "affects tables that you have no right on" in refused.text
    confirmed(client, "/slots/shop/mine/tables/", add=["public.customers"])
    with source.connect() as connection:
        published = connection.execute("SELECT tablename FROM pg_publication_tables").fetchall()
    assert sorted(published) == [("customers",), ("orders",)]

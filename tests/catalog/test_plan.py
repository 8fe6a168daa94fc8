"""A plan for a new slot has every statement and refusal, and leaves nothing half-done behind."""

import threading

import psycopg
import pytest

from replview.catalog.connections import connect
from replview.catalog.naming import table_parts
from replview.catalog.plan.carrying_out import carry_out, undo
from replview.catalog.plan.new_slot import SlotPlan, make_plan
from replview.catalog.plan.slot_request import SlotRequest, parse_columns
from replview.catalog.problems import SourceProblem
from replview.text.parsing import table_text
from tests.support.source_traces import left_on


def plan_for(source, name: str = "shop", **request) -> SlotPlan:
    with connect(source.dsn) as connection:
        return make_plan(connection, SlotRequest(slot_name=name, **request))


def refusal(source, name: str = "shop", **request) -> str:
    with pytest.raises(SourceProblem) as caught:
        plan_for(source, name, **request)
    return caught.value.code


def test_tables_without_identity_get_a_publication_of_their_own(any_shop) -> None:
    plan = plan_for(any_shop)

    version = any_shop.version
    events, whole = '"public"."events"', '"public"."whole"'
    if version < 13:
        # A partitioned table cannot be published: its partitions are.
        events = '"public"."events_2026"'
    else:
        whole += " WITH (publish_via_partition_root = true)"
    plain = version == 14  # pgoutput sends prepared transactions from 15 on
    two_phase = "" if version < 14 else ", false" if plain else ", true"
    assert [str(step) for step in plan.statements] == [
        f'CREATE PUBLICATION "shop" FOR TABLE "public"."by_index", {events}, '
        f'"public"."orders", {whole}',
        'CREATE PUBLICATION "shop_inserts" FOR TABLE "public"."audit", "public"."silent" '
        "WITH (publish = 'insert, truncate')",
        f"SELECT pg_create_logical_replication_slot('shop', 'pgoutput', false{two_phase})",
    ]
    assert plan.publications == ("shop", "shop_inserts")
    assert plan.two_phase == (version >= 15)
    assert all(step.needs and step.costs for step in plan.statements)


def test_carried_out_no_update_of_the_application_fails(any_shop) -> None:
    carry_out(any_shop.dsn, plan_for(any_shop), print)

    any_shop.run(
        "INSERT INTO audit VALUES (now(), 'x')",
        "UPDATE audit SET what = 'y'",
        "INSERT INTO silent VALUES (1)",
        "DELETE FROM silent",
        "INSERT INTO events VALUES ('2026-02-02', 1)",
        "UPDATE events SET id = 2",
        "INSERT INTO whole VALUES (1, 'a')",
        "UPDATE whole SET b = 'b'",
    )
    assert left_on(any_shop) == ({"shop", "shop_inserts"}, {"shop"})


def test_undo_takes_everything_back(shop) -> None:
    done = carry_out(shop.dsn, plan_for(shop), print)

    undo(shop.dsn, done, print)

    assert left_on(shop) == (set(), set())


def test_a_failing_slot_leaves_no_publication_behind(shop) -> None:
    plan = plan_for(shop)
    shop.run("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")

    with pytest.raises(SourceProblem, match="already exists"):
        carry_out(shop.dsn, plan, print)

    assert left_on(shop) == (set(), {"shop"})


def test_waiting_for_an_open_transaction_is_told_and_can_be_stopped(shop, monkeypatch) -> None:
    monkeypatch.setattr("replview.catalog.plan.carrying_out.PROGRESS_SECONDS", 0.2)
    # The wait for a transaction may exceed the timeout for a lock.
    monkeypatch.setattr("replview.catalog.connections.LOCK_TIMEOUT_MS", 50)
    stop = threading.Event()
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if "waits for" in line:
            stop.set()

    with shop.connect() as writer:
        writer.execute("BEGIN; INSERT INTO orders VALUES (1)")
        plan = plan_for(shop)
        pid = writer.info.backend_pid
        assert [item.pid for item in plan.waits_for] == [pid]
        with pytest.raises(SourceProblem, match="stopped"):
            carry_out(shop.dsn, plan, say, stop=stop)
        assert left_on(shop) == (set(), set())

    assert f"process {pid} " in said[0]


def test_a_role_without_rights_is_refused_before_anything_is_made(shop, make_role) -> None:
    dsn = make_role("helper", "REPLICATION")
    with connect(dsn) as connection, pytest.raises(SourceProblem) as caught:
        make_plan(connection, SlotRequest(slot_name="shop"))
    assert caught.value.code == "may_not_publish"

    shop.run(f'GRANT CREATE ON DATABASE "{shop.name}" TO helper')
    with connect(dsn) as connection, pytest.raises(SourceProblem) as caught:
        make_plan(connection, SlotRequest(slot_name="shop"))
    assert caught.value.code == "not_owner"


def test_a_role_that_may_publish_but_not_replicate_leaves_nothing(shop, make_role) -> None:
    dsn = make_role("owner_only")
    shop.run(
        f'GRANT CREATE ON DATABASE "{shop.name}" TO owner_only',
        "ALTER TABLE orders OWNER TO owner_only",
    )
    with connect(dsn) as connection:
        plan = make_plan(connection, SlotRequest(slot_name="shop", tables=("orders",)))

    with pytest.raises(SourceProblem) as caught:
        carry_out(dsn, plan, print)

    assert caught.value.code == "missing_right"
    assert left_on(shop) == (set(), set())


@pytest.mark.parametrize("name", ["x" * 64, "Shop", "a-b", "", "naïve", "a; DROP TABLE orders"])
def test_names_the_server_would_cut_or_refuse(shop, name) -> None:
    assert refusal(shop, name) == "bad_slot_name"


def test_a_name_too_long_for_its_publication(shop) -> None:
    assert refusal(shop, "x" * 60) == "bad_publication_name"


def test_all_tables_is_refused_while_it_would_break_updates(shop) -> None:
    assert refusal(shop, all_tables=True) == "unusable_tables"

    shop.run("DROP TABLE audit, silent")

    plan = plan_for(shop, all_tables=True)
    assert str(plan.statements[0]).startswith('CREATE PUBLICATION "shop" FOR ALL TABLES')
    shop.run("CREATE TABLE late (at timestamptz)")
    assert refusal(shop, all_tables=True, breaking=frozenset({"public.early"})) == "unusable_tables"
    agreed = plan_for(shop, all_tables=True, breaking=frozenset({"public.late"}))
    assert "UPDATE and DELETE fail" in agreed.notes[0].text
    carry_out(shop.dsn, plan, print)


def test_chosen_tables_and_schemas(shop) -> None:
    shop.run('CREATE SCHEMA other CREATE TABLE "Odd ""name" (id int PRIMARY KEY)')

    assert str(plan_for(shop, tables=("orders",)).statements[0]) == (
        'CREATE PUBLICATION "shop" FOR TABLE "public"."orders"'
    )
    plan = plan_for(shop, schemas=("other",))
    assert str(plan.statements[0]) == 'CREATE PUBLICATION "shop" FOR TABLE "other"."Odd ""name"'
    carry_out(shop.dsn, plan, print)
    assert refusal(shop, "other_name", tables=("nowhere.t",)) == "no_such_table"
    assert refusal(shop, "other_name", schemas=("nowhere",)) == "no_such_schema"


def test_a_name_with_a_dot_is_told_apart(shop) -> None:
    shop.run(
        'CREATE SCHEMA "a.b" CREATE TABLE c (id int PRIMARY KEY, x text)',
        'CREATE SCHEMA a CREATE TABLE "b.c" (id int PRIMARY KEY)',
    )
    names = {'"a.b".c': ("a.b", "c"), 'a."b.c"': ("a", "b.c"), "a.b.c": ("a", "b.c")}
    assert {text: table_parts(text) for text in names} == names
    assert table_text("a.b", "c") == '"a.b".c'

    both = plan_for(shop, tables=('"a.b".c', 'a."b.c"'), exclude=parse_columns(['"a.b".c.x']))

    columns = ' ("id")' if shop.version >= 15 else ""
    assert str(both.statements[0]).endswith(f'TABLE "a.b"."c"{columns}, "a"."b.c"')


def test_one_unusable_partition_makes_the_whole_insert_only(shop) -> None:
    shop.run("ALTER TABLE events_2026 REPLICA IDENTITY NOTHING")
    plan = plan_for(shop, tables=("events",))

    assert plan.publications == ("shop_inserts",)
    carry_out(shop.dsn, plan, print)
    shop.run("INSERT INTO events VALUES ('2026-02-02', 1)", "UPDATE events SET id = 2")


def test_an_existing_slot_needs_adopt_and_keeps_what_it_is(shop) -> None:
    shop.run("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
    assert refusal(shop) == "slot_exists"

    plan = plan_for(shop, adopt=True, tables=("orders",))

    assert not plan.owned
    assert not plan.two_phase
    assert [step.kind for step in plan.statements] == ["publication"]
    assert refusal(shop, "not_there", adopt=True) == "no_such_slot"


def test_existing_publications_are_used_as_they_are(shop) -> None:
    shop.run("CREATE PUBLICATION mine FOR TABLE orders")

    plan = plan_for(shop, publications=("mine",))

    assert plan.publications == ("mine",)
    assert plan.made_publications == ()
    assert refusal(shop, publications=("theirs",)) == "no_such_publication"
    assert refusal(shop, "mine") == "publication_exists"


def test_excluded_columns_become_a_column_list(any_shop) -> None:
    any_shop.run("ALTER TABLE orders ADD twice int GENERATED ALWAYS AS (id * 2) STORED")
    exclude = parse_columns(["orders.note", "public.audit.what"])
    mask = parse_columns(["orders.id"])

    computed = ', "twice"' if any_shop.server.version >= 18 else ""
    if any_shop.server.version >= 18:
        # Computed when it is read: no publication takes it.
        any_shop.run("ALTER TABLE orders ADD thrice int GENERATED ALWAYS AS (id * 3) VIRTUAL")

    plan = plan_for(any_shop, tables=("orders", "audit"), exclude=exclude, mask=mask)

    listed = any_shop.version >= 15
    orders = f'"public"."orders" ("id", "status"{computed})' if listed else '"public"."orders"'
    audit = '"public"."audit" ("at")' if listed else '"public"."audit" WITH'
    assert orders in str(plan.statements[0])
    assert audit in str(plan.statements[1])
    assert plan.column_rules == {
        "public.orders": {"id": "mask", "note": "drop"},
        "public.audit": {"what": "drop"},
    }
    carry_out(any_shop.dsn, plan, print)
    any_shop.run("INSERT INTO orders VALUES (1)", "UPDATE orders SET note = 'x'")


def test_identity_columns_cannot_be_excluded(shop) -> None:
    for column in ("orders.id", "whole.b", "by_index.code"):
        assert refusal(shop, exclude=parse_columns([column])) == "identity_column"
    whole = {"exclude": parse_columns(["silent.id"]), "tables": ("silent",)}
    assert refusal(shop, **whole) == "no_columns"
    shop.run("ALTER TABLE silent ADD note text")
    plan_for(shop, **whole)
    assert refusal(shop, exclude=parse_columns(["orders.nothing"])) == "no_such_column"
    assert refusal(shop, mask=parse_columns(["nothing.a"])) == "no_such_column"


def test_without_prepared_transactions_the_slot_is_a_plain_one(shop) -> None:
    plan = plan_for(shop, two_phase=False)
    assert str(plan.statements[-1]).endswith("false, false)" if shop.version >= 14 else "false)")
    assert not plan.two_phase


def test_a_watch_plans_no_slot(shop) -> None:
    plan = plan_for(shop, temporary=True, tables=("orders",))
    assert [step.kind for step in plan.statements] == ["publication"]


def test_an_empty_database_has_nothing_to_publish(source) -> None:
    assert refusal(source) == "no_tables"
    with pytest.raises(psycopg.errors.UndefinedObject):
        source.run("DROP PUBLICATION shop")

"""Looks at the source record what the publications publish."""

import pytest

from replview.acts.publications import look_at_publications
from replview.store.dsn import set_dsn
from replview.store.models import PublicationLook, Slot, Source

pytestmark = pytest.mark.django_db


@pytest.fixture
def slot(any_source) -> Slot:
    any_source.run(
        "CREATE TABLE orders (id int PRIMARY KEY, status text, card text)",
        "CREATE TABLE audit_log (n int)",
        "CREATE TABLE sums (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED)",
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.carts (id int PRIMARY KEY)",
        "CREATE TABLE parts (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
    )
    source = Source(name="known")
    set_dsn(source, any_source.dsn)
    source.save()
    return Slot.objects.create(source=source, name="here", publications=["p"])


def look(slot: Slot) -> tuple[dict, dict]:
    """The facts as last seen, and its tables by name."""
    look_at_publications(slot.source)
    facts = PublicationLook.objects.filter(slot=slot).latest("last_seen_at").facts
    return facts, {f"{t['schema']}.{t['table']}": t for t in facts["tables"]}


@pytest.mark.pg(15)
def test_column_lists_and_row_filters_are_told(slot: Slot, any_source) -> None:
    any_source.run(
        "CREATE PUBLICATION p FOR TABLE orders (id, status) WHERE (id > 7), sums "
        "WITH (publish = 'insert')"
    )
    facts, tables = look(slot)

    orders = tables["public.orders"]
    assert orders["columns"] == ["id", "status"]
    assert orders["unpublished_columns"] == ["card"]
    assert orders["row_filter"] == "(id > 7)"
    assert orders["operations"] == "I"
    assert orders["primary_key"] == ["id"]
    assert "public.audit_log" in facts["unpublished"]
    assert "public.orders" not in facts["unpublished"]
    assert facts["publications"][0]["update"] is False


def test_computed_columns_are_told_as_not_published(slot: Slot, any_source) -> None:
    any_source.run("CREATE PUBLICATION p FOR ALL TABLES")
    _, tables = look(slot)

    assert tables["public.sums"]["unpublished_columns"] == ["b"]
    assert tables["public.orders"]["columns"] is None


def test_computed_columns_can_be_published_on_18(slot: Slot, any_source) -> None:
    if any_source.server.version < 18:
        pytest.skip("18 and later")
    any_source.run("CREATE PUBLICATION p FOR TABLE sums WITH (publish_generated_columns = stored)")
    _, tables = look(slot)

    assert tables["public.sums"]["unpublished_columns"] == []


@pytest.mark.pg(15)
def test_all_tables_and_whole_schemas(slot: Slot, any_source) -> None:
    any_source.run("CREATE PUBLICATION p FOR TABLES IN SCHEMA shop")
    _, tables = look(slot)
    assert list(tables) == ["shop.carts"]
    assert tables["shop.carts"]["operations"] == "IUDT"

    any_source.run("DROP PUBLICATION p", "CREATE PUBLICATION p FOR ALL TABLES")
    facts, tables = look(slot)
    assert "public.audit_log" in tables
    assert facts["unpublished"] == []
    assert facts["publications"][0]["all_tables"] is True


@pytest.mark.pg(13)
def test_partitions_are_told_with_their_root_or_by_it(slot: Slot, any_source) -> None:
    any_source.run("CREATE PUBLICATION p FOR TABLE parts")
    facts, tables = look(slot)
    assert tables["public.parts_1"]["root"] == "public.parts"
    assert "public.parts" not in tables
    assert "public.parts" not in facts["unpublished"]

    any_source.run("ALTER PUBLICATION p SET (publish_via_partition_root = true)")
    facts, tables = look(slot)
    assert list(tables) == ["public.parts"]
    assert "public.parts_1" not in facts["unpublished"]


@pytest.mark.pg(15)
def test_several_publications_publish_together(slot: Slot, any_source) -> None:
    Slot.objects.filter(pk=slot.pk).update(publications=["p", "q"])
    any_source.run(
        "CREATE PUBLICATION p FOR TABLE orders WHERE (id > 7) WITH (publish = 'insert')",
        "CREATE PUBLICATION q FOR TABLE orders WHERE (id < 3) WITH (publish = 'insert, delete')",
        "CREATE PUBLICATION r FOR TABLE audit_log",
    )
    _, tables = look(slot)

    assert tables["public.orders"]["operations"] == "ID"
    assert tables["public.orders"]["row_filter"] == "((id > 7)) OR ((id < 3))"
    assert "public.audit_log" not in tables


def test_a_new_row_begins_only_where_something_differs(slot: Slot, any_source) -> None:
    any_source.run("CREATE PUBLICATION p FOR TABLE orders")
    look(slot)
    look(slot)
    [only] = PublicationLook.objects.filter(slot=slot)
    assert only.last_seen_at > only.first_seen_at

    any_source.run("ALTER PUBLICATION p ADD TABLE audit_log")
    look(slot)
    assert PublicationLook.objects.filter(slot=slot).count() == 2


def test_a_source_that_is_away_tells_nothing(slot: Slot) -> None:
    Source.objects.filter(pk=slot.source_id).update(
        conninfo="host=127.0.0.1 port=1 dbname=x user=u", sealed_password=""
    )
    assert look_at_publications(Source.objects.get(pk=slot.source_id)) == 0
    assert not PublicationLook.objects.exists()

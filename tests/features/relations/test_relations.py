"""The relations page and a table's schema history, over rows written as a receiver writes them."""

import datetime as dt

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from replview.features.relations.history_page import read_schema_page
from replview.features.relations.page import (
    SORTS,
    RelationsPage,
    RelationsQuery,
    TableRow,
    read_relations_page,
    wanted_of,
)
from replview.store.models import (
    ActivityMark,
    HistoryBlock,
    PublicationLook,
    Relation,
    RelationActivity,
    RelationVersion,
    Slot,
)
from replview.store.write.partitions import ensure_partitions
from tests.support.history_rows import History, insert
from tests.support.page_elements import elements, spaced

LIST = "/relations/?slot=shop/replview"


def text_of(response) -> str:
    assert response.status_code == 200, response
    return response.content.decode()


@pytest.fixture
def history(db) -> History:
    """``public.orders`` with three inserts, and a table that nobody can audit."""
    today = timezone.now().date()
    connection.ensure_connection()
    ensure_partitions(connection.connection, today - dt.timedelta(days=1), today)
    made = History()
    made.commit(insert(1), insert(2), commit_time=timezone.now())
    made.commit(insert(3), commit_time=timezone.now(), actor="alice", actor_grade="claimed")
    log = made.table("log", 16999, ["at", "what"])
    RelationVersion.objects.filter(pk=log.pk).update(key_columns=[])
    Relation.objects.update(current_version=None)
    for version in (made.orders, log):
        Relation.objects.filter(pk=version.relation_id).update(current_version=version)
    return made


def look(slot: Slot, *tables: dict) -> None:
    """The publications, looked at just now."""
    known = {"schema": "public", "oid": None, "columns": None, "unpublished_columns": [],
             "row_filter": None, "operations": "IUDT", "replica_identity": "DEFAULT",
             "primary_key": ["id"], "root": None}  # fmt: skip
    facts = {"publications": [], "tables": [known | table for table in tables], "unpublished": []}
    now = timezone.now()
    PublicationLook.objects.create(
        slot=slot, first_seen_at=now, last_seen_at=now, digest="1", facts=facts
    )


def listed(history: History, query: RelationsQuery | None = None) -> RelationsPage:
    return read_relations_page(history.slot, query or RelationsQuery())


def names(page: RelationsPage) -> list[str]:
    return [row.name for row in page.rows]


def row_named(page: RelationsPage, name: str) -> TableRow:
    [row] = (row for row in page.rows if row.name == name)
    return row


def test_every_table_with_its_last_change(history: History) -> None:
    page = listed(history)

    assert (page.all_tables, page.found, names(page)) == (2, 2, ["public.orders", "public.log"])
    assert page.newest is not None
    assert page.newest.name == "public.orders"
    orders, log = page.rows
    # History counts one insert a transaction, however many there are.
    assert (orders.sum.changes, orders.sum.transactions, orders.last is not None) == (2, 2, True)
    assert orders.spark is not None
    assert (log.sum.changes, log.last) == (0, None)


def test_the_list_is_rendered(signed_in: Client, history: History) -> None:
    page = spaced(text_of(signed_in.get(LIST)))

    assert "2 tables, last changed: public.orders" in page
    assert "public.</span>orders" in page
    assert "public.</span>log" in page
    assert "never since recording began" in page
    assert 'class="spark rate-spark"' in page
    assert "1 cannot be audited: public.log" in page
    assert "DEFAULT, no key" in page
    assert "its rows cannot be identified" in page


def test_a_table_that_cannot_be_audited_is_told(history: History) -> None:
    page = listed(history)

    assert [row.name for row in page.grave] == ["public.log"]
    identity = row_named(page, "public.log").identity
    assert identity is not None
    assert identity.now == "DEFAULT, without a primary key"
    [warning] = identity.warnings
    assert (warning.level, warning.word) == ("look", "DEFAULT, no key")
    assert "its rows cannot be identified" in warning.why
    assert row_named(page, "public.orders").warnings == ()


def test_only_those_with_warnings(history: History) -> None:
    page = listed(history, RelationsQuery(warnings=True))

    assert names(page) == ["public.log"]
    assert (page.found, page.all_tables) == (1, 2)


def test_search_by_name(signed_in: Client, history: History) -> None:
    assert names(listed(history, RelationsQuery(q="ORD"))) == ["public.orders"]
    assert names(listed(history, RelationsQuery(q="nothing"))) == []
    page = spaced(text_of(signed_in.get(f"{LIST}&q=nothing")))
    assert "No table matches" in page
    assert "0 of 2 tables" in page


@pytest.mark.parametrize(
    ("sort", "first"), [("name", "log"), ("last", "orders"), ("changes", "orders")]
)
def test_sorting(history: History, sort: str, first: str) -> None:
    page = listed(history, RelationsQuery(sort=sort))

    assert [row.table for row in page.rows] == sorted(["log", "orders"], key=first.__ne__)
    assert [(word, chosen) for word, _, chosen in page.sorts if chosen] == [(SORTS[sort], True)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", RelationsQuery()),
        ("q=ORD&with=warnings", RelationsQuery(q="ORD", warnings=True)),
        ("sort=changes&range=7d", RelationsQuery(sort="changes", range="7d")),
        ("sort=%00&range=x&with=y", RelationsQuery()),
    ],
)
def test_what_an_address_asks_for(rf: RequestFactory, query: str, expected: object) -> None:
    assert wanted_of(rf.get(f"/relations/?{query}")) == expected


def test_the_table_that_took_a_name_last_has_it_now(signed_in: Client, history: History) -> None:
    later = history.table("orders", 17001, ["id"])
    for version, hours in ((history.orders, 1), (later, 2)):
        version.intervals = [{"at": (timezone.now() - dt.timedelta(hours=hours)).isoformat()}]
        version.save()
        Relation.objects.filter(pk=version.relation_id).update(current_version=version)
    listed = elements(text_of(signed_in.get(LIST)))
    former = listed.one("tr", "former").one("td", "col-table")

    assert former.text == "public.orders earlier oid"
    assert former.one("a").attributes["href"] == f"/relations/{later.relation_id}/"


def test_published_tables_that_never_changed(signed_in: Client, history: History) -> None:
    look(history.slot, {"table": "orders", "oid": 16384}, {"table": "quiet", "oid": 5},
         {"table": "events_2026", "oid": 6, "root": "public.events"})  # fmt: skip
    page = listed(history)

    quiet = row_named(page, "public.quiet")
    assert (quiet.relation_id, quiet.version, quiet.root) == (None, None, "")
    assert row_named(page, "public.events_2026").root == "public.events"
    assert row_named(page, "public.log").standing == "not on the source now"
    assert row_named(page, "public.orders").standing == ""

    rendered = text_of(signed_in.get(LIST))
    for expected in ("unknown until a change", "partition of", "not on the source now"):
        assert expected in rendered


def test_what_the_sums_hold_is_counted_with_what_follows_them(history: History) -> None:
    incarnation, relation = history.incarnation, history.orders.relation_id
    now = timezone.now()
    HistoryBlock.objects.create(
        incarnation_id=incarnation.pk,
        block=0,
        first_time=now - dt.timedelta(hours=5),
        last_time=now,
    )
    RelationActivity.objects.create(
        relation_id=relation, incarnation_id=incarnation.pk, block=0, version_id=history.orders.pk,
        transactions=900, inserts=1000, updates=200, deletes=30,
    )  # fmt: skip
    ActivityMark.objects.create(incarnation_id=incarnation.pk, rolled_seq=1)
    total = row_named(listed(history), "public.orders").sum

    # The transaction at place 1 is in the sums; that at place 2 follows.
    assert (total.changes, total.inserts, total.transactions) == (1231, 1001, 901)
    schema = read_schema_page(Relation.objects.get(pk=relation), {})
    assert schema.to is not None
    assert (schema.to.counts.changes, schema.to.counts.transactions) == (1231, 901)


def test_a_tables_page_has_its_versions_and_what_is_published(history: History) -> None:
    look(history.slot, {"table": "orders", "oid": 16384, "columns": ["id"],
                        "unpublished_columns": ["note"], "root": "public.log"})  # fmt: skip
    page = read_schema_page(history.orders.relation, {})

    assert page.to is not None
    assert (page.slot, page.to.version, page.before, page.diff) == (
        history.slot, history.orders, None, None
    )  # fmt: skip
    assert [(entry.number, entry.chosen, entry.line) for entry in page.entries] == [
        (1, "to", "first seen")
    ]
    assert (page.looked, page.standing, page.successor) == (True, "", None)
    assert page.published is not None
    assert page.published.unpublished_columns == ("note",)
    assert page.root_id == Relation.objects.get(table="log").pk
    assert (page.evidence, page.now) == (None, None), "the browser asks for them"


def test_another_table_has_its_name_now(history: History) -> None:
    later = history.table("orders", 17001, ["id"])

    assert read_schema_page(history.orders.relation, {}).successor == later.relation
    assert read_schema_page(later.relation, {}).successor is None


def test_the_page_of_a_table_is_rendered(signed_in: Client, history: History) -> None:
    address = f"/relations/{history.orders.relation_id}/"
    page = spaced(text_of(signed_in.get(address)))

    assert "public.orders is at version 1" in page
    assert "the first version seen" in page
    # History counts one insert a transaction, however many there are.
    assert "2 changes in" in page
    assert "2 transactions" in page
    assert "unknown: the publications are not read yet" in page
    assert f'hx-get="{address}now/" hx-trigger="load" hx-target="#now"' in page
    assert f'hx-get="{address}evidence/" hx-trigger="load" hx-target="#evidence"' in page


def test_bad_parameters_are_as_if_not_there(signed_in: Client, history: History) -> None:
    text_of(signed_in.get(f"{LIST}&sort=%00&range=x&after=%00zz&with=y&q=%00"))
    text_of(
        signed_in.get(f"/relations/{history.orders.relation_id}/?from=x&to=99999999999&columns=z")
    )
    assert signed_in.get("/relations/?slot=no/such").status_code == 404
    assert signed_in.get("/relations/999999/").status_code == 404


def test_without_a_slot_it_says_what_to_do(signed_in: Client, db: None) -> None:
    assert "replview slot add SOURCE SLOT" in text_of(signed_in.get("/relations/"))


def test_without_a_table_it_says_why(signed_in: Client, db: None) -> None:
    History()
    Relation.objects.all().delete()
    page = text_of(signed_in.get(LIST))

    assert "A table appears with its first change" in page


def test_the_list_costs_at_most_twelve_queries(signed_in: Client, history: History) -> None:
    for number in range(12):
        history.table(f"t{number}", 20000 + number, ["id"])
    look(history.slot, {"table": "orders", "oid": 16384})
    with CaptureQueriesContext(connection) as queries:
        text_of(signed_in.get(LIST))

    assert len(queries) <= 12, [q["sql"][:80] for q in queries]
    assert not any("change c" in q["sql"] or "FROM change" in q["sql"] for q in queries)


def test_the_schema_page_costs_at_most_twelve_queries(signed_in: Client, history: History) -> None:
    with CaptureQueriesContext(connection) as queries:
        text_of(signed_in.get(f"/relations/{history.orders.relation_id}/"))

    assert len(queries) <= 12, [q["sql"][:80] for q in queries]


def test_names_of_the_source_are_escaped(signed_in: Client, history: History) -> None:
    evil = "<script>alert(1)</script>"
    Relation.objects.update(table=evil)
    RelationVersion.objects.update(
        columns=[{"name": evil, "type_oid": 99999, "type": evil, "typmod": -1, "key": True}],
        key_columns=[evil],
    )
    for address in (LIST, f"/relations/{history.orders.relation_id}/"):
        assert evil not in text_of(signed_in.get(address))

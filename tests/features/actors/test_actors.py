"""The actors pages: who changed what, how well that is known, and in how many queries."""

import datetime as dt
from html import escape
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from replview.features.actors.filters import wanted_of
from replview.features.actors.page import (
    ActorPage,
    ActorsPage,
    context_lines,
    read_actor_page,
    read_actors_page,
)
from replview.store.retention.tidy import make_partitions
from replview.text.addresses import actor_url
from tests.support.history_rows import History, insert

NOW = timezone.now()
TODAY = NOW.astimezone(dt.UTC).date()


@pytest.fixture
def shop(db) -> History:
    """Alice by claim, app by stamp, and nobody; today and yesterday."""
    make_partitions()
    history = History()
    counted = {str(history.orders.relation_id): [1, 0, 0, 0]}
    history.commit(
        insert(1), actor="app", actor_grade="stamped", commit_time=NOW - dt.timedelta(days=1),
        context={"stamp": {"actor": "app", "application_name": "till"}}, relations=counted,
    )  # fmt: skip
    for number, path in ((2, "/pay"), (3, "/pay"), (4, "/ship")):
        history.commit(
            insert(number), actor="alice", actor_grade="claimed", commit_time=NOW,
            context={"path": path, "request_id": f"r{number}"}, relations=counted,
        )  # fmt: skip
    history.commit(insert(5), commit_time=NOW, relations=counted)
    history.slot.heartbeat_at = NOW
    history.slot.save()
    return history


def page(client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, answer.status_code
    return " ".join(answer.content.decode().split())


def actors_page(history: History, query: str = "") -> ActorsPage:
    return read_actors_page(history.slot, wanted_of(QueryDict(query)), TODAY)


def actor_page(history: History, name: str, query: str = "") -> ActorPage:
    return read_actor_page(history.slot, name, wanted_of(QueryDict(query)), TODAY, None)


def test_the_list_renders(signed_in, shop) -> None:
    name = "<script>alert(1)</script>&x=1 ?"
    shop.commit(insert(9), actor=name, actor_grade="claimed", commit_time=NOW)
    shown = page(signed_in, "/actors/?slot=shop/replview")

    assert "3 actors changed shop/replview in the last 30 days." in shown
    assert "Of 1 transaction (17 %) the actor is unknown." in shown
    assert '<i class="unknown">unknown</i>' in shown
    assert '<span class="chip chip-claim">claimed</span>' in shown
    assert '<span class="chip chip-fact">stamped</span>' in shown
    assert actor_url(shop.slot, "alice").replace("&", "&amp;") in shown
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)" in shown
    assert "No actor matches" in page(signed_in, "/actors/?slot=shop/replview&q=zz")


def test_the_page_of_an_actor_renders(signed_in, shop) -> None:
    name = "<script>alert(1)</script>&x=1 ?"
    context = {"path": "/pay"}
    for number in (9, 10):
        shop.commit(
            insert(number), actor=name, actor_grade="claimed", commit_time=NOW, context=context,
            relations={str(shop.orders.relation_id): [1, 0, 0, 0]},
        )  # fmt: skip
    shown = page(signed_in, actor_url(shop.slot, name))

    assert "changed 2 rows in 1 table of shop/replview in the last 30 days, last" in shown
    assert "The application named it (claimed)." in shown
    assert "Any role that may write messages can claim any name." in shown
    assert "/find/?slot=shop/replview&amp;table=public.orders&amp;actor=" in shown
    assert shown.count('<a class="plain-link" data-row href="/transactions/') == 2
    assert '<span class="mono cut" title="/pay">/pay</span> <span class="quiet">× 2</span>' in shown
    assert 'class="day-bar"' in shown
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)" in shown
    assert "replview actor install" in page(signed_in, actor_url(shop.slot, ""))
    assert "All of the record" in page(signed_in, actor_url(shop.slot, "zoe"))


def test_everybody_with_grade_and_nobody_named_as_an_entry(shop) -> None:
    shown = actors_page(shop)

    assert shown.title == "2 actors changed shop/replview in the last 30 days."
    assert shown.unknown_words == "Of 1 transaction (20 %) the actor is unknown."
    grades = {row.sums.actor: (row.sums.claimed, row.sums.stamped) for row in shown.rows}
    assert grades == {"alice": (3, 0), "app": (0, 1), "": (0, 0)}
    urls = {row.sums.actor: row.url for row in shown.rows}
    assert urls["alice"] == actor_url(shop.slot, "alice")


def test_without_a_slot_it_is_the_one_read_last(signed_in, shop) -> None:
    assert "changed shop/replview" in page(signed_in, "/actors/")


def test_a_search_by_name(shop) -> None:
    shown = actors_page(shop, "q=LIC")
    assert [row.sums.actor for row in shown.rows] == ["alice"]
    assert shown.title == "1 actor with “LIC” changed shop/replview in the last 30 days."
    shown = actors_page(shop, "q=zz")
    assert (shown.rows, shown.unknown_words) == ([], "")
    assert shown.title == "Nobody with “zz” changed shop/replview in the last 30 days."


def test_the_days_bound_the_list(shop) -> None:
    assert "app" not in [row.sums.actor for row in actors_page(shop, "range=1d").rows]
    assert "app" in [row.sums.actor for row in actors_page(shop, "range=7d").rows]


def test_what_somebody_changed(shop) -> None:
    shown = actor_page(shop, "alice")

    title = "alice changed 3 rows in 1 table of shop/replview in the last 30 days"
    assert (shown.title, shown.known_by) == (title, "The application named it (claimed).")
    [table] = shown.tables
    query = "slot=shop/replview&tables=public.orders&actor=alice"
    assert table.transactions_url.startswith(f"/transactions/?{query}")
    assert table.find_url.startswith("/find/?slot=shop/replview&table=public.orders&actor=alice")
    assert [(line.line.row.changes, line.others) for line in shown.lines] == [(1, [])] * 3
    values = {line.key: line.values for line in shown.context}
    assert values["path"] == (("/pay", 2), ("/ship", 1))
    assert shown.bars is not None
    assert [(bar.day, bar.sums.changes) for bar in shown.bars.bars] == [(TODAY, 3)]


def test_of_a_transaction_of_several_an_actor_has_what_was_changed_under_the_claim(shop) -> None:
    table = str(shop.orders.relation_id)
    counts = {"alice": [0, 1, 0, 0, 1], "bob": [8, 0, 0, 0, 1]}
    parts = [{"seq": 3 * n, "actor": who, "grade": "claimed", "counts": counts[who],
              "relations": {table: counts[who][:4]}} for n, who in enumerate(counts)]  # fmt: skip
    shop.commit(insert(9), actor="bob", actor_grade="claimed", commit_time=NOW, actors=parts,
                inserts=8, updates=1, messages=2, relations={table: [8, 1, 0, 0]})  # fmt: skip

    for who, changes, other, inserts in (("alice", 2, "bob", 0), ("bob", 9, "alice", 8)):
        latest = actor_page(shop, who).lines[0]
        assert latest.line.row.changes == changes
        assert (latest.of_all, latest.others) == (11, [other])
        assert latest.line.row.inserts == inserts


def test_the_others_of_a_transaction_stand_beside_it(signed_in, shop) -> None:
    parts = [{"seq": 3 * n, "actor": who, "grade": "claimed", "counts": [1, 0, 0, 0, 0],
              "relations": {}} for n, who in enumerate(("alice", "bob"))]  # fmt: skip
    shop.commit(insert(9), actor="bob", actor_grade="claimed", commit_time=NOW, actors=parts,
                inserts=2)  # fmt: skip
    shown = page(signed_in, actor_url(shop.slot, "bob"))

    latest = shown[shown.index('id="latest"') :]
    assert 'num"> 1 <span class="second">of 2</span>' in latest
    assert 'data-tip="alice">+1' in latest


def test_a_stamp_is_told_as_one_with_its_context(shop) -> None:
    shown = actor_page(shop, "app")

    assert shown.known_by == "The trigger stamped it."
    assert "stamp.application_name" in [line.key for line in shown.context]


def test_nobody_named_has_a_page_that_says_what_to_do(shop) -> None:
    shown = actor_page(shop, "")

    assert shown.title.startswith("Nobody named changed 1 row in 1 table")
    assert shown.known_by == "Nothing in these 1 transaction names an actor."
    assert "actor=%3F" in shown.transactions_url


def test_stamps_that_contradict_each_other_are_told(shop) -> None:
    shop.commit(
        insert(9), actor="root", actor_grade="claimed", commit_time=NOW,
        context={"stamp": {"actor": "root"}, "other_stamps": [{"actor": "app"}]},
    )  # fmt: skip

    shown = actor_page(shop, "root")

    sentence = "Stamps contradict each other in 1 of the latest transactions."
    assert (shown.disagreeing, shown.known_by) == (1, sentence)
    assert [line.key for line in shown.context] == ["stamp.actor"]


def test_an_actor_nobody_knows_is_said_to_be_none(shop) -> None:
    shown = actor_page(shop, "zoe")

    sentence = "No stored transaction of shop/replview in the last 30 days names “zoe”."
    assert (shown.sums, shown.title) == (None, sentence)
    assert "range=all" in shown.all_url


def test_nothing_at_all(signed_in, db) -> None:
    assert "No slot" in page(signed_in, "/actors/")
    assert "No slot" in page(signed_in, "/actor/?actor=x")
    make_partitions()
    shown = actors_page(History())
    assert (shown.rows, shown.title) == (
        [], "Nobody changed shop/replview in the last 30 days.",
    )  # fmt: skip
    assert "No transactions" in page(signed_in, "/actors/?slot=shop/replview")


def test_a_page_of_many_goes_on_where_it_ended(signed_in, shop, monkeypatch) -> None:
    monkeypatch.setattr("replview.features.actors.page.PAGE_ACTORS", 2)
    first = actors_page(shop, "sort=transactions")
    second = actors_page(shop, urlsplit(first.following_url).query)

    assert (len(first.rows), len(second.rows)) == (2, 1)
    assert {row.sums.actor for row in (*first.rows, *second.rows)} == {"alice", "app", ""}
    assert second.following_url == ""
    shown = page(signed_in, "/actors/?sort=transactions")
    assert f'href="{escape(first.following_url)}" rel="next"' in shown
    assert shown.count('data-row href="/actor/') == 2


@pytest.mark.parametrize(
    "query",
    ["sort=x&range=y&after=z", "after=99999999999999999999~a", "after=-1~", "q=%00", "range=all",
     "after=1~%00", "actor=%00", "actor=" + "x" * 5000],
)  # fmt: skip
def test_whatever_the_address_says_there_is_a_page(signed_in, shop, query: str) -> None:
    for path in ("/actors/", "/actor/"):
        assert signed_in.get(f"{path}?{query}", follow=True).status_code == 200


def test_a_slot_there_is_none_of_is_not_found(signed_in, shop) -> None:
    assert signed_in.get("/actors/?slot=shop/none").status_code == 404
    assert signed_in.get("/actor/?slot=shop/none&actor=a").status_code == 404


def test_without_login_nothing_is_told(client, shop) -> None:
    assert client.get(reverse("actors")).status_code == 302


@pytest.mark.parametrize(
    "url", ["/actors/?slot=shop/replview", "/actor/?slot=shop/replview&actor=alice"]
)
def test_the_number_of_queries_does_not_grow(signed_in, shop, url: str) -> None:
    with CaptureQueriesContext(connection) as few:
        page(signed_in, url)
    for number in range(60):
        shop.commit(insert(number), actor=f"actor {number % 30}", actor_grade="claimed",
                    commit_time=NOW)  # fmt: skip
        shop.commit(insert(number), actor="alice", actor_grade="claimed", commit_time=NOW)
    with CaptureQueriesContext(connection) as many:
        page(signed_in, url)

    assert len(many) == len(few), [query["sql"][:90] for query in many]
    assert len(many) <= 12


def test_contexts_are_summed_up_by_key() -> None:
    lines = context_lines(
        [{"path": "/a", "n": 1, "$own": 1}, {"path": "/a", "n": None}, {"stamp": {"role": "x"}}]
    )

    assert [(line.key, line.values, line.more) for line in lines] == [
        ("n", (("1", 1), ("null", 1)), 0),
        ("path", (("/a", 2),), 0),
        ("stamp.role", (("x", 1),), 0),
    ]

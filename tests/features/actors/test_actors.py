"""The actors pages: who changed what, how well that is known, and in how many queries."""

import datetime as dt

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from replview.features.actors.page import context_lines
from replview.store.retention.tidy import make_partitions
from replview.text.addresses import actor_url
from tests.support.history_rows import History, insert

NOW = timezone.now()


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


def test_everybody_with_grade_and_nobody_named_as_an_entry(signed_in, shop) -> None:
    shown = page(signed_in, "/actors/?slot=shop/replview")

    assert "2 actors changed shop/replview in the last 30 days." in shown
    assert "Of 1 transaction (20 %) nobody said who it was." in shown
    assert '<i class="unknown">nobody named</i>' in shown
    assert '<span class="chip chip-claim">claimed</span>' in shown
    assert '<span class="chip chip-fact">stamped</span>' in shown
    assert actor_url(shop.slot, "alice").replace("&", "&amp;") in shown


def test_without_a_slot_it_is_the_one_read_last(signed_in, shop) -> None:
    assert "changed shop/replview" in page(signed_in, "/actors/")


def test_a_search_by_name(signed_in, shop) -> None:
    shown = page(signed_in, "/actors/?slot=shop/replview&q=LIC")
    assert ">alice</a>" in shown
    assert ">app</a>" not in shown
    assert "No actor like this" in page(signed_in, "/actors/?slot=shop/replview&q=zz")


def test_the_days_bound_the_list(signed_in, shop) -> None:
    assert ">app</a>" not in page(signed_in, "/actors/?range=1d")
    assert ">app</a>" in page(signed_in, "/actors/?range=7d")


def test_what_somebody_changed(signed_in, shop) -> None:
    shown = page(signed_in, actor_url(shop.slot, "alice"))

    assert "alice changed 3 rows in 1 table of shop/replview" in shown
    assert "Any role that may write messages can claim any name." in shown
    assert "/transactions/?slot=shop/replview&amp;tables=public.orders&amp;actor=alice" in shown
    assert "/find/?slot=shop/replview&amp;table=public.orders&amp;actor=alice" in shown
    assert shown.count('<a class="plain-link" data-row href="/transactions/') == 3
    assert '<span class="mono cut" title="/pay">/pay</span> <span class="quiet">× 2</span>' in shown
    assert 'class="day-bar"' in shown


def test_of_a_transaction_of_several_an_actor_has_what_was_changed_under_the_claim(
    signed_in, shop
) -> None:
    table = str(shop.orders.relation_id)
    counts = {"alice": [0, 1, 0, 0, 1], "bob": [8, 0, 0, 0, 1]}
    parts = [{"seq": 3 * n, "actor": who, "grade": "claimed", "counts": counts[who],
              "relations": {table: counts[who][:4]}} for n, who in enumerate(counts)]  # fmt: skip
    shop.commit(insert(9), actor="bob", actor_grade="claimed", commit_time=NOW, actors=parts,
                inserts=8, updates=1, messages=2, relations={table: [8, 1, 0, 0]})  # fmt: skip

    for who, changes, other in (("alice", 2, "bob"), ("bob", 9, "alice")):
        shown = page(signed_in, actor_url(shop.slot, who))
        latest = shown[shown.index('id="latest"') :]
        assert f'num"> {changes} <span class="second">of 11</span>' in latest
        assert f'data-tip="{other}">+1' in latest
        inserted = '<span class="visually-hidden">insert </span><span>8</span>'
        assert (inserted in latest) == (who == "bob")


def test_a_stamp_is_told_as_one_with_its_context(signed_in, shop) -> None:
    shown = page(signed_in, actor_url(shop.slot, "app"))

    assert "The database stamped it." in shown
    assert "stamp.application_name" in shown


def test_nobody_named_has_a_page_that_says_what_to_do(signed_in, shop) -> None:
    shown = page(signed_in, actor_url(shop.slot, ""))

    assert "Nobody named changed 1 row" in shown
    assert "replview actor install" in shown
    assert "actor=%3F" in shown


def test_stamps_that_contradict_each_other_are_told(signed_in, shop) -> None:
    shop.commit(
        insert(9), actor="root", actor_grade="claimed", commit_time=NOW,
        context={"stamp": {"actor": "root"}, "other_stamps": [{"actor": "app"}]},
    )  # fmt: skip

    shown = page(signed_in, actor_url(shop.slot, "root"))

    assert "Stamps contradict each other in 1 of the latest transactions." in shown
    assert "other_stamps" not in shown


def test_a_name_is_text_and_nothing_else(signed_in, shop) -> None:
    name = "<script>alert(1)</script>&x=1 ?"
    shop.commit(insert(9), actor=name, actor_grade="claimed", commit_time=NOW)

    for url in ("/actors/", actor_url(shop.slot, name)):
        shown = page(signed_in, url)
        assert "<script>alert" not in shown
        assert "&lt;script&gt;alert(1)" in shown


def test_an_actor_nobody_knows_is_said_to_be_none(signed_in, shop) -> None:
    shown = page(signed_in, actor_url(shop.slot, "zoe"))

    assert "No stored transaction of shop/replview in the last 30 days names “zoe”." in shown
    assert "All of the record" in shown


def test_nothing_at_all(signed_in, db) -> None:
    assert "No slot" in page(signed_in, "/actors/")
    assert "No slot" in page(signed_in, "/actor/?actor=x")
    make_partitions()
    History()
    assert "Nothing was changed" in page(signed_in, "/actors/?slot=shop/replview")


def test_a_page_of_many_goes_on_where_it_ended(signed_in, shop, monkeypatch) -> None:
    monkeypatch.setattr("replview.features.actors.page.PAGE_ACTORS", 2)
    first = page(signed_in, "/actors/?sort=transactions")
    [following] = [part for part in first.split('"') if "after=" in part]

    second = page(signed_in, following.replace("&amp;", "&"))

    assert first.count('data-row href="/actor/') == 2
    assert second.count('data-row href="/actor/') == 1


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

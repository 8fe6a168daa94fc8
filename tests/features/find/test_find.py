"""The find page: a form that builds the address, lines that say what changed, honest ends."""

from html import escape
from urllib.parse import urlsplit

import pytest
from django.http import QueryDict
from django.urls import reverse

from replview.features.find import page as find_page
from replview.features.find.page import FindPage, Moved, read_page
from replview.store.read.changes import search
from replview.store.read.rows import signed_hash
from replview.store.retention.tidy import make_partitions
from replview.ui.changes.cells import Cell
from tests.support.history_rows import History, insert
from tests.support.page_elements import spaced


@pytest.fixture
def history(db) -> History:
    make_partitions()
    history = History()
    key = {"key_hash": signed_hash(["1"])}
    history.commit(insert(1, **key), actor="alice")
    history.commit(
        {"op": "U", "new": {"id": "1", "status": "paid", "note": None}, **key}, actor="bob"
    )
    return history


def get(client, **words):
    return client.get(reverse("find"), words)


def text(client, **words) -> str:
    answer = get(client, **words)
    assert answer.status_code == 200
    return spaced(answer.content.decode())


def page_of(history: History, **words: str) -> FindPage:
    query = QueryDict(mutable=True)
    query.update(words)
    return read_page(query, history.slot)


def test_the_page_renders(signed_in, history) -> None:
    history.commit({"op": "I", "new": {"id": "<b>9", "status": "<img src=x>", "note": None}})
    html = text(signed_in, slot="shop/replview", table="public.orders", where="status: new -> paid")
    assert html.count('class="found"') == 1
    assert (
        '<span class="moved-name">status:</span> '
        '<span class="moved-before value derived">new</span>' in html
    )
    assert '<span class="moved-after value">paid</span>' in html
    assert "/rows/?slot=shop/replview&amp;table=public.orders&amp;key.id=1" in html
    # Columns and tables are offered.
    assert '<option value="status ">' in html
    assert '<option value="public.orders">' in html
    # A condition that is not understood is refused, and stays in its box.
    html = text(signed_in, table="public.orders", where="statuz = <i>")
    assert "There is no column statuz" in html
    assert 'value="statuz = &lt;i&gt;"' in html
    html = text(signed_in, table="public.orders", where="status ~ img")
    assert "<img src=x>" not in html
    assert "&lt;img src=x&gt;" in html


def test_what_changed_stands_in_its_line(history) -> None:
    page = page_of(history, table="public.orders", where="status: new -> paid")
    [line] = page.lines
    assert line.moved[0] == Moved(
        "status", Cell("new", side="before", derived=True), Cell("paid", side="new")
    )
    assert (line.actor, line.key_words, line.block.op) == ("bob", "1", "U")


def test_the_slot_is_the_one_read_last_where_none_is_named(signed_in, history) -> None:
    assert text(signed_in).count('class="found"') == 2
    assert get(signed_in, slot="shop/none").status_code == 404


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ({"actor": "alice"}, 1),
        ({"ops": "U"}, 1),
        ({"table": "public.orders", "where": "status = new"}, 1),
        ({"table": "public.orders", "where": "status = none"}, 0),
        ({"until": "2020-01-01"}, 0),
        ({"where": "status = new", "since": "2020-01-01"}, 1),
    ],
)
def test_filters(history, words, number) -> None:
    assert len(page_of(history, **words).lines) == number


@pytest.mark.parametrize(
    ("words", "trouble"),
    [
        ({"table": "public.orders", "where": "statuz = x"}, "there is no column statuz"),
        ({"table": "public.orders", "where": "status"}, "after status comes"),
        ({"where": "status = x"}, "choose a table, or set Since"),
        ({"since": "some day"}, "not understood: since"),
    ],
)
def test_what_is_not_understood_is_said_and_stays_in_its_box(history, words, trouble) -> None:
    page = page_of(history, **words)
    assert trouble in page.trouble
    assert page.words.get("where") == words.get("where")


@pytest.mark.parametrize("name", ["table", "where", "since", "until", "actor", "ops", "cursor"])
@pytest.mark.parametrize(
    "value", ["\0", "'", '"><script>', "9" * 400, "-1", "1-1-1", "%00", "a.b.c"]
)
def test_bad_parameters_are_no_error(signed_in, history, name, value) -> None:
    html = text(signed_in, **{name: value})
    assert "<script>" not in html.split("</head>")[1]


def test_pages_follow_each_other(signed_in, history) -> None:
    history.commit(*[insert(n) for n in range(60)])
    page = page_of(history)
    assert len(page.lines) == 50
    assert f'href="{escape(page.older_url)}" rel="next"' in text(signed_in)
    older = QueryDict(urlsplit(page.older_url).query)
    assert len(read_page(older, history.slot).lines) == 12


def test_changes_that_nobody_knows_of_are_told(signed_in, history) -> None:
    history.commit({"op": "U", "new": {"id": "5", "status": "paid", "note": None}})
    words = {"table": "public.orders", "where": "status: sent -> paid"}
    page = page_of(history, **words)
    assert page.found is not None
    assert page.found.unknown == 1
    assert "1 change left out:" in text(signed_in, **words)


def test_a_search_out_of_time_goes_on(signed_in, history, monkeypatch) -> None:
    monkeypatch.setattr(find_page, "BUDGET_SECONDS", 0)
    monkeypatch.setattr(search, "FIRST_READ", 1)
    monkeypatch.setattr(search, "MOST_READ", 1)
    words = {"table": "public.orders", "where": "status = none"}
    page = page_of(history, **words)
    assert page.lines == []
    assert page.found is not None
    assert not page.found.complete
    assert page.found.searched_back_to is not None
    assert "cursor=" in page.older_url
    shown = text(signed_in, **words)
    assert "Searched back to" in shown
    assert ">Continue</a>" in shown


def test_columns_and_tables_are_offered(history) -> None:
    page = page_of(history, table="public.orders")
    assert page.columns == [("id", ""), ("status", ""), ("note", "")]
    assert page.tables == ["public.orders"]


def test_the_columns_of_a_table_are_told(signed_in, history) -> None:
    answer = signed_in.get(
        reverse("find-columns"), {"slot": "shop/replview", "table": "public.orders"}
    )
    assert answer.json() == {"columns": [["id", ""], ["status", ""], ["note", ""]]}
    assert signed_in.get(reverse("find-columns"), {"table": "\0"}).json() == {"columns": []}


def test_few_queries(signed_in, history, django_assert_max_num_queries) -> None:
    # Session and user, the frame around the page, the mask rules, the access record, the column's
    # type and whether what is typed is a value of it, and (in a test
    # alone) a savepoint among them.
    with django_assert_max_num_queries(28):
        text(signed_in, slot="shop/replview", table="public.orders", where="status = paid")


def test_strangers_are_asked_to_sign_in(client, db) -> None:
    assert client.get(reverse("find")).status_code == 302

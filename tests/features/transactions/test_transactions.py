"""The transactions page: what it lists, how it is narrowed, and what it costs."""

import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from replview.features.transactions.list_page import TransactionsPage
from replview.store.models import Relation, SavedFilter, SlotEvent, Transaction
from replview.ui.changes.transaction_lines import MarkerLine, TransactionLine
from tests.support.history_rows import WHEN, History, insert
from tests.support.page_elements import EVIL, plain, text_of
from tests.support.people import make_user


@pytest.fixture
def history(db) -> History:
    """Three hundred commits a second apart, each of one order."""
    from replview.store.retention.tidy import make_partitions

    make_partitions()
    made = History()
    for number in range(1, 131):
        at = WHEN + timedelta(seconds=number)
        made.commit(
            insert(number),
            actor=("alice", None)[number % 2],
            actor_grade=("claimed", None)[number % 2],
            origin="berlin" if number % 10 == 0 else None,
            commit_time=at,
            stored_at=at,
        )
    return made


def shown(client: Client, query: str | dict[str, str] = "") -> TransactionsPage:
    """Return the data of the page at an address."""
    address = query if isinstance(query, str) and query.startswith("/") else "/transactions/"
    answer = client.get(address, query if isinstance(query, dict) else {})
    assert isinstance(answer.context["page"], TransactionsPage)
    return answer.context["page"]


def xids(page: TransactionsPage) -> list[int | None]:
    """The transactions shown, in order."""
    return [line.row.xid for line in page.lines if isinstance(line, TransactionLine)]


def test_the_newest_stand_first_and_links_lead_through_all_and_back(signed_in, history) -> None:
    first = shown(signed_in)
    second = shown(signed_in, first.older_url)
    third = shown(signed_in, second.older_url)

    assert xids(first) + xids(second) + xids(third) == list(range(830, 700, -1))
    assert (first.newer_url, first.at_newest, third.older_url) == (None, True, None)
    assert xids(shown(signed_in, third.newer_url)) == xids(second)
    assert xids(shown(signed_in, third.url())) == xids(first)
    assert xids(shown(signed_in, first.oldest_url)) == list(range(750, 700, -1))


def test_the_page_renders(signed_in, history) -> None:
    first = signed_in.get("/transactions/?slot=shop/replview&actor=alice")
    last = signed_in.get(first.context["page"].older_url)
    data = last.context["page"]

    assert "of shop/replview by alice, newest first" in plain(first)
    rows = re.findall(r'data-copy="(\d+)" data-tip', text_of(last))
    assert [int(xid) for xid in rows] == xids(data)
    html = text_of(last).replace("&amp;", "&")
    for address in (data.newer_url, data.url(), data.clear_url, *(o.url for o in data.operations)):
        assert f'href="{address}"' in html
    assert f"/download/?{data.download_query}&format=csv" in html
    assert "Beginning of the record for these filters" in plain(last)


def test_filters_narrow_the_list_and_are_told(signed_in, history) -> None:
    page = shown(signed_in, "/transactions/?slot=shop/replview&actor=alice&origin=berlin")

    assert xids(page) == list(range(830, 700, -10))
    assert (str(page.slot), page.words) == ("shop/replview", "by alice, from berlin")
    for query, number in (
        ("q=alice", 50),
        ("tables=public.orders&tables=public.none&ops=I", 50),
        ("tables=public.orders&ops=D", 0),
        ("states=aborted", 0),
        ("actor=%3F&origin=-", 50),
        ("min_changes=2", 0),
        ("id=777", 1),
        ("since=2026-11-20T07:59:15Z&until=2026-11-20T07:59:17Z", 2),
    ):
        assert len(xids(shown(signed_in, f"/transactions/?{query}"))) == number, query


def test_pressing_a_letter_leaves_it_alone_and_more_are_added(signed_in, history) -> None:
    letters = {one.letter: one for one in shown(signed_in).operations}
    assert all(one.on for one in letters.values())
    assert parse_qs(urlsplit(letters["I"].url).query)["ops"] == ["I"]

    letters = {one.letter: one for one in shown(signed_in, letters["I"].url).operations}
    assert [one.letter for one in letters.values() if one.on] == ["I"]
    assert parse_qs(urlsplit(letters["D"].url).query)["ops"] == ["ID"]


def test_further_fields_are_inputs_of_the_menu(signed_in, history) -> None:
    query = {"min_changes": "2", "from_lsn": "2/4E91A6F0", "since": "soon"}
    answer = signed_in.get("/transactions/", query)

    assert answer.context["page"].more_set == 2
    inputs = re.findall(r'<input type="text"[^>]*>', answer.content.decode())
    values = {
        match[1]: match[2]
        for text in inputs
        if (match := re.search(r'name="(\w+)" value="([^"]*)"', text))
    }
    assert (values["min_changes"], values["from_lsn"]) == ("2", "2/4E91A6F0")
    assert {values[name] for name in ("id", "min_bytes", "prepared_min", "since", "until")} == {""}
    [number] = [text for text in inputs if 'name="min_bytes"' in text]
    assert 'inputmode="numeric"' in number
    assert 'maxlength="18"' in number


@pytest.mark.parametrize("name", ["actor", "origin"])
def test_spaces_belong_to_the_name_of_an_actor_or_origin(signed_in, history, name: str) -> None:
    history.commit(insert(1), **{name: " odd "})

    assert xids(shown(signed_in, {name: " odd "})) == [831]
    assert xids(shown(signed_in, {name: "odd"})) == []


def test_what_is_not_understood_is_told_and_nothing_breaks(signed_in, history) -> None:
    answer = signed_in.get("/transactions/?since=yesterdayish&min_bytes=x&cursor=%00&ops=Q")

    assert answer.status_code == 200
    assert "Ignored, because it is not valid: ops, min_bytes, since." in plain(answer)
    for query in (
        "cursor=c1.99999999999999999999",
        "cursor=e1.9.9&back=1",
        "at=%00",
        "at=-1",
        "cursor=c",
        f"q={EVIL}",
        "at=9999999999999w",
        "min_changes=99999999999999999999",
        "until=0001-01-01T00:00%2B12:00",
        "at=9999-12-31T23:59:59.999999Z",
    ):
        answer = signed_in.get(f"/transactions/?{query}")
        assert answer.status_code == 200, query
        assert EVIL not in text_of(answer)
    assert signed_in.get("/transactions/?slot=shop/nobody").status_code == 404


@pytest.mark.parametrize("at", ["2026-11-20T07:58:11.5Z", "777", "pay_1"])
def test_one_jumps_to_a_time_an_lsn_an_xid_or_a_gid(signed_in, history, at) -> None:
    row = Transaction.objects.get(xid=777)
    row.gid = "pay_1"
    row.save()
    page = shown(signed_in, {"at": at})

    assert xids(page)[0] == (760 if "T" in at else 777)
    assert not page.at_newest
    assert signed_in.get(page.newer_url).status_code == 200


def test_one_jumps_to_the_commit_an_lsn_falls_into(signed_in, history) -> None:
    lsn = str(Transaction.objects.get(xid=777).commit_lsn)
    answer = signed_in.get("/transactions/", {"at": lsn})

    assert xids(answer.context["page"])[0] == 777
    assert "From " in plain(answer)


def test_a_jump_to_nothing_says_so(signed_in, history) -> None:
    answer = signed_in.get("/transactions/?at=no_such_gid")

    assert not answer.context["page"].place.found
    assert "No stored transaction matches “no_such_gid”" in plain(answer)
    assert xids(answer.context["page"])[0] == 830


def test_the_slots_log_stands_between_the_transactions(signed_in, history) -> None:
    SlotEvent.objects.create(
        slot=history.slot, incarnation=history.incarnation, kind="gap",
        message="the slot was lost", at=WHEN + timedelta(seconds=125),
        after_commit_seq=125, detail={},
    )  # fmt: skip
    answer = signed_in.get("/transactions/?slot=shop/replview")

    assert xids(answer.context["page"])[:6] == [830, 829, 828, 827, 826, 825]
    assert isinstance(answer.context["page"].lines[5], MarkerLine)
    said = plain(answer)
    assert said.index(" 826 ") < said.index("Gap : the slot was lost") < said.index(" 825 ")


def test_nothing_in_a_time_names_the_nearest_before(signed_in, history) -> None:
    answer = signed_in.get("/transactions/?since=2027-01-01&actor=alice")

    nothing = answer.context["page"].nothing
    assert (nothing.nearest.row.xid, nothing.unknown_tables) == (830, [])
    assert "No transaction matches these filters" in plain(answer)
    assert "The nearest before that time: 830," in plain(answer)


def test_without_a_slot_it_says_what_to_do(signed_in) -> None:
    assert "There is no slot, so nothing is recorded." in plain(signed_in.get("/transactions/"))


def test_values_of_a_source_are_escaped(signed_in, history) -> None:
    history.commit(insert(1), actor=EVIL, origin=EVIL, gid=EVIL, stored_at=WHEN)
    history.commit(insert(2), actor=EVIL, actor_grade=EVIL, stored_at=WHEN)

    assert EVIL not in text_of(signed_in.get("/transactions/"))


@pytest.mark.parametrize(
    "query", ["", "slot=shop/replview", "slot=shop/replview&tables=public.orders&actor=alice"]
)
def test_a_page_takes_at_most_twelve_queries(signed_in, history, query) -> None:
    history.commit({"op": "M", "new": {"prefix": "hello"}}, stored_at=WHEN)
    signed_in.get(f"/transactions/?{query}")
    with CaptureQueriesContext(connection) as queries:
        signed_in.get(f"/transactions/?{query}")

    assert len(queries) <= 12, "\n".join(query["sql"][:160] for query in queries)


def test_a_filter_is_saved_under_a_name_for_oneself_and_forgotten(signed_in, history) -> None:
    query = "actor=alice&slot=shop/replview&cursor=c1.5"
    answer = signed_in.post("/saved/transactions/", {"name": " Hers ", "query": query})

    assert answer.url == "/transactions/?actor=alice&slot=shop/replview"
    page = text_of(signed_in.get(answer.url))
    assert 'aria-current="true"> <span class="cut">Hers</span>' in page
    other = Client()
    other.force_login(make_user("bob"))
    saved = SavedFilter.objects.get()
    assert "Hers" not in text_of(other.get(answer.url))
    assert other.post(f"/saved/{saved.pk}/delete/").status_code == 404
    # Saving again under the name replaces it.
    signed_in.post("/saved/transactions/", {"name": "Hers", "query": "actor=bob"})
    assert SavedFilter.objects.get().query == "actor=bob"
    signed_in.post(f"/saved/{saved.pk}/delete/", {"query": "actor=bob"})
    assert not SavedFilter.objects.exists()


def test_saving_without_a_token_is_refused(db) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("carol"))

    assert client.post("/saved/transactions/", {"name": "x", "query": "a=b"}).status_code == 403


def test_filters_of_other_pages_cannot_be_saved(signed_in) -> None:
    answer = signed_in.post("/saved/users/", {"name": "x", "query": "a=b"})

    assert answer.status_code == 404
    assert not SavedFilter.objects.exists()


def test_the_header_search_takes_a_time_too(signed_in, history) -> None:
    answer = signed_in.get("/search/", {"q": "2026-11-20T07:58Z", "slot": "shop/replview"})

    assert urlsplit(answer.url).path == "/transactions/"
    assert parse_qs(urlsplit(answer.url).query) == {
        "slot": ["shop/replview"],
        "at": ["2026-11-20T07:58Z"],
    }
    row = Transaction.objects.get(xid=777)
    clock = signed_in.get("/search/", {"q": "21:27:10", "slot": "shop/replview"})
    assert clock.url.endswith("at=21:27:10")
    assert signed_in.get("/search/?q=777").url == f"/transactions/{row.pk}/"
    assert signed_in.get("/search/", {"q": str(row.commit_lsn)}).url == f"/transactions/{row.pk}/"


def test_a_table_is_found_under_a_former_name_and_one_that_never_was_is_told(
    signed_in, history
) -> None:
    Relation.objects.filter(table="orders").update(table="sales")
    former = shown(signed_in, "/transactions/?slot=shop/replview&tables=public.orders")
    answer = signed_in.get("/transactions/?slot=shop/replview&tables=public.ordres")

    assert xids(former) == list(range(830, 780, -1))
    assert former.nothing is None
    assert answer.context["page"].nothing.unknown_tables == ["public.ordres"]
    assert "shop/replview has no change of a table public.ordres" in plain(answer)
    assert "The whole record was searched" not in plain(answer)

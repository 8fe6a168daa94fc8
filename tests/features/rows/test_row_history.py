"""The page of one row's history."""

import datetime as dt
import html
import json
import re

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from replview.features.rows.page import RowPage, read_page
from replview.features.rows.views import read_change
from replview.store.models import Slot, Transaction
from replview.store.write.partitions import ensure_partitions
from replview.text.addresses import row_url
from replview.ui.row_start import Start, read_start
from tests.support import vouched_history
from tests.support.history_rows import History, insert
from tests.support.vouched_history import history as history  # a fixture

URL = "/rows/"


@pytest.fixture
def shop(db) -> History:
    """Order 42: created, paid, its note set."""
    today = dt.datetime.now(tz=dt.UTC).date()
    ensure_partitions(connection.connection, today, today)
    history = History()
    history.commit(insert(42, key_hash=_hash("42")), actor="web", actor_grade="stamped")
    paid = {"id": "42", "status": "paid", "note": None}
    history.commit(_update("42", paid), actor="alice", actor_grade="claimed")
    history.commit(_update("42", {**paid, "note": "<b>call</b>"}))
    Slot.objects.update(last_commit_time=timezone.now())
    return history


def _hash(key: str) -> int:
    from replview.store.read.rows import signed_hash

    return signed_hash([key])


def _update(key: str, new: dict, **more) -> dict:
    return {"op": "U", "new": new, "key_hash": _hash(key), **more}


def started(slot: Slot, key: str = "42", table: str = "public.orders", **words: str) -> Start:
    return read_start(slot, {"table": table, "key.id": key, **words})


def read(slot: Slot, key: str = "42", **words: str) -> RowPage:
    """Return the page of a row of orders, of the slot as it is stored now."""
    slot.refresh_from_db()
    return read_page(slot, started(slot, key), {"table": "public.orders", "key.id": key, **words})


def page(client: Client, slot, **words: str):
    address = row_url(slot, "public", "orders", {"id": "42"}, **words)
    return client.get(address)


def test_it_tells_every_change_in_a_line(shop) -> None:
    found = read(shop.slot)

    assert found.sentence.title == "orders 42 is paid."
    assert found.sentence.changes == "3 changes by 2 actors and 1 unknown"
    assert [line.entry.step.op for line in found.lines if line.entry] == ["U", "U", "I"]
    assert found.begins_with_insert


def test_the_page_is_rendered(signed_in, shop) -> None:
    text = page(signed_in, shop.slot).content.decode()

    assert "orders 42 is paid." in text
    assert "3 changes by 2 actors and 1 unknown" in text
    assert "created with" in text
    # A closed line has nothing within, not even a space: its style hides what is empty.
    assert '<div class="row-whole"></div>' in text
    assert '<s class="line-before"><span class="visually-hidden">before </span>new</s>' in text
    assert "insert is recorded" in text
    assert "<b>call</b>" not in text
    assert "&lt;b&gt;call&lt;/b&gt;" in text


@pytest.mark.parametrize("form", ["42", "id=42", "id = '42'"])
def test_a_key_may_be_typed(shop, form) -> None:
    start = read_start(shop.slot, {"table": "public.orders", "key": form})

    assert start.key == {"id": "42"}


def test_a_typed_key_leads_to_its_row(signed_in, shop) -> None:
    words = {"slot": str(shop.slot), "table": "public.orders", "key": "id = '42'"}

    assert "orders 42 is paid." in signed_in.get(URL, words).content.decode()


def test_without_a_row_it_says_where_to_begin(signed_in, shop) -> None:
    text = signed_in.get(URL).content.decode()
    table = signed_in.get(URL, {"table": "public.orders"}).content.decode()

    assert "Which row?" in text
    assert "public.orders" in text
    assert "Which row of public.orders?" in table
    assert row_url(shop.slot, "public", "orders", {"id": "42"}).replace("&", "&amp;") in table


def test_a_table_without_a_key_says_why(signed_in, shop) -> None:
    version = shop.table("audit_log", 16999, ["what"])
    version.key_columns, version.replica_identity = [], "NOTHING"
    version.save()
    start = read_start(shop.slot, {"table": "public.audit_log", "key": "1"})
    assert start.key is None
    assert "cannot be identified" in start.problem
    assert "NOTHING" in f"{start.problem} {start.remedy}"

    text = signed_in.get(URL, {"table": "public.audit_log", "key": "1"}).content.decode()
    assert "cannot be identified" in text


def test_the_row_before_a_change(shop) -> None:
    last = read(shop.slot).as_of.before_last
    state = read(shop.slot, before=last).as_of

    assert state.then.values == {"id": "42", "status": "paid", "note": None}
    assert [(line.name, line.now_kind) for line in state.lines] == [
        ("id", "same"), ("status", "same"), ("note", "differs"),
    ]  # fmt: skip


def test_the_moment_is_named_under_its_mark(signed_in, shop) -> None:
    text = page(signed_in, shop.slot, as_of="2026-11-20 07:57").content.decode()
    mark = re.search(r'class="strip-as-of" x1="([\d.]+%)"', text)
    name = re.search(r'<foreignObject [^>]*x="([\d.]+%)"[^>]*>\s*<b>as of', text)

    assert mark is not None
    assert name is not None
    assert name[1] == mark[1]


def test_it_is_narrowed_to_an_actor_or_a_column(shop) -> None:
    def told(**words: str) -> list[str]:
        return [entry.step.actor or "" for entry in read(shop.slot, **words).history.entries]

    assert told(actor="alice") == ["alice"]
    assert told(actor="") == [""]
    assert told(column="note") == [""]
    assert told(column="status") == ["alice", "web"]


@pytest.mark.parametrize(
    "words",
    [
        {"as_of": "yesterday-ish"},
        {"as_of": "FFFFFFFF/FFFFFFFF"},
        {"as_of": "2026-13-45"},
        {"as_of": "0001-01-01T00:00:00"},
        {"before": "1-1"},
        {"before": "999999999999999999-999999999"},
        {"cursor": "!!!"},
        {"cursor": "W10"},
        {"cursor": "W1stMSwwLDAsMCwwXSxbMCwwXSxbXV0"},
        {"open": "x"},
        {"column": "no such"},
        {"actor": "nobody\x01"},
        {"key": "a=b=c"},
        {"key.other": "1"},
    ],
)
def test_no_word_breaks_it(signed_in, shop, words) -> None:
    address = row_url(shop.slot, "public", "orders", {"id": "42"})
    base = {"slot": str(shop.slot), "table": "public.orders", "key.id": "42"}

    assert signed_in.get(address.split("?")[0], {**base, **words}).status_code == 200


@pytest.mark.parametrize("key", ["\x00", "x" * 5000, "'", "a,b", "日本"])
def test_no_key_breaks_it(signed_in, shop, key) -> None:
    words = {"slot": str(shop.slot), "table": "public.orders", "key": key}

    assert signed_in.get(URL, words).status_code == 200


def test_a_row_never_seen_is_not_said_to_be_unchanged(signed_in, shop) -> None:
    sentence = read(shop.slot, "7").sentence

    assert sentence.title == "orders 7 has no recorded change."
    assert not sentence.no_change
    text = signed_in.get(row_url(shop.slot, "public", "orders", {"id": "7"})).content.decode()
    assert "gaps: none" not in text


def test_a_gap_before_a_time_without_a_change_is_said_to_be_before_it(signed_in, history) -> None:
    vouched_history.published(history, vouched_history.ago(9))
    history.commit(insert(2), commit_time=vouched_history.ago(5))
    vouched_history.gap(history, vouched_history.ago(4.45))
    text = signed_in.get(row_url(history.slot, "public", "orders", {"id": "7"})).content.decode()

    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text.replace("\xa0", " ")))
    assert "nothing is missing in between. Before that, one gap of 33 min." in words


def test_a_long_history_comes_a_page_at_a_time(signed_in, shop) -> None:
    for number in range(120):
        shop.commit(_update("42", {"id": "42", "status": f"s{number}", "note": None}))
    answer, seen = page(signed_in, shop.slot), []
    while True:
        found = answer.context["page"]
        seen += [entry.step.transaction_id for entry in found.history.entries]
        if not found.older_url:
            break
        answer = signed_in.get(found.older_url)

    assert len(seen) == len(set(seen)) == 123
    assert "50 changes on this page" in page(signed_in, shop.slot).content.decode()


def test_a_line_opens_without_the_page(signed_in, shop) -> None:
    entry = page(signed_in, shop.slot).context["page"].history.entries[1]
    place = [entry.step.transaction_id, entry.step.seq]
    opened = read_change(*place)
    answer = signed_in.get(reverse("row-history-change", args=place))

    assert (opened.slot, opened.row.id) == (shop.slot, entry.step.transaction_id)
    assert (opened.block.seq, opened.block.before) == (entry.step.seq, "derived")
    assert "before derived" in answer.content.decode()
    assert signed_in.get(reverse("row-history-change", args=[1, 1])).status_code == 404


def test_it_is_read_in_few_queries(signed_in, shop, django_assert_max_num_queries) -> None:
    with django_assert_max_num_queries(19):
        page(signed_in, shop.slot)


def test_the_row_now_is_unknown_where_the_record_lags(signed_in, shop) -> None:
    Slot.objects.update(last_commit_time=timezone.now() - dt.timedelta(hours=2))
    title = "orders 42 was paid when last known; it is unknown now."
    assert read(shop.slot).sentence.title == title

    text = page(signed_in, shop.slot).content.decode()
    assert "Unknown since" in " ".join(text.split())
    assert "When last known" in text


def test_other_rows_of_the_key_are_offered_and_never_mixed_in(signed_in, shop) -> None:
    gone = {"op": "D", "old": {"id": "42"}, "old_kind": "K", "key_hash": _hash("42")}
    shop.commit(gone)
    shop.commit(insert(42, key_hash=_hash("42")))
    newest = page(signed_in, shop.slot)
    offered = newest.context["page"].rows
    former = signed_in.get(offered[1].url)

    assert [one.is_shown for one in offered] == [True, False]
    assert (offered[1].begun, offered[1].ended) == ("inserted", "deleted")
    assert "2 rows have had this key" in newest.content.decode()
    assert [e.step.op for e in newest.context["page"].history.entries] == ["I"]
    assert [e.step.op for e in former.context["page"].history.entries] == ["D", "U", "U", "I"]
    assert "orders 42 is deleted." in former.content.decode()


def test_a_row_of_a_table_whose_name_another_took_is_unknown_and_offered(signed_in, shop) -> None:
    anew = shop.table("orders", 16999, ["id", "status", "note"])
    shop.commit(insert(7, key_hash=_hash("7"), version=anew))
    alone = page(signed_in, shop.slot).content.decode()
    shop.commit(insert(42, key_hash=_hash("42"), version=anew))
    newest = page(signed_in, shop.slot)
    offered = newest.context["page"].rows
    former = signed_in.get(offered[1].url)

    assert "orders 42 is unknown now." in alone
    assert "Another table took the name of its table" in alone
    assert "orders 42 is new." in newest.content.decode()
    told = [(one.begun, one.ended) for one in offered]
    assert told == [
        ("inserted", ""),
        ("inserted", "another table took the name after its last change"),
    ]
    assert [e.step.op for e in former.context["page"].history.entries] == ["U", "U", "I"]
    assert "orders 42 is unknown now." in former.content.decode()


def test_a_former_row_of_the_key_is_downloaded_and_linked_to(signed_in, shop) -> None:
    gone = {"op": "D", "old": {"id": "42"}, "old_kind": "K", "key_hash": _hash("42")}
    shop.commit(gone)
    shop.commit(insert(42, key_hash=_hash("42")))
    former = signed_in.get(page(signed_in, shop.slot).context["page"].rows[1].url)
    address = f"{reverse('download')}?{former.context['page'].download_query}&format=jsonl"
    lines = b"".join(signed_in.get(address)).decode().splitlines()

    assert [json.loads(line)["op"] for line in lines if '"op"' in line] == [
        "insert",
        "update",
        "update",
        "delete",
    ]

    first = Transaction.objects.earliest("commit_seq")
    shown = signed_in.get(reverse("transaction", args=[first.id])).content.decode()
    link = re.search(r'href="(/rows/[^"]*key\.id=42[^"]*)"', shown)
    assert link is not None
    led_to = signed_in.get(html.unescape(link[1])).context["page"].history.entries
    assert [entry.step.op for entry in led_to] == ["D", "U", "U", "I"]

"""A transaction's page: its sentence in every state, its changes by filter and place, what it
offers to take away.
"""

import datetime as dt
import json
import re
from html import escape
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.features.transactions.page import TransactionPage, read_page
from replview.features.transactions.views import read_drawer
from replview.live.filters import LiveFilter
from replview.live.summaries import summarise
from replview.store.models import AbortedSubtransaction, LargeValue, Transaction
from replview.store.read.history import transactions_by_id
from replview.store.write.partitions import ensure_partitions
from replview.ui.changes.drawer import find_transaction, read_slot
from replview.ui.changes.transaction_text import heading_of
from tests.support.history_rows import WHEN, History, insert
from tests.support.page_elements import spaced

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def history(db) -> History:
    connection.ensure_connection()
    today = dt.datetime.now(dt.UTC).date()
    ensure_partitions(connection.connection, today - dt.timedelta(days=1), today)
    return History()


def text_of(page: str) -> str:
    """Return the page's text without its tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def get(client: Client, made: int, query: str = "", status: int = 200) -> str:
    answer = client.get(f"/transactions/{made}/{query}")
    assert answer.status_code == status
    return answer.content.decode()


def page_of(made: int, query: str = "") -> TransactionPage:
    """Return the page of a transaction."""
    row = find_transaction(made)
    return read_page(QueryDict(query), row, read_slot(row))


def heading(page: str) -> str:
    return text_of(page.split("<h1>")[1].split("</h1>")[0])


def blocks(page: str) -> list[int]:
    return [int(seq) for seq in re.findall(r'class="block change[^>]* data-seq="(\d+)"', page)]


def paid(history: History, **values: Any) -> int:
    """Order 1 is inserted, then paid."""
    history.commit(insert(1, key_hash=1))
    update = {"op": "U", "new": {"id": "1", "status": "paid", "note": None}, "key_hash": 1}
    return history.commit(update, insert(2), **values)


def test_it_says_who_did_what_and_whether_it_can_be_undone(
    signed_in: Client, history: History
) -> None:
    made = paid(history, actor="alice", actor_grade="claimed", context={"path": "/pay", "n": [1]})
    data = page_of(made)
    assert (data.sentence.names_actor, data.sentence.did) == (True, "changed 2 rows in 1 table")
    assert data.sentence.rest == "Nothing rolled back; undo is possible for all 2 rows."
    assert "Any role could have sent it" in data.grade_words
    assert dict(data.context) == {"path": "/pay", "n": "[\n  1\n]"}
    assert (data.not_undone, data.total, data.apart) == ("", 2, [])

    page = get(signed_in, made)
    said = heading(page)
    assert said.startswith("alice claimed changed 2 rows in 1 table")
    assert said.endswith("Nothing rolled back; undo is possible for all 2 rows.")
    assert "Any role could have sent it" in page
    assert "<dt>n</dt><dd><pre>[\n  1\n]</pre></dd>" in page
    assert "before derived" in page
    assert 'from <a class="in-words" href="/transactions/' in spaced(page)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("receiving", "it has no effect yet"),
        ("streaming", "it has no effect yet"),
        ("prepared", "neither committed nor rolled back"),
        ("aborted", "It was aborted: it has no effect."),
        ("rolled back", "ROLLBACK PREPARED ended it"),
        ("skipped", "by decision of a user"),
        ("unknown", "its end is unknown"),
        ("snapshot", "A baseline read 1 row as of 0/"),
        ("message", "outside any transaction"),
    ],
)
def test_every_state_has_its_words_and_offers_no_undo(
    signed_in: Client, history: History, state: str, words: str
) -> None:
    made = history.commit(insert(1), state=state, first_lsn=LSN(900), prepared_at=WHEN)
    page = page_of(made)

    assert words in f"{page.sentence.did}. {page.sentence.rest}"
    assert page.not_undone
    refused = signed_in.get(f"/transactions/{made}/undo/")
    assert refused.status_code == 409
    assert refused.content.startswith(b"No undo: ")
    assert signed_in.get(f"/transactions/{made}/changes/1/undo/").status_code == 409


@pytest.mark.parametrize("state", ["discarded", "copying"])
def test_what_is_hidden_has_no_page(signed_in: Client, history: History, state: str) -> None:
    made = history.commit(insert(1), state=state)

    get(signed_in, made, status=404)
    get(signed_in, made, "changes/1/json/", status=404)


def test_an_unknown_actor_is_said_to_be_unknown(signed_in: Client, history: History) -> None:
    made = paid(history)
    assert page_of(made).grade_words == "This transaction names no actor."

    page = get(signed_in, made)
    assert heading(page).startswith("Unknown actor : changed 2 rows")
    assert "data-undo-all>" in page


def test_each_of_several_actors_is_named_and_found(signed_in: Client, history: History) -> None:
    parts = [{"seq": 0, "actor": None, "grade": None, "counts": [1, 0, 0, 0, 0], "relations": {}},
             {"seq": 2, "actor": EVIL, "grade": "claimed", "counts": [1, 0, 0, 0, 0],
              "relations": {}},
             {"seq": 3, "actor": "bob", "grade": "claimed", "counts": [1, 0, 0, 0, 0],
              "relations": {}}]  # fmt: skip
    made = history.commit(
        *(insert(n, key_hash=n) for n in (1, 2, 3)),
        actor="bob", actor_grade="claimed", actors=parts,
    )  # fmt: skip
    other = history.commit(insert(4), actor="carol", actor_grade="claimed")

    page = get(signed_in, made)
    assert EVIL not in page
    assert heading(page).startswith("bob claimed and 1 more, in part unknown: changed 3 rows")
    who = text_of(page.split(">Who</h2>")[1].split("</section>")[0])
    named = "unknown &lt;img src=x onerror=alert(1)&gt; claimed from change 2 on bob claimed from "
    assert who.startswith(f"{named}change 3 on")
    assert heading_of(find_transaction(made)).also == f"{EVIL}, unknown"
    drawer = text_of(get(signed_in, made, "drawer/"))
    assert "Also by &lt;img src=x onerror=alert(1)&gt;, unknown" in drawer
    [row] = transactions_by_id(reading_session(), [made])
    cells = summarise(row, {}).for_browser(tells_size=True)["cells"]
    assert EVIL not in cells
    assert f"more: {escape(EVIL)}, unknown" in cells
    for name, seq in (("?", 1), (EVIL, 2), ("bob", 3)):
        words = {"slot": str(history.slot), "actor": name}
        listed = signed_in.get("/transactions/", words).content.decode()
        assert f"/transactions/{made}/" in listed
        assert f"/transactions/{other}/" not in listed
        others = "&lt;img src=x onerror=alert(1)&gt;, unknown"
        assert f'">+2<span class="visually-hidden"> more: {others}</span>' in listed
        found = signed_in.get("/api/v1/changes", words).json()["items"]
        mine = [(one["seq"], one["actor"] or "?") for one in found if one["transaction"] == made]
        assert mine == [(seq, name)]
        assert LiveFilter.from_words(words).lets_through(summarise(row, {}))
        shown = text_of(signed_in.get("/find/", {**words, "key": str(seq)}).content.decode())
        assert (escape(name) if name != "?" else "unknown") in shown
        sums = signed_in.get("/api/v1/actors", {"slot": str(history.slot)}).json()["items"]
        [summed] = [one for one in sums if (one["actor"] or "?") == name]
        assert (summed["transactions"], summed["inserts"]) == (1, 1)
    assert not LiveFilter.from_words({"actor": "carol"}).lets_through(summarise(row, {}))


def test_tables_operations_and_text_filter_the_changes(signed_in: Client, history: History) -> None:
    other = history.table("other", 2, ["id"])
    made = history.commit(
        insert(1), {"op": "D", "old": {"id": "9"}, "old_kind": "K"}, insert(7, version=other),
        {"op": "M", "new": {"prefix": "p", "content": EVIL}},
    )  # fmt: skip

    assert blocks(get(signed_in, made)) == [1, 2, 3, 4]
    assert blocks(get(signed_in, made, "?table=public.other")) == [3]
    assert blocks(get(signed_in, made, "?table=messages")) == [4]
    assert blocks(get(signed_in, made, "?ops=D")) == [2]
    assert blocks(get(signed_in, made, "?q=NEW&table=public.orders")) == [1]
    assert "Nothing passes" in get(signed_in, made, "?q=nowhere")
    assert "has no change of public.never" in get(signed_in, made, "?table=public.never")
    assert EVIL not in get(signed_in, made)


def test_pages_of_changes_lead_to_each_other(signed_in: Client, history: History) -> None:
    made = history.commit(*(insert(n) for n in range(60)))
    first = get(signed_in, made)
    assert blocks(first) == list(range(1, 26))
    assert 'href="?after=25"' in first
    assert 'href="?end=last"' in first

    assert blocks(get(signed_in, made, "?after=25")) == list(range(26, 51))
    last = get(signed_in, made, "?end=last")
    assert blocks(last) == list(range(36, 61))
    assert 'href="?before=36"' in last
    assert blocks(get(signed_in, made, "?before=36")) == list(range(11, 36))
    assert blocks(get(signed_in, made, "?before=11")) == list(range(1, 11))
    assert blocks(get(signed_in, made, "?at=50"))[0] == 50


def test_a_stamp_is_told_member_by_member(history: History) -> None:
    made = paid(history, context={"stamp": {"application_name": "psql"}})
    data = page_of(made)

    assert data.context == [("stamp.application_name", "psql")]
    assert data.heading.context == "stamp.application_name psql"


def test_what_the_record_covers_is_asked_for_by_the_page(
    signed_in: Client, history: History
) -> None:
    made = paid(history)
    address = reverse("transaction-coverage", args=[made])

    page = get(signed_in, made)
    assert f'hx-get="{address}"' in page
    assert f"transaction={made}&amp;format=jsonl" in page
    assert "Recorded since" in signed_in.get(address).content.decode()


@pytest.mark.parametrize(
    "query",
    ["?after=x", "?before=-1", "?at=99999999999", "?ops=%00&diff=%FF", "?q=%00", "?q=" + "x" * 999,
     "?after=999999999", "?before=0", "?table=%27", "?columns=no&end=first"],
)  # fmt: skip
def test_what_is_not_understood_is_left_out(
    signed_in: Client, history: History, query: str
) -> None:
    get(signed_in, paid(history), query)


def test_the_diff_is_chosen_in_the_address(signed_in: Client, history: History) -> None:
    made = paid(history)
    choices = page_of(made, "diff=inline&ops=U").choices
    assert [letter for letter, on, _, _ in choices.ops if on] == ["U"]

    page = get(signed_in, made, "?diff=inline&ops=U")
    assert 'class="changes diff-inline"' in page
    assert "?diff=inline&amp;columns=all&amp;ops=U" in page
    assert 'href="?ops=U"' in page


def test_rolled_back_savepoints_are_counted_apart(signed_in: Client, history: History) -> None:
    made = history.commit(insert(1), insert(2, subxid=9), inserts=1, aborted_changes=1)
    AbortedSubtransaction.objects.create(transaction_id=made, subxid=9)
    page = get(signed_in, made)

    assert [words.split(":")[0] for words in page_of(made).apart] == [
        "1 change rolled back to a savepoint"
    ]
    assert "1 change rolled back to a savepoint" in heading(page)
    assert blocks(page) == [1]
    history.slot.keep_aborted = True
    history.slot.save()
    kept = get(signed_in, made)
    assert blocks(kept) == [1, 2]
    assert "it was rolled back already" in kept


def test_the_neighbours_of_the_chosen_table(signed_in: Client, history: History) -> None:
    other = history.table("other", 2, ["id"])
    first = history.commit(insert(1))
    middle = history.commit(insert(2), insert(3, version=other))
    last = history.commit(insert(4, version=other))
    neighbours = page_of(middle, "table=public.other").neighbours
    assert neighbours is not None
    assert neighbours.next is not None
    assert (neighbours.previous, neighbours.next.id) == (None, last)

    page = get(signed_in, middle, "?table=public.other")
    assert f'rel="next" href="/transactions/{last}/' in page
    assert "no earlier" in page
    assert f'rel="prev" href="/transactions/{first}/' in get(signed_in, middle)


def test_a_change_is_taken_away_as_json_and_sql(signed_in: Client, history: History) -> None:
    made = paid(history)

    record = json.loads(get(signed_in, made, "changes/1/json/"))
    assert record["op"] == "update"
    assert record["key"] == {"id": "1"}
    assert record["relation_oid"] == 16384
    sql = get(signed_in, made, "changes/1/sql/")
    assert sql == "UPDATE public.orders\nSET status = 'paid'\nWHERE id = '1';\n"
    undo = get(signed_in, made, "changes/1/undo/")
    assert undo.startswith("-- The old row was not sent: it is derived from transaction 701")
    assert undo.endswith("SET status = 'new'\nWHERE id = '1';\n")
    whole = get(signed_in, made, "undo/")
    assert whole.index("DELETE FROM") < whole.index("UPDATE public.orders")
    assert whole.endswith("COMMIT;\n")
    get(signed_in, made, "changes/3/sql/", status=404)
    get(signed_in, made, "changes/99999999999/sql/", status=404)


def test_an_undo_that_lacks_an_old_row_names_the_change(
    signed_in: Client, history: History
) -> None:
    made = history.commit(insert(1), {"op": "D", "old": {"id": "2"}, "old_kind": "K"})
    refused = get(signed_in, made, "undo/", status=409)

    assert "change 2, public.orders: old row unknown: the server sent only the key" in refused
    data = page_of(made)
    assert "undo is possible for 1 of 2 changes" in data.sentence.rest
    assert data.not_undone.startswith("change 2: old row unknown")
    page = get(signed_in, made)
    assert 'aria-disabled="true" aria-describedby="undo-why"' in page
    assert "data-undo-all" not in page


def test_a_transaction_too_large_for_a_clipboard_says_so(
    signed_in: Client, history: History
) -> None:
    made = history.commit(insert(1))
    Transaction.objects.filter(pk=made).update(inserts=1_001)

    assert "more than 1,000 changes" in get(signed_in, made, "undo/", status=409)
    assert "more than 1,000 changes" in get(signed_in, made)


def test_a_derived_value_is_shown_whole_on_demand(signed_in: Client, history: History) -> None:
    long = "x" * 4_000
    history.commit(insert(1, key_hash=1, new={"id": "1", "status": "a", "note": long}))
    made = history.commit(
        {"op": "U", "new": {"id": "1", "status": "b", "note": "short"}, "key_hash": 1}
    )
    assert "?side=before&amp;column=note" in get(signed_in, made)

    assert get(signed_in, made, "changes/1/value/?side=before&column=note") == long
    get(signed_in, made, "changes/1/value/?side=before&column=none", status=404)
    get(signed_in, made, "changes/1/value/?side=id&column=note", status=404)


def test_queries_do_not_grow_with_the_changes(signed_in: Client, history: History) -> None:
    few = history.commit(*(insert(n) for n in range(2)))
    many = history.commit(*(insert(n) for n in range(60)))
    for made in (few, many):
        get(signed_in, made)
    counted = []
    for made in (few, many):
        with CaptureQueriesContext(connection) as queries:
            get(signed_in, made)
        counted.append(len(queries))

    assert counted[0] == counted[1]
    assert counted[1] <= 18


def test_the_drawer_shows_the_same_blocks(history: History) -> None:
    made = paid(history)
    row = find_transaction(made)
    drawer, page = read_drawer(row), page_of(made)

    assert drawer.changes.blocks == page.blocks
    assert [block.seq for block in page.blocks] == [1, 2]
    assert (drawer.heading, drawer.lifecycle) == (page.heading, page.lifecycle)
    assert [block.seq for block in read_drawer(row, after=1).changes.blocks] == [2]


def test_a_drawer_lists_the_changes_a_page_at_a_time(history: History) -> None:
    row = find_transaction(history.commit(*(insert(n) for n in range(30))))
    first = read_drawer(row).changes

    assert ([block.seq for block in first.blocks], first.more_after) == (list(range(1, 26)), 25)
    rest = read_drawer(row, after=25).changes
    assert ([block.seq for block in rest.blocks], rest.more_after) == (list(range(26, 31)), None)


def test_the_heading_of_a_transaction(history: History) -> None:
    heading = heading_of(find_transaction(paid(history, actor="alice", actor_grade="claimed")))

    assert (heading.actor, heading.other_actors, heading.also, heading.grade_kind) == (
        "alice", "", "", "claim"
    )  # fmt: skip
    assert (heading.did, heading.rows, heading.tables) == ("changed", "2 rows", "1 table")
    assert (heading.total, heading.aborted) == ("2 changes", "")
    assert heading.origin == "none, written here"
    assert (heading.open, heading.ended) == (False, False)


def test_the_drawer_is_rendered(signed_in: Client, history: History) -> None:
    context = {"stamp": {"application_name": "psql"}, EVIL: "x"}
    made = paid(history, actor=EVIL, actor_grade="claimed", context=context)
    drawer = get(signed_in, made, "drawer/")

    assert EVIL not in drawer
    assert "claimed changed 2 rows in 1 table" in text_of(drawer)
    assert "2 changes in order" in text_of(drawer)
    assert "stamp.application_name psql" in text_of(drawer)
    assert blocks(drawer) == [1, 2]
    assert blocks(get(signed_in, made, "changes/?after=1")) == [2]
    assert "data-more" not in drawer
    long = history.commit(*(insert(n) for n in range(30)))
    more = f'data-more="/transactions/{long}/changes/?after=25"'
    assert more in get(signed_in, long, "drawer/")


def test_a_value_that_is_kept_aside_is_downloaded_whole(
    signed_in: Client, history: History
) -> None:
    pieces = ["é" * 1_500_000, "z" * 1_500_000]
    first = history.commit(
        insert(1, key_hash=1, new={"id": "1", "status": "a", "note": {"$aside": 3_000_000}})
    )
    for number, content in enumerate(pieces):
        LargeValue.objects.create(
            transaction_id=first, seq=1, side="new", column="note", piece=number, content=content
        )
    later = history.commit(
        {"op": "U", "new": {"id": "1", "status": "b", "note": "short"}, "key_hash": 1}
    )
    for made, side in ((first, "new"), (later, "before")):
        place = f"changes/1/value/?side={side}&amp;column=note&amp;whole=1"
        page = get(signed_in, made)
        assert f'download href="/transactions/{made}/{place}">' in page
        assert "download 3,000,000 characters" in page
        answer = signed_in.get(f"/transactions/{made}/{place}".replace("&amp;", "&"))
        assert b"".join(answer.streaming_content).decode() == "".join(pieces)
        assert answer["Content-Disposition"].startswith("attachment")
        shown = get(signed_in, made, f"changes/1/value/?side={side}&column=note")
        assert shown == "".join(pieces)[:2_000_000]

"""Downloads: a filtered view's changes, exact, in the order of history, as three kinds of file."""

import csv
import io
import json
import zipfile

import pyarrow.parquet as pq
import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient
from django.urls import reverse

from replview.access.visibility import forget
from replview.features.downloads import files as change_files
from replview.features.downloads.views import RefusedPage
from replview.store.models import MaskRule
from replview.store.read.changes.batches import Batching
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.page_elements import spaced
from tests.support.people import make_user


@pytest.fixture
def history(db) -> History:
    make_partitions()
    history = History()
    for shape in [history.orders]:
        shape.columns[0] |= {"type": "integer", "type_oid": 23}
        shape.save()
    history.commit(insert(1), insert(2), actor="=cmd")
    history.commit(
        {"op": "U", "new": {"id": "1", "status": 'päid,\n"x"', "note": None}}, actor="bob"
    )
    return history


def get(client, **words):
    return client.get(reverse("download"), {"slot": "shop/replview", **words})


def body(answer) -> bytes:
    assert answer.status_code == 200, answer.content[:2000]
    return b"".join(answer.streaming_content)


def lines(answer) -> list[dict]:
    return [json.loads(line) for line in body(answer).splitlines()]


def test_json_lines_are_the_one_form_in_the_order_of_history(signed_in, history) -> None:
    answer = get(signed_in, format="jsonl")
    found = lines(answer)
    assert [(r["commit_seq"], r["seq"]) for r in found] == [(1, 1), (1, 2), (2, 1)]
    assert found[2]["new"]["status"] == 'päid,\n"x"'
    name = answer["Content-Disposition"]
    assert name.startswith('attachment; filename="shop-replview-changes-')
    assert name.endswith('.jsonl"')


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ({"actor": "bob"}, 1),
        ({"table": "public.orders", "where": "status = new"}, 2),
        ({"q": "päid"}, 1),
        ({"ops": "I"}, 2),
        ({"id": "701"}, 2),
        ({"until": "2020-01-01"}, 0),
    ],
)
def test_the_words_are_those_of_the_pages(signed_in, history, words, number) -> None:
    assert len(lines(get(signed_in, **words))) == number


def test_one_transaction(signed_in, history) -> None:
    identifier = history.commit(insert(9))
    (record,) = lines(get(signed_in, transaction=str(identifier)))
    assert record["key"] == {"id": "9"}


def test_one_row(signed_in, history) -> None:
    from replview.store.read.rows import signed_hash

    key = {"key_hash": signed_hash(["77"])}
    history.commit(insert(77, **key))
    history.commit({"op": "D", "old_kind": "K", "old": {"id": "77"}, **key})
    for words in ({"key": "77"}, {"key.id": "77"}):
        answer = get(signed_in, table="public.orders", **words)
        assert [r["op"] for r in lines(answer)] == ["insert", "delete"]
        assert "-id-77-" in answer["Content-Disposition"]


def test_csv_is_exact_and_starts_no_formula(signed_in, history) -> None:
    rows = list(
        csv.DictReader(io.StringIO(body(get(signed_in, format="csv")).decode(), newline=""))
    )
    assert [row["actor"] for row in rows] == ["'=cmd", "'=cmd", "bob"]
    assert json.loads(rows[2]["new"])["status"] == 'päid,\n"x"'
    assert rows[0]["old"] == ""


def test_parquet_of_one_table_is_one_typed_file(signed_in, history) -> None:
    answer = get(signed_in, format="parquet", table="public.orders")
    table = pq.read_table(io.BytesIO(body(answer)))
    assert table.column("id").to_pylist() == [1, 2, 1]
    assert answer["Content-Disposition"].endswith('.parquet"')


def test_parquet_of_several_is_a_zip_of_files(signed_in, history) -> None:
    items = history.table("items", 2, ["id"])
    history.commit({"op": "I", "new": {"id": "7"}, "version": items})
    answer = get(signed_in, format="parquet")
    archive = zipfile.ZipFile(io.BytesIO(body(answer)))
    assert sorted(archive.namelist()) == [
        "_events.parquet", "_transactions.parquet", "public.items.parquet", "public.orders.parquet"
    ]  # fmt: skip
    transactions = pq.read_table(archive.open("_transactions.parquet")).to_pylist()
    assert [(t["commit_seq"], t["state"], t["inserts"], t["actors"]) for t in transactions] == [
        (1, "committed", 2, ["=cmd"]), (2, "committed", 0, ["bob"]), (3, "committed", 1, [])
    ]  # fmt: skip


def test_parquet_tells_no_size_where_a_value_is_masked(signed_in, history) -> None:
    items = history.table("items", 2, ["id"])
    history.commit({"op": "I", "new": {"id": "7"}, "version": items}, size_bytes=48151,
                   relations={str(items.relation_id): [1, 0, 0, 0]})  # fmt: skip

    def size() -> int | None:
        archive = zipfile.ZipFile(io.BytesIO(body(get(signed_in, format="parquet"))))
        return pq.read_table(archive.open("_transactions.parquet")).to_pylist()[-1]["size_bytes"]

    assert size() == 48151
    MaskRule.objects.create(table_pattern="items", column_pattern="id", when="display")
    forget()
    assert size() is None
    forget()


def test_nothing_is_left_on_disk(signed_in, history, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    body(get(signed_in, format="parquet", table="public.orders"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"format": "xlsx"}, "there is no format"),
        ({"slot": "shop/none"}, "there is no such slot"),
        ({"where": "status"}, "after status comes"),
        ({"table": "public.orders", "where": "statuz = 1"}, "no column statuz"),
        ({"key": "1"}, "name one table"),
        ({"since": "some day"}, "not understood: since"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_reason(signed_in, history, words, told) -> None:
    answer = get(signed_in, **words)
    assert answer.status_code == 422
    page = answer.context["page"]
    assert told in page.why
    assert page.counted is None


def test_too_many_are_refused_where_the_counters_tell(signed_in, history, monkeypatch) -> None:
    monkeypatch.setattr("replview.features.downloads.files.MOST_CHANGES", 2)
    answer = get(signed_in)
    assert answer.status_code == 422
    assert answer.context["page"] == RefusedPage(counted=3, most=2)


def test_a_refusal_renders(signed_in, history, monkeypatch) -> None:
    page = spaced(get(signed_in, table="public.orders", where="<b> = 1").content.decode())
    assert "<b>The download was refused.</b>" in page
    assert "name is missing at “&lt;b&gt; = 1”" in page
    monkeypatch.setattr("replview.features.downloads.files.MOST_CHANGES", 2)
    page = spaced(get(signed_in).content.decode())
    assert "<b>Too many changes for a download.</b>" in page
    assert "at most 2 changes; this view holds 3 or more." in page


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_what_cannot_be_counted_is_cut_and_says_so(signed_in, history, monkeypatch, form) -> None:
    monkeypatch.setattr(change_files, "MOST_CHANGES", 1)
    monkeypatch.setattr(change_files.line_pieces, "__defaults__", (1,))
    answer = get(signed_in, format=form, table="public.orders", where="status ~ n")
    content = body(answer)
    if form == "parquet":
        assert answer["X-Replview-Cut"]
        assert pq.read_table(io.BytesIO(content)).num_rows == 1
    else:
        assert b"cut after 1 changes" in content.splitlines()[-1]


@pytest.mark.django_db(transaction=True)
async def test_under_asgi_the_pieces_come_one_by_one(monkeypatch, history_async) -> None:
    monkeypatch.setattr(Batching.__init__, "__defaults__", (1, 1, 0))
    client = AsyncClient()
    await client.aforce_login(await sync_to_async(make_user)("alice"))
    answer = await client.get(reverse("download"), {"slot": "shop/replview"})
    assert answer.status_code == 200, answer.content[:3000]
    pieces = [piece async for piece in answer.streaming_content]
    await sync_to_async(connections.close_all)()
    assert [piece.count(b"\n") for piece in pieces] == [1, 1, 1]
    assert all(json.loads(piece) for piece in pieces)


@pytest.fixture
def history_async(transactional_db) -> History:
    make_partitions()
    history = History()
    history.commit(insert(1), insert(2), insert(3))
    return history


def test_strangers_are_asked_to_sign_in(client, history) -> None:
    assert get(client).status_code == 302

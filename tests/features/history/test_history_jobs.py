"""The pages of history jobs: what they offer, what they refuse, what they show of an end."""

import html
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from replview.features.history.job import arguments, rows
from replview.parquet.reading import connect, resolve
from replview.parquet.writing.exporting import export
from replview.parquet.writing.targets import Target
from replview.store import instance_settings
from replview.store.connecting import store_conninfo
from replview.store.models import Export, HistoryJob
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.page_elements import spaced
from tests.support.people import make_user


@pytest.fixture
def root(transactional_db, settings, tmp_path: Path) -> Path:
    """What a finished export of three orders wrote."""
    settings.DATA_DIR = tmp_path
    make_partitions()
    history = History()
    history.commit(insert(1), insert(2), relations={str(history.orders.relation_id): [2, 0, 0, 0]})
    history.commit(insert(3), actor="alice")
    folder = tmp_path / "elsewhere"
    with connect(store_conninfo()) as store:
        part = resolve(store, source="shop", slot="replview")
    export(part, Target.of(str(folder)), dsn=store_conninfo())
    Export.objects.create(
        slot=history.slot, slot_name="shop/replview", slice=part.to_json(), target=str(folder),
        requested_by="root", requested_how="page", state="done",
    )  # fmt: skip
    return folder


@pytest.fixture
def client(transactional_db) -> Client:
    """Signed in, an operator."""
    client = Client()
    client.force_login(make_user("alice"))
    return client


def verdict(page: str) -> str:
    """The sentence over the page."""
    return " ".join(re.sub(r"<[^>]*>", " ", page.split("<h1>")[1].split("</h1>")[0]).split())


def told(client: Client, address: str) -> str:
    return verdict(client.get(address).content.decode())


def test_without_anything_exported_it_says_so(client: Client) -> None:
    assert told(client, "/history/").startswith("Nothing to compute over.")


def test_the_address_is_the_job(root: Path, client: Client) -> None:
    page = client.get("/history/").content.decode()
    assert verdict(page).startswith("Ready to show a table as it was")
    assert "<option selected>public.orders</option>" in page
    assert "<option selected>shop/replview-1</option>" in page
    assert str(root) in page

    page = client.get("/history/?job=who-changed-what&tables=public.orders").content.decode()
    assert verdict(page).startswith("Ready to show changes by actor")
    assert 'name="tables" value="public.orders" checked' in spaced(page)
    for wrong, why in (
        ("table=public.nothing", "no table public.nothing is exported of shop/replview-1 there"),
        ("life=shop/other-1", "nothing is exported of shop/other-1 there"),
        ("lsn=x", "is no LSN"),
        ("lsn=0/10&time=2026-11-20", "an LSN and a time are two moments"),
        ("job=drop", "there is no history job"),
        ("job=hot-rows&top=0", "is no number of rows"),
        (f"root={root}/..", "has .. in it"),
        ("root=/etc", "only folders within"),
    ):
        page = client.get(f"/history/?{wrong}").content.decode()
        assert verdict(page).startswith("This job cannot run:"), wrong
        assert why in verdict(page)
    page = client.get('/history/?table="><i>x&root="><i>').content.decode()
    assert "<i>" not in page


def test_what_is_asked_for_is_recorded_and_cancelled(root: Path, client: Client) -> None:
    words = {"job": "as-of", "root": str(root), "life": "shop/replview-1",
             "table": "public.orders", "time": "2026-11-20 08:00", "top": "3"}  # fmt: skip
    answer = client.post("/history/new/", words)
    row = HistoryJob.objects.get()
    assert answer["Location"] == f"/history/{row.pk}/"
    assert (row.state, row.requested_by, row.root) == ("waiting", "alice", str(root))
    assert row.words == {
        "life": "shop/replview-1",
        "table": "public.orders",
        "time": "2026-11-20T08:00:00+00:00",
    }
    words_of_job = arguments(row, Path("/out"))
    assert words_of_job[:3] == ["as-of", f"--root={root}", "--life=shop/replview-1"]
    assert "--time=2026-11-20T08:00:00+00:00" in words_of_job
    assert "Waiting for a worker" in told(client, answer["Location"])

    client.post(f"/history/{row.pk}/cancel/")
    assert told(client, answer["Location"]).startswith("Cancelled:")
    assert f'href="/history/{row.pk}/"' in client.get("/history/all/").content.decode()
    assert client.post("/history/new/", words | {"root": "/etc"}).status_code == 422
    assert HistoryJob.objects.count() == 1


def test_the_switch_of_exports_forbids_them_too(root: Path, client: Client) -> None:
    instance_settings.write("exports.allowed", False, "root")
    assert told(client, "/history/").startswith("Exports are switched off")
    words = {"job": "as-of", "root": str(root), "table": "public.orders"}
    assert client.post("/history/new/", words).status_code == 422


def ended(job: str = "as-of", words: dict | None = None, **values: Any) -> HistoryJob:
    row = HistoryJob.objects.create(job=job, root="/r", requested_by="alice", words=words or {})
    claim = rows.claim()
    assert claim is not None
    if "result" in values:
        assert rows.finish(claim, result=values["result"])
    else:
        assert rows.fail(claim, values["cause"], values["remedy"])
    return row


def test_doubts_stand_above_the_rows(client: Client) -> None:
    row = ended(
        result={
            "columns": ["id", "note"], "rows": [["1", None], ["2", "<b>x</b>"]], "more": True,
            "complete": False, "reasons": ["no baseline is exported", "a gap"],
            "told": {"begins": {"lsn": "0/10"}, "key": ["id"], "life": None},
        }
    )  # fmt: skip
    page = client.get(f"/history/{row.pk}/").content.decode()
    assert verdict(page).startswith(
        "Done: more than 2 rows. Not complete: no baseline is exported (1 more below)."
    )
    assert "<li>a gap</li>" in page
    assert '<i class="unknown">null</i>' in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert '<th scope="row">begins: lsn</th><td class="mono wraps">0/10</td>' in page


def test_the_job_says_which_engine_answers(client: Client) -> None:
    told = {"answered_by": "DuckDB", "rows_read": 338_112}
    row = HistoryJob.objects.create(job="as-of", root="/r", requested_by="alice")
    claim = rows.claim()
    assert claim is not None
    rows.beat(claim, result={"told": told})
    page = client.get(f"/history/{row.pk}/").content.decode()
    assert ": DuckDB in the worker reads 338,112 rows." in verdict(page)
    rows.finish(claim, result={"columns": ["id"], "rows": [[1]], "complete": True, "told": told})
    page = client.get(f"/history/{row.pk}/").content.decode()
    assert verdict(page).startswith("Done: 1 row, answered by DuckDB in the worker.")
    assert "answered by</th>" not in page


def test_the_page_says_who_will_answer(root: Path, client: Client, monkeypatch) -> None:
    monkeypatch.setenv("REPLVIEW_SPARK", "sc://spark.example.com")
    said = verdict(client.get("/history/").content.decode())
    assert "DuckDB answers from up to 10,000,000 rows of Parquet. Spark answers from more." in said
    monkeypatch.setenv("REPLVIEW_SPARK_ABOVE", "0")
    assert "Spark answers. Next: run it" in verdict(client.get("/history/").content.decode())
    monkeypatch.setenv("REPLVIEW_SPARK_ABOVE", "many")
    said = verdict(client.get("/history/").content.decode())
    assert said.startswith("No job can run: REPLVIEW_SPARK_ABOVE is no number of rows.")
    # As where no Java is: DuckDB needs none.
    monkeypatch.delenv("REPLVIEW_SPARK")
    monkeypatch.setenv("REPLVIEW_SPARK_ABOVE", "1000")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    page = client.get("/history/").content.decode()
    assert "up to 1,000 rows of Parquet. But for more of them Spark or its Java" in verdict(page)
    assert "btn-primary" in page


def test_who_changed_what_leads_to_those_transactions(root: Path, client: Client) -> None:
    row = ended(
        job="who-changed-what",
        words={"life": "shop/replview-1", "since": "2026-11-20T08:00+00:00"},
        result={
            "columns": ["actor", "table", "operation", "column", "changes"], "complete": True,
            "rows": [[None, "public.orders", "insert", None, 2000],
                     ["alice", "public.orders", "update, before unknown", None, 1]],
        },
    )  # fmt: skip
    page = client.get(f"/history/{row.pk}/").content.decode()
    assert verdict(page) == "Done: 2 rows. Complete: all that it takes is exported."
    assert '<i class="unknown">nobody named</i>' in page
    links = re.findall(r'<td class="mono[^>]*>\s*<a href="([^"]*)">([^<]*)<', page)
    (many, two), (who, alice), (one, _) = [(html.unescape(to), text) for to, text in links]
    assert (two, alice) == ("2,000", "alice")
    assert "actor=%3F&tables=public.orders&ops=I&since=2026-11-20T08" in many
    assert "ops=U" in one
    for address in (many, who, one):
        assert client.get(address).status_code == 200


def test_a_row_it_names_leads_to_its_history(root: Path, client: Client) -> None:
    row = ended(
        job="hot-rows", words={"life": "shop/replview-1", "table": "public.orders"},
        result={"columns": ["id", "changes"], "rows": [[1, 3], [None, 2]], "told": {"key": ["id"]}},
    )  # fmt: skip
    page = client.get(f"/history/{row.pk}/").content.decode()
    [link] = re.findall(r'<a href="(/rows/[^"]*)">1</a>', page)
    assert "key.id=1" in html.unescape(link)


def test_it_says_how_many_jobs_come_first(client: Client) -> None:
    first, second = (
        HistoryJob.objects.create(job="as-of", root="/r", requested_by="alice") for _ in range(2)
    )
    assert told(client, f"/history/{first.pk}/").startswith("Waiting for a worker.")
    assert told(client, f"/history/{second.pk}/").startswith("Waiting: 1 job comes first.")


def test_a_problem_stands_with_its_remedy(client: Client) -> None:
    row = ended(cause="Spark finds no Java here", remedy="install Java 17: apt-get install x")
    assert told(client, f"/history/{row.pk}/") == (
        "Failed: Spark finds no Java here. Next: install Java 17: apt-get install x."
    )
    # Who looked while it ran is shown the end.
    answer = client.get(f"/history/{row.pk}/", headers={"HX-Request": "true"})
    assert answer["HX-Refresh"] == "true"

"""The pages of history jobs: what they offer, what they refuse, what they show of an end."""

import html
from pathlib import Path
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client

from replview.features.history.job import _EngineReader, arguments, rows
from replview.features.history.page import LISTS, HistoryPage, read_history_page
from replview.features.history.record import HistoryRecord, ResultCell, read_history_record
from replview.parquet.reading import SliceRequest, connect, resolve
from replview.parquet.writing.exporting import export
from replview.parquet.writing.targets import Target
from replview.store import instance_settings
from replview.store.connecting import store_conninfo
from replview.store.models import Export, HistoryJob
from replview.store.retention.tidy import make_partitions
from replview.ui.job_pages import words_of
from replview.ui.sentence import Sentence
from tests.support.history_rows import History, insert
from tests.support.page_elements import spaced
from tests.support.people import make_user


@pytest.fixture
def root(transactional_db, settings, tmp_path: Path) -> Path:
    """Export three inserted orders and return the folder of the export."""
    settings.DATA_DIR = tmp_path
    make_partitions()
    history = History()
    history.commit(insert(1), insert(2), relations={str(history.orders.relation_id): [2, 0, 0, 0]})
    history.commit(insert(3), actor="alice")
    folder = tmp_path / "elsewhere"
    with connect(store_conninfo()) as store:
        part = resolve(store, SliceRequest(source="shop", slot="replview"))
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


def page_of(query: str = "") -> HistoryPage:
    """Return the page of an address, as an operator has it."""
    return read_history_page(words_of(QueryDict(query), LISTS), anywhere=False)


def record_of(row: HistoryJob) -> HistoryRecord:
    return read_history_record(HistoryJob.objects.get(pk=row.pk))


def html_of(client: Client, address: str) -> str:
    return spaced(client.get(address).content.decode())


def test_without_anything_exported_it_says_so(transactional_db) -> None:
    sentence = page_of().sentence
    assert (sentence.title, sentence.ready) == ("No export yet.", False)


def test_the_page_renders(root: Path, client: Client) -> None:
    page = html_of(client, "/history/?job=who-changed-what&tables=public.orders")
    assert "<b>Ready to show changes by actor" in page
    assert 'name="tables" value="public.orders" checked' in page
    assert "<option selected>shop/replview-1</option>" in page
    assert str(root) in page
    assert "btn-primary" in page
    assert ", of <b>orders</b>, in the history of <b>shop/replview-1</b>" in page
    assert "<option selected>public.orders</option>" in html_of(client, "/history/")
    # Links of earlier releases name the incarnation ``life``.
    assert "nothing is exported of shop/other-1" in html_of(client, "/history/?life=shop/other-1")
    page = html_of(client, '/history/?table="><i>x&root="><i>')
    assert "<b>This job cannot run:</b>" in page
    assert "<i>" not in page


def test_the_address_is_the_job(root: Path) -> None:
    page = page_of()
    assert page.sentence.title.startswith("Ready to show a table as it was")
    assert page.words == {
        "job": "as-of", "root": str(root), "incarnation": "shop/replview-1",
        "table": "public.orders",
    }  # fmt: skip
    assert (page.incarnations, page.tables) == (["shop/replview-1"], ["public.orders"])

    page = page_of("job=who-changed-what&tables=public.orders")
    assert page.sentence.title.startswith("Ready to show changes by actor")
    assert page.chosen_tables == ["public.orders"]
    for wrong, why in (
        ("table=public.nothing", "no table public.nothing is exported of shop/replview-1 there"),
        ("incarnation=shop/other-1", "nothing is exported of shop/other-1 there"),
        ("lsn=x", "is no LSN"),
        ("lsn=0/10&time=2026-11-20", "give either an LSN or a time"),
        ("job=drop", "there is no history job"),
        ("job=hot-rows&top=0", "is no number of rows"),
        (f"root={root}/..", "has .. in it"),
        ("root=/etc", "only folders within"),
    ):
        sentence = page_of(wrong).sentence
        assert (sentence.title, sentence.ready) == ("This job cannot run:", False), wrong
        assert why in sentence.cause


def test_the_fields_are_summed_up_in_a_sentence(root: Path) -> None:
    def summary(query: str) -> str:
        return "".join(f"{part.words} {part.value}" for part in page_of(query).summary)

    assert summary("") == (
        "Show a table as it was at a commit LSN or time, of public.orders"
        f", in the history of shop/replview-1, at the end, from the files in {root}"
    )
    assert ", at commit LSN 0/10, from the files" in summary("lsn=0/10")
    assert ", at 2026-11-20, from the files" in summary("time=2026-11-20")
    assert summary("job=churn&since=2026-11-20&to_lsn=0/10").endswith(
        ", committed from 2026-11-20 to the end, to LSN 0/10, by the minute"
        f", from the files in {root}"
    )
    assert ", the first 20 rows, from" in summary("job=hot-rows")
    assert ", of orders, in" in summary("job=who-changed-what&tables=public.orders")
    assert summary("job=drop").startswith("Show ")


def test_what_is_asked_for_is_recorded_and_cancelled(root: Path, client: Client) -> None:
    words = {"job": "as-of", "root": str(root), "incarnation": "shop/replview-1",
             "table": "public.orders", "time": "2026-11-20 08:00", "top": "3"}  # fmt: skip
    answer = client.post("/history/new/", words)
    row = HistoryJob.objects.get()
    assert answer["Location"] == f"/history/{row.pk}/"
    assert (row.state, row.requested_by, row.root) == ("waiting", "alice", str(root))
    assert row.words == {
        "incarnation": "shop/replview-1",
        "table": "public.orders",
        "time": "2026-11-20T08:00:00+00:00",
    }
    words_of_job = arguments(row, Path("/out"))
    assert words_of_job[:3] == ["as-of", f"--root={root}", "--incarnation=shop/replview-1"]
    assert "--time=2026-11-20T08:00:00+00:00" in words_of_job
    assert record_of(row).sentence.title == "Waiting for a worker."

    client.post(f"/history/{row.pk}/cancel/")
    assert record_of(row).sentence.title == "Cancelled:"
    assert client.get("/history/all/").context["page"].rows == [row]
    assert client.post("/history/new/", words | {"root": "/etc"}).status_code == 422
    assert HistoryJob.objects.count() == 1


def test_the_list_of_all_jobs_renders(client: Client) -> None:
    assert "No jobs yet" in html_of(client, "/history/all/")
    row = HistoryJob.objects.create(job="as-of", root="<b>", requested_by="<i>")
    page = html_of(client, "/history/all/")
    assert f'href="/history/{row.pk}/"' in page
    assert "&lt;b&gt;" in page
    assert "<i>" not in page
    assert 'rel="next"' not in page


def test_pages_of_all_jobs_follow_each_other(client: Client) -> None:
    rows = HistoryJob.objects.bulk_create(
        HistoryJob(job="as-of", root="/r", requested_by="alice") for _ in range(101)
    )
    rows.sort(key=lambda row: -row.pk)
    answer = client.get("/history/all/")
    first = answer.context["page"]
    assert (first.rows, first.older) == (rows[:100], rows[99].pk)
    assert f'href="?before={first.older}" rel="next"' in answer.content.decode()
    second = client.get("/history/all/", {"before": first.older}).context["page"]
    assert (second.rows, second.older) == (rows[100:], None)


def test_the_switch_of_exports_forbids_them_too(root: Path, client: Client) -> None:
    instance_settings.write("exports.allowed", False, "root")
    assert page_of().sentence.title.startswith("Exports are switched off")
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


def test_a_job_renders(client: Client) -> None:
    row = ended(
        result={
            "columns": ["id", "note"], "rows": [["1", None], ["2", "<b>x</b>"]],
            "complete": False, "reasons": ["no baseline is exported", "<i>"],
            "details": {"begins": {"lsn": "0/10"}},
        }
    )  # fmt: skip
    page = html_of(client, f"/history/{row.pk}/")
    assert "<b>Done: 2 rows.</b> Not complete: no baseline is exported (1 more below)." in page
    assert "<li>&lt;i&gt;</li>" in page
    assert '<i class="unknown">null</i>' in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert '<th scope="row">begins: lsn</th><td class="mono wraps">0/10</td>' in page


def test_doubts_stand_above_the_rows(db) -> None:
    row = ended(
        result={
            "columns": ["id", "note"], "rows": [["1", None], ["2", "<b>x</b>"]], "more": True,
            "complete": False, "reasons": ["no baseline is exported", "a gap"],
            "details": {"begins": {"lsn": "0/10"}, "key": ["id"], "incarnation": None},
        }
    )  # fmt: skip
    record = record_of(row)
    assert record.sentence == Sentence(
        level="look",
        title="Done: more than 2 rows.",
        cause="Not complete: no baseline is exported (1 more below).",
    )
    assert record.reasons == ["no baseline is exported", "a gap"]
    assert record.rows == [
        [ResultCell("1"), ResultCell("null", unknown=True)],
        [ResultCell("2"), ResultCell("<b>x</b>")],
    ]
    assert record.reported == [("key", "id"), ("begins: lsn", "0/10"), ("incarnation", "unknown")]


def test_the_job_says_which_engine_answers(db) -> None:
    details = {"answered_by": "DuckDB", "rows_read": 338_112}
    row = HistoryJob.objects.create(job="as-of", root="/r", requested_by="alice")
    claim = rows.claim()
    assert claim is not None
    rows.beat(claim, result={"details": details})
    assert record_of(row).sentence.title.endswith(": DuckDB in the worker reads 338,112 rows.")
    result = {"columns": ["id"], "rows": [[1]], "complete": True, "details": details}
    rows.finish(claim, result=result)
    record = record_of(row)
    assert record.sentence.title == "Done: 1 row, answered by DuckDB in the worker."
    assert record.reported == []


def test_the_page_says_who_will_answer(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLVIEW_SPARK", "sc://spark.example.com")
    assert page_of().sentence.cause == (
        "DuckDB answers from up to 10,000,000 rows of Parquet. Spark answers from more."
    )
    monkeypatch.setenv("REPLVIEW_SPARK_ABOVE", "0")
    sentence = page_of().sentence
    assert sentence.cause == "Spark answers."
    assert sentence.next.startswith("run it")
    monkeypatch.setenv("REPLVIEW_SPARK_ABOVE", "many")
    sentence = page_of().sentence
    assert sentence.title == "No job can run:"
    assert sentence.cause.startswith("REPLVIEW_SPARK_ABOVE is no number of rows.")
    # DuckDB needs no Java, which is missing here.
    monkeypatch.delenv("REPLVIEW_SPARK")
    monkeypatch.setenv("REPLVIEW_SPARK_ABOVE", "1000")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    sentence = page_of().sentence
    assert "up to 1,000 rows of Parquet. But for more of them Spark or its Java" in sentence.cause
    assert (sentence.level, sentence.ready) == ("ok", True)


def test_who_changed_what_leads_to_those_transactions(root: Path, client: Client) -> None:
    row = ended(
        job="who-changed-what",
        words={"incarnation": "shop/replview-1", "since": "2026-11-20T08:00+00:00"},
        result={
            "columns": ["actor", "table", "operation", "column", "changes"], "complete": True,
            "rows": [[None, "public.orders", "insert", None, 2000],
                     ["alice", "public.orders", "update, before unknown", None, 1]],
        },
    )  # fmt: skip
    record = record_of(row)
    assert record.sentence == Sentence(
        level="ok", title="Done: 2 rows.", cause="Complete: all input is exported."
    )
    (nobody, *_, many), (alice, *_, single) = record.rows
    assert nobody == ResultCell("nobody named", unknown=True)
    assert (many.text, alice.text, single.text) == ("2,000", "alice", "1")
    assert "actor=%3F&tables=public.orders&ops=I&since=2026-11-20T08" in many.url
    assert "ops=U" in single.url
    page = html_of(client, f"/history/{row.pk}/")
    for cell in (many, alice, single):
        assert f'<a href="{html.escape(cell.url)}">{cell.text}</a>' in page
        assert client.get(cell.url).status_code == 200


def test_a_row_it_names_leads_to_its_history(root: Path) -> None:
    row = ended(
        job="hot-rows", words={"incarnation": "shop/replview-1", "table": "public.orders"},
        result={
            "columns": ["id", "changes"], "rows": [[1, 3], [None, 2]], "details": {"key": ["id"]},
        },
    )  # fmt: skip
    (first, changes), (unknown, _) = record_of(row).rows
    assert first.url.startswith("/rows/")
    assert "key.id=1" in first.url
    assert (changes.url, unknown.url) == ("", "")


def test_it_says_how_many_jobs_come_first(db) -> None:
    first, second = (
        HistoryJob.objects.create(job="as-of", root="/r", requested_by="alice") for _ in range(2)
    )
    assert record_of(first).sentence.title == "Waiting for a worker."
    assert record_of(second).sentence.title == "Waiting: 1 job comes first."


def test_a_problem_stands_with_its_remedy(signed_in: Client) -> None:
    row = ended(cause="Spark finds no Java here", remedy="install Java 17: apt-get install x")
    assert record_of(row).sentence == Sentence(
        level="now",
        title="Failed:",
        cause="Spark finds no Java here.",
        next="install Java 17: apt-get install x.",
    )
    # Who looked while it ran is shown the end.
    answer = signed_in.get(f"/history/{row.pk}/", headers={"HX-Request": "true"})
    assert answer["HX-Refresh"] == "true"


def test_the_engine_is_known_while_a_job_runs(tmp_path) -> None:
    log = tmp_path / "log"
    log.write_text('{"answered_by":"Spark","rows_read":1}\n')
    read_engine = _EngineReader(log)  # of the run that begins now
    assert read_engine() is None
    with log.open("a", buffering=1) as lines:
        lines.write('a warning\n{"answered_by":')
        lines.flush()
        assert read_engine() is None
        lines.write('"DuckDB","rows_read":7}\n')
    assert read_engine() == {"result": {"details": {"answered_by": "DuckDB", "rows_read": 7}}}
    assert read_engine() is None

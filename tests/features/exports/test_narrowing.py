"""An export is of exactly the transactions that the page's filter shows."""

import datetime as dt
import hashlib
import json
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from psycopg import sql
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from replview.access.tokens import make_token
from replview.access.visibility import reading_session
from replview.features.exports.request import read_export_request
from replview.jobs import exports
from replview.management.commands import export as by_command
from replview.parquet.reading import SliceRequest, connect, resolve
from replview.parquet.slices import Slice
from replview.parquet.writing.exporting import export
from replview.parquet.writing.layout import slice_name
from replview.parquet.writing.planning import transactions_of
from replview.parquet.writing.targets import Target
from replview.spark.options import Options
from replview.spark.pushed_filters import narrowed
from replview.store.connecting import store_conninfo
from replview.store.models import Export, Transaction
from replview.store.read.transactions.transaction_filter import TransactionFilter, conditions_of
from replview.targets.policy import Refused
from tests.support.history_rows import WHEN, History
from tests.support.people import make_user

JSON = "application/json"
#: Words of a filter, and which of the history's transactions pass.
FILTERS = [
    ({"q": "urgent"}, [3, 4]),
    ({"q": "URGENT 100%"}, [3]),
    ({"q": "urgent_100"}, []),
    ({"q": "alice"}, [2]),
    ({"q": "public.ord"}, [1, 2, 3]),
    ({"id": "order-7"}, [3]),
    ({"id": "702"}, [2]),
    ({"origin": "elsewhere"}, [2]),
    ({"origin": "-"}, [1, 3, 4]),
    ({"states": "message"}, [4]),
    ({"states": "committed,snapshot"}, [1, 2, 3]),
    ({"min_changes": "2"}, [1]),
    ({"min_bytes": "5000"}, [3]),
    ({"prepared_min": "30"}, [3]),
    ({"prepared_min": "31"}, []),
    ({"actor": "?"}, [1, 4]),
    ({"q": "urgent", "tables": "public.orders", "ops": "U", "actor": "bob"}, [3]),
]


@pytest.fixture
def told(history: History) -> History:
    """Return a history with an origin, a prepared transaction, a lone message and an abort."""
    rows = {str(history.orders.relation_id): [0, 1, 0, 0]}
    connection.cursor().execute(
        "UPDATE transaction SET origin = CASE actor WHEN 'alice' THEN 'elsewhere' END;"
        "UPDATE transaction SET size_bytes = 5000, gid = 'order-7', prepared_at = %s"
        " WHERE actor = 'bob';"
        "UPDATE change SET new = jsonb_set(new, '{note}', '\"Urgent 100%%\"') WHERE op = 'U'",
        [WHEN - dt.timedelta(seconds=30)],
    )
    said = {"op": "M", "new": {"prefix": "app", "content": "an urgent call", "transactional": True}}
    history.commit(said, state="message")
    history.commit({"op": "U", "new": {"id": "1"}}, state="aborted", actor="bob", relations=rows)
    return history


def on_the_page(words: dict[str, str]) -> list[int]:
    found = conditions_of(reading_session(), TransactionFilter.from_words(words))
    with connection.cursor() as cursor:
        query = sql.SQL(
            "SELECT commit_seq FROM transaction t WHERE commit_seq IS NOT NULL AND {} ORDER BY 1"
        )
        cursor.execute(query.format(found.row_sql), found.values)
        return [row[0] for row in cursor.fetchall()]


def in_the_export(part: Slice) -> list[int]:
    with connect(store_conninfo()) as store:
        query = sql.SQL("SELECT t.commit_seq FROM transaction t WHERE {} ORDER BY 1")
        return [row[0] for row in store.execute(query.format(transactions_of(store, part)))]


def test_every_filter_of_the_page_narrows_an_export(told: History) -> None:
    for words, expected in FILTERS:
        export_request = read_export_request(told.slot, words)
        assert in_the_export(export_request.slice) == on_the_page(words) == expected, words
        assert (
            Slice.from_json(json.loads(json.dumps(export_request.slice.to_json())))
            == export_request.slice
        )
        # The words of a request make the same request again.
        assert read_export_request(told.slot, export_request.words).slice == export_request.slice


def test_an_order_of_an_earlier_version_is_the_same_slice() -> None:
    narrowed = {"states": ["committed"], "no_actor": True, "origin": "-", "id": "7", "text": "x",
                "min_changes": 1, "min_bytes": 2, "prepared_min": 3, "searched": ["public.orders"],
                "in_messages": False}  # fmt: skip
    ends = {"incarnation_id": 1, "incarnation": 1, "after_seq": 0, "through_seq": 9}
    part = Slice.from_json({"source": "shop", "slot": "replview", **ends, "narrowed": narrowed})

    assert part.narrowed.filter.words() == {
        "states": "committed", "actor": "?", "origin": "-", "q": "x", "id": "7",
        "min_changes": "1", "min_bytes": "2", "prepared_min": "3",
    }  # fmt: skip
    assert part.to_json()["narrowed"] == narrowed
    # Manifests in an archive have names with this digest.
    assert slice_name(part).endswith("f6cb6b3e7f6f")


def test_the_options_of_sparks_source_mean_the_same(told: History) -> None:
    names = {"q": "text", "id": "gid", "tables": "relation", "ops": "operations", "actor": "actors"}
    for words, expected in FILTERS:
        options = {names.get(name, name): word for name, word in words.items()}
        options["operations"] = {"U": "update"}.get(words.get("ops", ""), "")
        parsed = Options.parse({**options, "dsn": store_conninfo(), "slot": "shop/replview"})
        with connect(parsed.dsn) as store:
            part = parsed.shown(store, resolve(store, parsed.request))
        assert in_the_export(part) == expected, words
        assert part == read_export_request(told.slot, words).slice
    # A text is not looked for where its being found would tell of a value.
    hiding = Options.parse({"text": "urgent", "excluded": "public.orders", "dsn": store_conninfo()})
    told.table("items", 2, ["id"])
    with connect(hiding.dsn) as store:
        part = hiding.shown(store, resolve(store, hiding.request))
    assert (part.tables, part.narrowed.searched) == (("public.items",), ("public.items",))


def test_filters_of_spark_narrow_by_place_xid_and_nobody(told: History) -> None:
    with connect(store_conninfo()) as store:
        whole = resolve(store, SliceRequest())
    for filters, typed, expected in (
        ([EqualTo(("xid",), 702)], False, [2]),
        ([EqualTo(("_xid",), 702), EqualTo(("_xid",), 703)], True, [2]),
        ([IsNull(("actor",))], False, [1, 4]),
        ([IsNull(("_actor",))], True, [1, 4]),
        # Spark compares with a name, which must not choose transactions of an unknown actor.
        ([EqualTo(("actor",), "?")], False, [1, 2, 3, 4]),
        ([GreaterThan(("commit_seq",), 1), LessThanOrEqual(("commit_seq",), 3)], False, [2, 3]),
        ([EqualTo(("commit_seq",), 2)], False, [2]),
        ([LessThan(("commit_seq",), 1)], False, []),
        ([GreaterThanOrEqual(("commit_seq",), 99)], False, []),
        # A table's own column of that name.
        ([EqualTo(("commit_seq",), 2)], True, [1, 2, 3, 4]),
    ):
        assert in_the_export(narrowed(whole, filters, typed=typed)) == expected


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def written(row: Export) -> Export:
    export(Slice.from_json(row.slice), Target.of(row.target), dsn=store_conninfo())
    return row


def flags_of(words: dict[str, str]) -> list[str]:
    """A filter's words as the commands' flags."""
    names = {"q": "text", "id": "gid", "tables": "table", "ops": "op", "states": "state"}
    return [
        f"--{names.get(name, name).replace('_', '-')}={one}"
        for name, word in words.items()
        for one in (word.split(",") if name == "states" else [word])
    ]


def test_page_api_and_command_give_the_same_files_for_the_same_filter(
    told: History, settings, tmp_path: Path, monkeypatch
) -> None:
    settings.STORE_URL, settings.DATA_DIR = "the test's", str(tmp_path)
    # Written here: a process of its own is what other tests are about.
    monkeypatch.setattr(
        by_command, "carry_out", lambda claim, *_, **__: exports.rows.finish(claim, result={})
    )
    monkeypatch.setattr(by_command, "ended_lines", lambda _: [])
    person = make_user("alice")
    token, _ = make_token(person, "test", scope="export")
    page, program = Client(), Client(headers={"Authorization": f"Bearer {token}"})
    page.force_login(person)
    lsn = str(Transaction.objects.get(commit_seq=3).commit_lsn)
    every = {"id": "order-7", "origin": "-", "states": "committed,snapshot", "min_changes": "1",
             "min_bytes": "5000", "prepared_min": "30", "actor": "bob", "q": "urgent"}  # fmt: skip
    for words in (
        every | {"from_lsn": lsn, "to_lsn": lsn, "tables": "public.orders", "ops": "U"},
        {"actor": "?", "origin": "-", "states": "message", "since": "2020-01-01T00:00Z"},
        {"transaction": str(Transaction.objects.get(commit_seq=2).pk)},
    ):
        asked = {**words, "slot": "shop/replview"}
        assert page.post("/exports/new/", {**asked, "to": "page"}).status_code == 302, words
        answer = program.post("/api/v1/exports", {**asked, "to": "api"}, content_type=JSON)
        assert answer.status_code == 202, (words, answer.content)
        folder = str(tmp_path / "exports" / "command")
        call_command("export", "--slot", "shop/replview", "--to", folder, *flags_of(words))
        rows = Export.objects.all()[:3]
        assert {row.requested_how for row in rows} == {"page", "api", "command"}
        assert rows[0].slice == rows[1].slice == rows[2].slice, words
        assert rows[0].words == rows[1].words == rows[2].words, words
        if "q" in words:
            files = [digests(Path(written(row).target)) for row in rows]
            assert files[0] == files[1] == files[2]
            assert any("public.orders/commit_date" in name for name in files[0])


def test_what_is_asked_of_rows_or_of_what_has_no_place_is_refused(told: History) -> None:
    with pytest.raises(Refused, match="by a condition on values: it holds all that its trans"):
        read_export_request(told.slot, {"where": "id = 1"})
    for strict in (True, False):
        with pytest.raises(Refused, match="no export is of transactions in the state aborted"):
            read_export_request(told.slot, {"states": "committed,aborted"}, strict=strict)


def test_the_same_narrow_slice_gives_the_same_files_and_says_by_what(
    told: History, tmp_path: Path
) -> None:
    part = read_export_request(told.slot, {"q": "urgent", "states": "committed"}).slice
    for name in ("one", "other"):
        export(part, Target.of(str(tmp_path / name)), dsn=store_conninfo())
    assert digests(tmp_path / "one") == digests(tmp_path / "other")

    folder = tmp_path / "one" / "shop" / "replview-1"
    rows = ds.dataset(folder / "public.orders", format="parquet", partitioning="hive").to_table()
    assert rows["note"].to_pylist() == ["Urgent 100%"]
    manifest = json.loads((folder / "_manifest.json").read_text())
    assert manifest["transactions"] == 1
    assert manifest["slice"]["narrowed"] == {"states": ["committed"], "text": "urgent"}

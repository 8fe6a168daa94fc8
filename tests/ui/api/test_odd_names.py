"""Tables whose names hold dots, quotes, commas and capitals, named as SQL names them: PostgreSQL's
own ``format('%I.%I')`` is what everything must read.
"""

import json
from io import StringIO
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pyarrow.parquet as pq
import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from replview.access.visibility import reading_session
from replview.access.withheld import Withheld
from replview.features.erasure.queue import read_erasure_request
from replview.features.exports.request import _table_names
from replview.features.relations.tags import find_changes, transactions_touching
from replview.live.filters import LiveFilter
from replview.live.summaries import Summary
from replview.parquet.erasure.finding import FileErasure
from replview.parquet.erasure.roots import ErasureRoot
from replview.parquet.reading.slice_tables import relation_ids
from replview.parquet.slice_schemas import slice_columns, table_schema
from replview.store.models import Relation, RelationVersion
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.mask_rules import Rule
from replview.store.read.row_history.keys import tables_named
from replview.store.read.rows import signed_hash
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.read.visibility import Grants, Visibility
from replview.store.retention.tidy import make_partitions
from replview.text.addresses import row_url
from replview.text.parsing import table_text, table_word
from replview.ui.row_start import read_start
from tests.support.history_rows import History

NAMES = [
    ("odd.schema", "orders"),
    ("odd", "schema.orders"),
    ("public", "Orders"),
    ("public", "a,b"),
    ('we"ird', 'quo"te.d'),
    ('"whole"', '"in quotes"'),
    ("Ünï.", "a b"),
]


@pytest.fixture
def record(db, settings) -> History:
    """Each table has one row of its own."""
    settings.STORE_URL = "postgresql://the-test-store/"
    make_partitions()
    record = History()
    for number, (schema, table) in enumerate(NAMES):
        shape = record.table(f"t{number}", 20_000 + number, ["id", "status"])
        RelationVersion.objects.filter(pk=shape.pk).update(schema=schema, table=table)
        Relation.objects.filter(pk=shape.relation_id).update(
            schema=schema, table=table, current_version=shape
        )
        new = {"id": str(number), "status": "x"}
        record.commit({"op": "I", "new": new, "key_hash": signed_hash([str(number)]),
                       "version": shape})  # fmt: skip
    return record


def as_in_sql(schema: str, table: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT format('%%I.%%I', %s::text, %s::text)", [schema, table])
        return str(cursor.fetchone()[0])


@pytest.mark.parametrize("number", range(2, len(NAMES)))
def test_every_place_reads_the_name_that_sql_would_have(
    program: Client, record: History, number: int
) -> None:
    schema, table = NAMES[number]
    name, slot = as_in_sql(schema, table), "shop/replview"

    rows = program.get("/api/v1/rows", {"table": name, "key": str(number), "slot": slot}).json()
    assert len(rows["items"]) == 1
    assert rows["key"] == {"id": str(number)}
    for address in ("changes", "history"):
        answer = program.get(f"/api/v1/{address}", {"tables": name, "slot": slot}).json()
        assert [(c["schema"], c["table"]) for c in answer["items"]] == [(schema, table)]
        covered = answer["coverage"]["table"]
        assert (covered["schema"], covered["table"]) == (schema, table)
    coverage = program.get("/api/v1/coverage", {"table": name, "slot": slot}).json()
    assert (coverage["table"]["schema"], coverage["table"]["table"]) == (schema, table)
    out = StringIO()
    call_command("changes", "--slot", slot, "--table", name, stdout=out)
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert line["new"]["id"] == str(number)
    out = StringIO()
    call_command("changes", "--slot", slot, "--table", name, "--row", str(number), stdout=out)
    assert out.getvalue().count("\n") == 1


@pytest.mark.parametrize("number", range(2))
def test_two_tables_of_one_plain_name_are_told_apart_by_quotes(
    program: Client, record: History, number: int
) -> None:
    """``"odd.schema".orders`` is not ``odd."schema.orders"``."""
    name, slot = as_in_sql(*NAMES[number]), "shop/replview"
    rows = program.get("/api/v1/rows", {"table": name, "key": str(number)})
    assert rows.status_code == 200, rows.content
    assert len(rows.json()["items"]) == 1, rows.json()
    for address in ("changes", "history"):
        answer = program.get(f"/api/v1/{address}", {"tables": name, "slot": slot}).json()
        assert [(c["schema"], c["table"]) for c in answer["items"]] == [NAMES[number]]
    found = program.get("/api/v1/transactions", {"tables": name, "slot": slot}).json()
    assert len(found["items"]) == 1
    out = StringIO()
    call_command("changes", "--slot", slot, "--table", name, stdout=out)
    assert [json.loads(line)["new"]["id"] for line in out.getvalue().splitlines()] == [str(number)]
    relation = Relation.objects.get(schema=NAMES[number][0], table=NAMES[number][1])
    wanted = TransactionFilter.from_words({"tables": name})
    exported = SimpleNamespace(
        tables=_table_names(record.slot, wanted.tables), incarnation_id=record.slot.incarnation_id
    )
    assert relation_ids(connection.connection, exported) == [relation.pk]
    asked = read_erasure_request(record.slot, [(name, str(number))])
    (erased, _), *_ = asked.pairs
    of_table = tables_named(reading_session(), record.slot, erased)
    assert of_table is not None
    assert of_table.relation.pk == relation.pk


@pytest.mark.parametrize(("schema", "table"), NAMES)
def test_a_row_s_page_goes_on_with_the_very_table(record: History, schema: str, table: str) -> None:
    start = read_start(record.slot, {"table": as_in_sql(schema, table)})
    again = read_start(record.slot, {"table": start.name})
    assert again.table is not None
    assert (again.table.relation.schema, again.table.relation.table) == (schema, table)
    assert start.name in start.tables


def test_a_plain_name_chooses_every_table_that_it_may_mean(
    program: Client, record: History
) -> None:
    words = {"tables": "odd.schema.orders", "slot": "shop/replview"}
    answer = program.get("/api/v1/changes", words).json()
    assert sorted((c["schema"], c["table"]) for c in answer["items"]) == sorted(NAMES[:2])


@pytest.mark.parametrize(("schema", "table"), NAMES)
def test_the_live_page_shows_the_very_table(record: History, schema: str, table: str) -> None:
    wanted = LiveFilter.from_words({"tables": as_in_sql(schema, table)})
    row = SimpleNamespace(id=1, state="committed", relations={"7": [1, 0, 0, 0]})
    summaries = {other: Summary(row=row, names={7: [other]}, data={}, line=None) for other in NAMES}  # type: ignore[arg-type]
    shown = [name for name, summary in summaries.items() if wanted.lets_through(summary)]
    assert shown == [(schema, table)]


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_links_lead_to_the_very_table(record: History, number: int) -> None:
    """A link leads to its table, and not to one of the same name without the quotes."""
    schema, table = NAMES[number]
    plain = record.table("plain", 30_000, ["id"])
    without = {"schema": schema.strip('"'), "table": table.strip('"')}
    if schema != without["schema"]:
        RelationVersion.objects.filter(pk=plain.pk).update(**without)
        Relation.objects.filter(pk=plain.relation_id).update(**without)
    relation = Relation.objects.get(schema=schema, table=table)

    def words(link: str) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(link).query))

    rows = words(row_url(record.slot, schema, table, {"id": "1"}))
    found = tables_named(reading_session(), record.slot, rows["table"])
    assert found is not None
    assert found.relation.pk == relation.pk
    for link in (find_changes(record.slot, relation), transactions_touching(record.slot, relation)):
        wanted = WantedChanges.from_words(record.slot, words(link))
        assert wanted.relation_ids(reading_session()) == [relation.pk]


@pytest.mark.parametrize(("schema", "table"), NAMES)
@pytest.mark.parametrize("formerly", [False, True])
def test_a_file_without_its_dataset_s_schema_is_of_the_very_table(
    db, tmp_path, schema: str, table: str, formerly: bool
) -> None:
    name = as_in_sql(schema, table)
    footer = f"{schema}.{table}" if formerly else table_text(schema, table)
    (tmp_path / "folder").mkdir()
    written = table_schema(slice_columns([[{"name": "id", "type": "integer"}]]), footer, [1])
    pq.write_table(written.empty_table(), tmp_path / "folder" / "part.parquet")
    wanted = FileErasure(
        erasure=1, day="2026-11-22", homes=(), tables={7: ()}, names={7: [name], 8: ["a.b"]}
    )
    document = ErasureRoot.of(str(tmp_path), wanted)._schema_of_unfinished("folder")
    assert document is not None
    assert document["table"] == {"schema": schema, "name": table, "oid": 7}


@pytest.mark.parametrize(("schema", "table"), NAMES)
def test_a_filter_s_words_say_the_same_again(db, schema: str, table: str) -> None:
    words = {"tables": f"{as_in_sql(schema, table)},public.plain"}
    wanted = TransactionFilter.from_words(words)
    assert wanted.tables == (table_word(schema, table), "public.plain")
    assert TransactionFilter.from_words(wanted.words()) == wanted


def test_an_archived_table_of_a_schema_with_a_dot_stays_masked(db) -> None:
    """A rule for tables of this name in any schema masks the archived table."""
    rule = Rule(1, None, "orders", "status", "", "display")
    visibility = Visibility(reading_session().rows, lambda: Grants(rules=(rule,)))
    of = Withheld(visibility=visibility, source_id=1, rules_of=1)
    assert of.columns("odd.schema.orders", ["id", "status"]) == {"status"}

"""Tables whose names hold dots, quotes, commas and capitals, named as SQL names them: PostgreSQL's
own ``format('%I.%I')`` is what everything must read.
"""

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from replview.access.visibility import reading_session
from replview.access.withheld import Withheld
from replview.store.models import Relation, RelationVersion
from replview.store.read.mask_rules import Rule
from replview.store.read.rows import signed_hash
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.read.visibility import Grants, Visibility
from replview.store.retention.tidy import make_partitions
from tests.store.history_rows import History

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
    name = as_in_sql(*NAMES[number])
    rows = program.get("/api/v1/rows", {"table": name, "key": str(number)})
    assert rows.status_code == 200, rows.content
    assert len(rows.json()["items"]) == 1, rows.json()


@pytest.mark.parametrize(("schema", "table"), NAMES)
def test_a_filter_s_words_say_the_same_again(db, schema: str, table: str) -> None:
    words = {"tables": f"{as_in_sql(schema, table)},public.plain"}
    wanted = TransactionFilter.from_words(words)
    assert wanted.tables == (f"{schema}.{table}", "public.plain")
    assert TransactionFilter.from_words(wanted.words()) == wanted


def test_an_archived_table_of_a_schema_with_a_dot_stays_masked(db) -> None:
    """By a rule for tables of its name in any schema."""
    rule = Rule(1, None, "orders", "status", "", "display")
    visibility = Visibility(reading_session().rows, lambda: Grants(rules=(rule,)))
    of = Withheld(visibility=visibility, source_id=1, rules_of=1)
    assert of.columns("odd.schema.orders", ["id", "status"]) == {"status"}

"""Strings planted in masked columns are found nowhere: in no answer, download or log line, and,
masked at ingest, in no column of the store.
"""

import logging
from contextlib import suppress

import psycopg
import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from replview.access.mask_making import add_rule, unsaved_rule
from replview.store.models import (
    AbortedSubtransaction,
    Change,
    LargeValue,
    MaskRule,
    Relation,
    Transaction,
)
from tests.privacy.responses import Looker
from tests.support.baselines import take
from tests.support.people import make_user
from tests.support.searching import columns_holding
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

#: Looked for by the first half, so that the box that shows it again does not hold the second.
BEGINS, ENDS = "quokka", "tamarind7"
PLANTED = f"{BEGINS} {ENDS}"

RULES = (
    ("public.person", "*mail*", ""),
    ("*", "*", "json*"),
    ("person", "tags", ""),
    ("public.card", "number", "text"),
    ("public.notes", "body", ""),
)
_SCHEMA = (
    "CREATE TABLE person (id int PRIMARY KEY, e_mail text, doc jsonb, tags text[], name text)",
    # A key that is masked, and one under which the whole old row is sent.
    "CREATE TABLE card (number text PRIMARY KEY, holder text)",
    "CREATE TABLE notes (id int PRIMARY KEY, body text)",
    "ALTER TABLE notes REPLICA IDENTITY FULL",
    "ALTER TABLE notes ALTER body SET STORAGE EXTERNAL",
    f"INSERT INTO person VALUES (100, '{PLANTED}', '{{\"a\": \"{PLANTED}\"}}', "
    f"'{{\"{PLANTED}\"}}', 'baseline')",
)
_WORK = (
    f"INSERT INTO person VALUES (1, '{PLANTED}', '{{\"a\": [\"{PLANTED}\"]}}', '{{\"{PLANTED}\"}}',"
    " 'Ann')",
    f"UPDATE person SET e_mail = 'new {PLANTED}', name = 'Anna' WHERE id = 1",
    "UPDATE person SET name = 'Annabel' WHERE id = 1",
    f"INSERT INTO card VALUES ('{PLANTED} 1', 'Ann')",
    f"UPDATE card SET number = '{PLANTED} 2' WHERE holder = 'Ann'",
    "DELETE FROM card",
    f"INSERT INTO notes VALUES (1, repeat('{PLANTED} ', 800))",
    "UPDATE notes SET id = 2",
    f"UPDATE notes SET body = '{PLANTED} short'",
    "DELETE FROM notes",
    # A rolled-back savepoint, and a streamed transaction.
    f"BEGIN; INSERT INTO notes VALUES (5, 'kept'); SAVEPOINT s; INSERT INTO notes VALUES (6, "
    f"'{PLANTED}'); ROLLBACK TO s; COMMIT",
    f"INSERT INTO notes SELECT n, '{PLANTED} ' || n FROM generate_series(10, 1500) n",
    "DELETE FROM person",
)


def _work(source, recording) -> None:
    """All of it, a transaction that is streamed and then aborted, and a baseline."""
    source.run(*_WORK)
    # The streamed one above is over, so that the one seen streaming below is the one rolled back.
    recording.caught_up()
    with source.connect() as connection, suppress(psycopg.Rollback), connection.transaction():
        connection.execute(
            "INSERT INTO notes SELECT n, %s || n FROM generate_series(2000, 3500) n", [PLANTED]
        )
        wait_for(lambda: Transaction.objects.filter(state="streaming").exists())
        raise psycopg.Rollback
    take(recording, "public.person")
    recording.caught_up()
    wait_for(lambda: Transaction.objects.filter(state="aborted").exists())


def _signed_in(**grants) -> Client:
    cache.clear()
    client = Client()
    client.force_login(make_user(**grants))
    return client


def _look_everywhere(looker: Looker, slot, most: int, transactions: int) -> None:
    """Pages by their links; of so many transactions all addresses; downloads and the API in every
    form.
    """
    name = f"{slot.source.name}/{slot.name}"
    words = {"slot": name}
    pages = ("transactions", "find", "relations", "actors", "row-history", "in-flight", "live")
    looker.walk([*(f"{reverse(page)}?slot={name}" for page in pages), reverse("overview")], most)
    for row in Transaction.objects.order_by("pk")[:transactions]:
        page = reverse("transaction", args=[row.pk])
        looker.get(page, columns="all", q=BEGINS)
        looker.get(reverse("transaction-undo", args=[row.pk]))
        for what in ("json", "sql", "undo"):
            looker.get(f"{page}changes/1/{what}/")
        value = reverse("transaction-value", args=[row.pk, 1])
        for side in ("old", "new", "before"):
            for column in row_columns(row.pk):
                looker.get(value, side=side, column=column)
    for form in ("jsonl", "csv", "parquet"):
        looker.get(reverse("download"), format=form, **words)
    for path in ("changes", "history", "transactions", "relations", "slots", "actors", "coverage"):
        looker.get(f"/api/v1/{path}", limit="500", **words)
    for table, key in (("person", "1"), ("card", f"{BEGINS} 1"), ("notes", "2")):
        asked = {**words, "table": f"public.{table}", "key": key}
        for url in (reverse("row-history"), "/api/v1/rows", "/api/v1/rows/as-of"):
            looker.get(url, **asked)
        looker.get(reverse("download"), format="jsonl", **asked)


def row_columns(transaction_id: int) -> list[str]:
    """The columns of its first change that rules are about."""
    change = Change.objects.filter(transaction_id=transaction_id, seq=1).first()
    told = {**(change.old or {}), **(change.new or {})} if change else {}
    return [name for name in ("e_mail", "tags", "number", "body") if name in told]


def _searches_find_nothing(looker: Looker, slot) -> None:
    """Assert that no search reveals the masked string."""
    words = {"slot": f"{slot.source.name}/{slot.name}"}
    found = looker.get("/api/v1/transactions", q=BEGINS, **words)
    assert '"items": []' in found or '"items":[]' in found
    nothing = looker.get(reverse("transactions"), q="nowhere in the record", **words)
    searched = looker.get(reverse("transactions"), q=BEGINS, **words)
    assert searched.count("/transactions/") == nothing.count("/transactions/")
    for table, column in (("person", "e_mail"), ("card", "number"), ("notes", "body")):
        asked = {"table": f"public.{table}", "where": f"{column} ~ {BEGINS}", **words}
        page = looker.get(reverse("find"), **asked)
        assert f"{column[1:]} of public.{table} is masked" in page
        assert "is masked" in looker.get("/api/v1/changes", **asked)
        assert "is masked" in looker.get(reverse("download"), format="csv", **asked)
    asked = {"table": "public.card", "key": f"{BEGINS} 1", **words}
    assert "umber of public.card is masked" in looker.get(reverse("row-history"), **asked)
    assert "is masked" in looker.get("/api/v1/rows", **asked)


def _add_rules(when: str) -> None:
    for table, column, kind in RULES:
        add_rule(unsaved_rule(table=table, column=column, type_name=kind, when=when, by="test"))


def test_masked_at_ingest_it_is_nowhere(source, record, caplog, settings) -> None:
    settings.STORE_URL = "the test's"
    caplog.set_level(logging.DEBUG)
    source.run(*_SCHEMA)
    recording = record(source, keep_aborted=True)
    # The receiver streams already: it obeys without a restart.
    for table, column, kind in RULES:
        call_command("mask", "add", "--table", table, "--column", column, "--type", kind)
    _work(source, recording)

    assert Transaction.objects.filter(streamed=True).count() >= 2
    assert AbortedSubtransaction.objects.exists()
    assert columns_holding(ENDS) == []
    assert not LargeValue.objects.exists()
    looker = Looker(_signed_in(name="admin", role="admin"), ENDS)
    _look_everywhere(looker, recording.slot, most=25, transactions=6)
    assert looker.leaks == []
    assert 500 not in looker.seen.values()
    assert len(looker.seen) > 80
    assert ENDS not in caplog.text


def test_masked_on_display_it_is_in_no_answer(source, record, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    source.run(*_SCHEMA)
    recording = record(source, keep_aborted=True)
    _work(source, recording)
    admin = _signed_in(name="admin", role="admin")

    _add_rules(MaskRule.When.DISPLAY)
    looker = Looker(admin, ENDS)
    _look_everywhere(looker, recording.slot, most=45, transactions=11)
    _searches_find_nothing(looker, recording.slot)
    assert looker.leaks == []
    assert 500 not in looker.seen.values()
    # The value is there: an account that had not masked it would see it.
    assert set(columns_holding(ENDS)) == {"change.old", "change.new"}
    MaskRule.objects.all().delete()
    one = Looker(_signed_in(name="other", role="admin"), ENDS)
    one.get(reverse("download"), format="parquet", slot=str(recording.slot))
    assert one.leaks

    # Nor does somebody see it who has no right on the tables.
    viewer = Looker(
        _signed_in(
            name="eve", role="operator", sources=[recording.slot.source], tables=["public.x"]
        ),
        ENDS,
    )
    _look_everywhere(viewer, recording.slot, most=15, transactions=4)
    found = viewer.get("/api/v1/transactions", q=BEGINS, slot=str(recording.slot))
    assert viewer.leaks == []
    assert '"items": []' in found or '"items":[]' in found
    assert 500 not in viewer.seen.values()
    told = viewer.get(reverse("transaction", args=[Transaction.objects.first().pk]))
    assert "no right to see values" in told
    assert Relation.objects.filter(table="person").exists()
    assert ENDS not in caplog.text

"""Row filters quote values: statements with them are shown without where something is masked."""

import json
from dataclasses import asdict
from importlib import import_module
from io import StringIO

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.test import Client
from django.utils import timezone

from replview.access.visibility import forget
from replview.acts.noting import note_slot
from replview.store.looks import store_publication_look
from replview.store.models import AccessRecord, MaskRule, Relation, RelationVersion, Slot
from replview.store.read.seen import without_row_filters
from replview.store.write.access_record import note
from replview.ui.managed import Outcome
from tests.support.history_rows import History
from tests.support.people import make_user

_migration = import_module("replview.store.migrations.0034_no_row_filters_in_access_record")

ADDED = "ALTER PUBLICATION shop ADD TABLE public.orders"
FILTERED = f"{ADDED} WHERE ((status <> 'PLANTED'::text))"
MADE_AGAIN = "CREATE PUBLICATION shop FOR TABLE public.orders WHERE (status = 'PLANTED'), b.c"


@pytest.fixture
def slot(db, settings) -> Slot:
    """A slot whose publications had row filters when somebody changed and dropped them."""
    settings.STORE_URL = "the test's"
    slot = History().slot
    note_slot(slot, "columns", "Changed.", by="ann", statements=[FILTERED])
    dropped = [{"name": "shop", "create": MADE_AGAIN}]
    note_slot(slot, "drop", "Dropped.", by="ann", dropped_publications=dropped)
    return slot


def told(client: Client, slot: Slot) -> list[str]:
    """The slot's page, what was done last, and the slot's log on the command line."""
    out = StringIO()
    call_command("slot", "log", "shop", slot.name, format="json", stdout=out)
    return [client.get(f"/slots/{slot}/").text, client.get("/managed/").text, out.getvalue()]


def test_a_log_shows_a_filter_only_where_nothing_is_masked(slot: Slot) -> None:
    client = Client()
    client.force_login(make_user("ada", "admin"))
    session = client.session
    session["managed"] = asdict(Outcome(title="Done.", statements=[FILTERED]))
    session.save()
    assert ["PLANTED" in each for each in told(client, slot)] == [True] * 3

    MaskRule.objects.create(table_pattern="orders", column_pattern="status", when="display")
    forget()
    shown = told(client, slot)
    assert ["PLANTED" in each for each in shown] == [False] * 3
    assert all("withheld: it may hold a value that is not shown" in each for each in shown)
    assert json.loads(shown[2].splitlines()[0])["detail"]["statements"][0].startswith(ADDED)


def test_the_access_record_keeps_no_filter(slot: Slot) -> None:
    details = [row.details for row in AccessRecord.objects.order_by("pk")]
    assert "PLANTED" not in json.dumps(details)
    assert details[0]["statements"][0].startswith(ADDED)
    assert details[1]["dropped_publications"][0]["name"] == "shop"


def test_filters_are_removed_from_records_that_were_written_with_them(db) -> None:
    for statement in (FILTERED, without_row_filters(FILTERED), ADDED):
        note("changed_slot", details={"act": "columns", "statements": [statement]})
    with connection.schema_editor(atomic=True) as editor:
        _migration.remove(apps, editor)
        _migration.remove(apps, editor)
    records = list(AccessRecord.objects.order_by("pk"))
    shown = [row.details["statements"] for row in records[:3]]
    assert shown == [[without_row_filters(FILTERED)]] * 2 + [[ADDED]]
    assert [(row.action, row.details) for row in records[3:]] == [
        ("forgot_access_record", {"records": 1})
    ]
    with pytest.raises(DatabaseError, match="append-only"):
        AccessRecord.objects.update(details={})


def test_what_is_masked_under_a_former_name_is_in_no_filter(db) -> None:
    history = History()
    relation = history.orders.relation
    renamed = history.table("orders", 16384, ["id", "status", "note"], number=2)
    RelationVersion.objects.filter(pk=renamed.pk).update(table="sales")
    Relation.objects.filter(pk=relation.pk).update(table="sales")
    entry = {
        "schema": "public", "table": "sales", "oid": relation.oid, "operations": "IUDT",
        "unpublished_columns": [], "row_filter": "(status <> 'PLANTED'::text)",
    }  # fmt: skip
    store_publication_look(history.slot, {"tables": [entry]}, timezone.now())
    client = Client()
    client.force_login(make_user("ada", "admin"))
    pages = (
        f"/relations/{relation.pk}/?whole=1",
        f"/api/v1/coverage?slot={history.slot}&table=public.sales",
    )
    assert ["PLANTED" in client.get(page).text for page in pages] == [True, True]
    MaskRule.objects.create(table_pattern="orders", column_pattern="status", when="display")
    forget()
    assert ["PLANTED" in client.get(page).text for page in pages] == [False, False]

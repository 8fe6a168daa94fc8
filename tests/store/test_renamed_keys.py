"""Keys of stored JSON that a migration renames, there and back."""

from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.db.migrations import RunSQL

from replview.store.models import Baseline, HistoryJob, Setting, Slot, SlotEvent, Source

pytestmark = pytest.mark.django_db

#: The JSON that the release before stored, and that this one reads.
KEPT = {"since": "2026-11-20T00:00:00+00:00", "lsn": "0/10", "late": []}
FORMER = {
    "words": {"table": "public.orders", "life": "shop/replview-1"},
    "result": {"rows": [], "told": {"key": ["id"], "life": "shop/replview-1"}},
    "code": "life_ended",
    "detail": {"dropped_life": 9, "budget_bytes": 1},
    "retention.slots": {"8": {**KEPT, "life": 9}, "11": {**KEPT, "life": 12}},
    "retention.deleting": {"day": "2026-11-20", "lives": [[9, 0, 1, []]], "share": None},
}
PRESENT = {
    "words": {"table": "public.orders", "incarnation": "shop/replview-1"},
    "result": {"rows": [], "told": {"key": ["id"], "incarnation": "shop/replview-1"}},
    "code": "incarnation_ended",
    "detail": {"dropped_incarnation": 9, "budget_bytes": 1},
    "retention.slots": {"8": {**KEPT, "incarnation": 9}, "11": {**KEPT, "incarnation": 12}},
    "retention.deleting": {"day": "2026-11-20", "incarnations": [[9, 0, 1, []]], "share": None},
}


def operation(migration: str) -> RunSQL:
    module: Any = import_module(f"replview.store.migrations.{migration}")
    renaming = module.Migration.operations[0]
    assert isinstance(renaming, RunSQL)
    return renaming


def store(rows: dict[str, Any]) -> None:
    source = Source.objects.create(name="shop", conninfo="host=shop.example")
    slot = Slot.objects.create(source=source, name="replview")
    HistoryJob.objects.create(job="as-of", root="/x", words=rows["words"], result=rows["result"])
    HistoryJob.objects.create(job="as-of", root="/x", words={"table": "t"}, result=None)
    Baseline.objects.create(slot=slot, schema="public", table="t", problem_code=rows["code"])
    SlotEvent.objects.create(slot=slot, kind="budget", message="x", detail=rows["detail"])
    for name in ("retention.slots", "retention.deleting"):
        Setting.objects.create(name=name, value=rows[name])


def stored() -> dict[str, Any]:
    job, other = HistoryJob.objects.order_by("id")
    assert (other.words, other.result) == ({"table": "t"}, None)
    return {
        "words": job.words,
        "result": job.result,
        "code": Baseline.objects.get().problem_code,
        "detail": SlotEvent.objects.get().detail,
        **dict(Setting.objects.filter(name__startswith="retention.").values_list("name", "value")),
    }


def test_life_becomes_incarnation_and_back() -> None:
    renaming = operation("0032_incarnation_for_life")
    store(FORMER)

    with connection.schema_editor() as editor:
        renaming.database_forwards("store", editor, None, None)
    assert stored() == PRESENT
    with connection.schema_editor() as editor:
        renaming.database_backwards("store", editor, None, None)
    assert stored() == FORMER


def test_told_becomes_details_and_back() -> None:
    renaming = operation("0033_details_of_results")
    store(PRESENT)
    renamed = {"rows": [], "details": {"key": ["id"], "incarnation": "shop/replview-1"}}

    with connection.schema_editor() as editor:
        renaming.database_forwards("store", editor, None, None)
    assert stored() == {**PRESENT, "result": renamed}
    with connection.schema_editor() as editor:
        renaming.database_backwards("store", editor, None, None)
    assert stored() == PRESENT

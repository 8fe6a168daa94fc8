"""API of the tables of a slot and of their schema histories."""

from typing import Any

from django.http import Http404, HttpRequest
from ninja import Router

from replview.access.page import VIEWER, page
from replview.features.relations.schema_history import VersionHistory, VersionPeriod, schema_history
from replview.store.models import Relation
from replview.store.read.changes.records import utc_text
from replview.store.sums.relation_sums import RelationSum, last_changes, sums_of_slot
from replview.ui.api.slots import coverage_json, slot_named

router = Router(tags=["relations"])
_COUNTED = ("inserts", "updates", "deletes", "truncates")


@page(role=VIEWER)
@router.get("/relations", response=dict[str, Any], summary="All tables of a slot")
def relations(request: HttpRequest, slot: str = "") -> dict[str, object]:
    """Return every table in the slot's stream, with its last change and its number of changes."""
    found = slot_named(slot)
    sums = sums_of_slot(found.pk)
    rows = Relation.objects.filter(slot=found).select_related("current_version")
    places = {pk: each.last for pk, each in sums.by_relation.items() if each.last is not None}
    last = last_changes(places)
    items = []
    for relation in sorted(rows, key=lambda row: (row.schema, row.table)):
        counted = sums.by_relation.get(relation.pk, RelationSum())
        change = last.get(relation.pk)
        version = relation.current_version
        items.append(
            {
                "relation": relation.pk,
                "schema": relation.schema,
                "table": relation.table,
                "oid": relation.oid,
                "version": version.number if version else None,
                "replica_identity": version.replica_identity if version else None,
                "key_columns": version.key_columns if version else [],
                **{name: getattr(counted, name) for name in _COUNTED},
                "last_transaction": change.transaction_id if change else None,
                "last_commit_time": utc_text(change.commit_time) if change else None,
            }
        )
    return {
        "slot": str(found),
        "items": items,
        "transactions_not_counted": sums.not_counted,
        "coverage": coverage_json(found),
    }


@page(role=VIEWER, of={"relation_id": Relation})
@router.get("/relations/{int:relation_id}", response=dict[str, Any], summary="A schema's history")
def relation(request: HttpRequest, relation_id: int) -> dict[str, object]:
    """Return every version of a table seen in its slot's stream, newest first."""
    found = None
    if relation_id < 1 << 63:
        found = Relation.objects.select_related("slot__source").filter(pk=relation_id).first()
    if found is None:
        raise Http404("there is no such table: see /api/v1/relations")
    history = schema_history(found)
    return {
        "relation": found.pk,
        "slot": str(found.slot),
        "schema": found.schema,
        "table": found.table,
        "oid": found.oid,
        "versions": [_version(one, current=one is history.current) for one in history.versions],
        "coverage": coverage_json(found.slot, (found.schema, found.table)),
    }


def _version(one: VersionHistory, *, current: bool) -> dict[str, object]:
    version, counts = one.version, one.counts
    return {
        "version": version.number,
        "current": current,
        "schema": version.schema,
        "table": version.table,
        "replica_identity": version.replica_identity,
        "key_columns": version.key_columns,
        "columns": version.columns,
        "periods": [_period(period) for period in one.periods],
        **{name: getattr(counts, name) for name in _COUNTED},
    }


def _period(period: VersionPeriod) -> dict[str, object]:
    """Return a time in which a version was in force; it is noticed at its first change."""
    return {
        "lsn": period.lsn or (period.found.first_lsn if period.found else None),
        "xid": period.xid,
        "transaction": period.found.transaction_id if period.found else None,
        "since": utc_text(period.began_at),
        "until": utc_text(period.until),
    }

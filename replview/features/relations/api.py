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
_COUNT_NAMES = ("inserts", "updates", "deletes", "truncates")


@page(role=VIEWER)
@router.get("/relations", response=dict[str, Any], summary="All tables of a slot")
def relations(request: HttpRequest, slot: str = "") -> dict[str, object]:
    """Return every table in the slot's stream, with its last change and its number of changes."""
    named_slot = slot_named(slot)
    sums = sums_of_slot(named_slot.pk)
    rows = Relation.objects.filter(slot=named_slot).select_related("current_version")
    places = {pk: total.last for pk, total in sums.by_relation.items() if total.last is not None}
    changes = last_changes(places)
    items = []
    for relation in sorted(rows, key=lambda row: (row.schema, row.table)):
        counts = sums.by_relation.get(relation.pk, RelationSum())
        change = changes.get(relation.pk)
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
                **{name: getattr(counts, name) for name in _COUNT_NAMES},
                "last_transaction": change.transaction_id if change else None,
                "last_commit_time": utc_text(change.commit_time) if change else None,
            }
        )
    return {
        "slot": str(named_slot),
        "items": items,
        "transactions_not_counted": sums.not_counted,
        "coverage": coverage_json(named_slot),
    }


@page(role=VIEWER, of={"relation_id": Relation})
@router.get("/relations/{int:relation_id}", response=dict[str, Any], summary="A schema's history")
def relation(request: HttpRequest, relation_id: int) -> dict[str, object]:
    """Return every version of a table seen in its slot's stream, newest first."""
    row = None
    if relation_id < 1 << 63:
        row = Relation.objects.select_related("slot__source").filter(pk=relation_id).first()
    if row is None:
        raise Http404("there is no such table: see /api/v1/relations")
    history = schema_history(row)
    return {
        "relation": row.pk,
        "slot": str(row.slot),
        "schema": row.schema,
        "table": row.table,
        "oid": row.oid,
        "versions": [
            _version_json(version, current=version is history.current)
            for version in history.versions
        ],
        "coverage": coverage_json(row.slot, (row.schema, row.table)),
    }


def _version_json(version_history: VersionHistory, *, current: bool) -> dict[str, object]:
    version, counts = version_history.version, version_history.counts
    return {
        "version": version.number,
        "current": current,
        "schema": version.schema,
        "table": version.table,
        "replica_identity": version.replica_identity,
        "key_columns": version.key_columns,
        "columns": version.columns,
        "periods": [_period_json(period) for period in version_history.periods],
        **{name: getattr(counts, name) for name in _COUNT_NAMES},
    }


def _period_json(period: VersionPeriod) -> dict[str, object]:
    """Return a time in which a version was in force; it is noticed at its first change."""
    return {
        "lsn": period.lsn or (period.found.first_lsn if period.found else None),
        "xid": period.xid,
        "transaction": period.found.transaction_id if period.found else None,
        "since": utc_text(period.began_at),
        "until": utc_text(period.until),
    }

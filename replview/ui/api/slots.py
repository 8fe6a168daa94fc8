"""The API's list of slots, their health, and the coverage of their record."""

from datetime import datetime
from typing import Any

from django.db.models import F
from django.http import Http404, HttpRequest
from ninja import Router, Schema

from replview.access.page import OF_SLOT, VIEWER, page
from replview.access.visibility import reading_session
from replview.health.conditions import foreseen_loss, idle_timeout, limit_of
from replview.health.holding import cause_of
from replview.health.source_state import SourceState
from replview.store.models import Slot, SourceLook
from replview.store.read.changes.records import utc_text
from replview.store.read.coverage import Gap, coverage_of
from replview.store.read.rows import QueriedSlot as SlotOnRecord
from replview.store.read.table_coverage import TableCoverage
from replview.text.parsing import name_parts
from replview.ui.api.answers import BadRequest
from replview.ui.shell import fleet_of

router = Router(tags=["slots"])


class SlotOut(Schema):
    """A slot that replview receives."""

    #: ``source/name``, the slot's name in other calls.
    slot: str
    plugin: str
    interface: str
    publications: list[str]
    state: str
    #: The reason why it is not received; empty when there is none.
    problem: str
    remedy: str
    #: The number of its current incarnation; positions compare only within one.
    incarnation: int | None
    #: The last commit_seq of that incarnation.
    commit_seq: int | None
    #: Everything that ends at or before this position is stored.
    checkpoint_lsn: str | None
    last_commit_time: datetime | None
    transactions_stored: int
    #: Changes that count.
    changes_stored: int
    #: Further changes that savepoints, aborts and ROLLBACK PREPARED undid.
    changes_rolled_back: int


@page(role=VIEWER)
@router.get("/slots", response=list[SlotOut], summary="All slots")
def slots(request: HttpRequest) -> list[dict[str, Any]]:
    """List every slot that replview receives, and the position up to which it is stored."""
    rows = Slot.objects.select_related("source", "incarnation")
    return [_facts(slot) for slot in rows.order_by("source__name", "name")]


def _facts(slot: Slot) -> dict[str, object]:
    incarnation = slot.incarnation
    return {
        "slot": str(slot),
        "plugin": slot.plugin,
        "interface": slot.interface,
        "publications": slot.publications,
        "state": slot.state,
        "problem": slot.problem_cause,
        "remedy": slot.problem_remedy,
        "incarnation": None if incarnation is None else incarnation.number,
        "commit_seq": None if incarnation is None else incarnation.commit_seq,
        "checkpoint_lsn": None if slot.checkpoint_lsn is None else str(slot.checkpoint_lsn),
        "last_commit_time": slot.last_commit_time,
        "transactions_stored": slot.transactions_stored,
        "changes_stored": slot.changes,
        "changes_rolled_back": slot.changes_rolled_back,
    }


@page(role=VIEWER, of=OF_SLOT)
@router.get(
    "/slots/{source_name}/{slot_name}/health",
    response=dict[str, Any],
    summary="What holds a slot, until when",
)
def slot_health(request: HttpRequest, source_name: str, slot_name: str) -> dict[str, object]:
    """Return a slot's state, what holds it, a remedy, and when it is lost, as pages show them.

    ``time_to_loss`` is that of the limit reached first, which ``by`` names; null where no
    loss is in sight, or it is unknown.
    """
    fleet, name = fleet_of(request), f"{source_name}/{slot_name}"
    view = fleet.find_slot(name) or fleet.find_other(name)
    if view is None:
        raise Http404(f"there is no slot {name!r}: see /api/v1/slots for replview's own")
    slot, health, server = getattr(view, "slot", None), view.health, view.server
    source = slot.source if slot is not None else view.server.source  # type: ignore[union-attr]
    limit = limit_of(source, slot, view.reading)
    look = SourceLook.objects.filter(source=source).first()
    state = SourceState(look, fleet.now, fleet.stale_after)
    cause = None if server is None else cause_of(server, state, fleet.now, slot)
    loss = foreseen_loss(source, view.reading, fleet.now, slot)
    return {
        "slot": name,
        "state": str(health.level),
        "title": health.title,
        "cause": health.cause,
        "remedy": health.next_step,
        "held_by": None if cause is None or cause.kind == "unknown" else cause.words,
        "retained_bytes": view.retained_wal_bytes,
        "limit_bytes": limit.size_bytes,
        "limit_by": limit.by,
        "idle_timeout_seconds": idle_timeout(source),
        "time_to_loss": None if loss is None else loss.as_json(),
    }


def slot_named(name: str) -> Slot:
    """Return the slot ``source/name``; without a name the only slot.

    Raises ``Http404`` for an unknown slot, ``BadRequest`` where one of several must be named.
    """
    slots = Slot.objects.select_related("source", "incarnation")
    if name:
        source, _, slot_name = name.rpartition("/")
        slot = slots.filter(source__name=source, name=slot_name).first()
        if slot is None:
            raise Http404(f"there is no slot {name!r}: write source/name, see /api/v1/slots")
        return slot
    latest = list(slots.order_by(F("heartbeat_at").desc(nulls_last=True), "id")[:2])
    if not latest:
        raise Http404("there is no slot yet: replview slot add SOURCE NAME")
    if len(latest) > 1:
        raise BadRequest("there are several slots", "name one with slot=source/name")
    return latest[0]


@page(role=VIEWER)
@router.get(
    "/coverage", tags=["coverage"], response=dict[str, Any], summary="What the record covers"
)
def coverage(request: HttpRequest, slot: str = "", table: str = "") -> dict[str, object]:
    """Return since when a slot's record is complete, its gaps, and what is not published."""
    return coverage_json(slot_named(slot), table_named(table) if table else None)


def coverage_json(slot: SlotOnRecord, table: tuple[str, str] | None = None) -> dict[str, object]:
    """Return the coverage of a slot's record, and of one table in it if one is named.

    "No change" may be concluded only for times between ``whole_since`` and ``stored_until``.
    """
    record = coverage_of(reading_session(), slot, table=table)
    return {
        "recorded_since": utc_text(record.recorded_since),
        "recorded_since_lsn": record.recorded_since_lsn,
        "whole_since": utc_text(record.vouched_since) if record.says_no_change() else None,
        "stored_until": utc_text(record.stored_until),
        "stored_until_lsn": record.stored_until_lsn,
        "gaps": [_gap(gap) for gap in record.gaps],
        "gaps_known_since": utc_text(record.gaps_known_since),
        "origin_filtered": record.origin_filtered,
        "table": None if record.table is None else _table(record.table),
    }


def table_named(name: str) -> tuple[str, str]:
    """Split ``schema.table`` into its names. Raises ``BadRequest``."""
    schema, *parts = name_parts(name)
    if not schema or not parts or not all(parts):
        raise BadRequest(f"{name[:100]} is not a table's name", "write table=schema.table")
    return schema, ".".join(parts)


def _gap(gap: Gap) -> dict[str, object]:
    return {
        "kind": gap.kind,
        "from_time": utc_text(gap.from_time),
        "to_time": utc_text(gap.to_time),
        "from_lsn": gap.from_lsn,
        "to_lsn": gap.to_lsn,
        "why": gap.why,
    }


def _table(table: TableCoverage) -> dict[str, object]:
    baseline = table.baseline
    return {
        "schema": table.schema,
        "table": table.table,
        "published": table.published,
        "published_since": utc_text(table.published_since),
        "operations_missing": list(table.operations_missing),
        "columns_missing": list(table.unpublished_columns),
        "row_filter": table.row_filter,
        "baseline": None
        if baseline is None
        else {
            "lsn": str(baseline.lsn),
            "rows": baseline.rows,
            "finished_at": utc_text(baseline.finished_at),
        },
    }

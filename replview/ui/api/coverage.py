"""What an answer can vouch for: every answer about a slot's changes carries it."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from replview.access.page import VIEWER, page
from replview.access.visibility import reading_session
from replview.store.read.changes.records import utc_text
from replview.store.read.coverage import Coverage, Gap, TableCoverage, coverage_of
from replview.store.read.rows import Slot
from replview.ui.api.answers import BadRequest
from replview.ui.api.slots import slot_named

router = Router(tags=["coverage"])


@page(role=VIEWER)
@router.get("/coverage", response=dict[str, Any], summary="What the record covers")
def coverage(request: HttpRequest, slot: str = "", table: str = "") -> dict[str, Any]:
    """Since when a slot's record is whole, its gaps, and what of a table is not published."""
    return coverage_json(slot_named(slot), table_named(table) if table else None)


def coverage_json(slot: Slot, table: tuple[str, str] | None = None) -> dict[str, Any]:
    """The coverage of a slot's record, of one table in it where one is named.

    "No change" may be said of a time between ``whole_since`` and ``stored_until``, and of no other.
    """
    found = coverage_of(reading_session(), slot, table=table)
    return {
        "recorded_since": utc_text(found.recorded_since),
        "recorded_since_lsn": found.recorded_since_lsn,
        "whole_since": utc_text(found.vouched_since) if _says(found) else None,
        "stored_until": utc_text(found.stored_until),
        "stored_until_lsn": found.stored_until_lsn,
        "gaps": [_gap(gap) for gap in found.gaps],
        "gaps_known_since": utc_text(found.gaps_known_since),
        "origin_filtered": found.origin_filtered,
        "table": None if found.table is None else _table(found.table),
    }


def table_named(name: str) -> tuple[str, str]:
    """``schema.table`` apart. Raises ``BadRequest``."""
    schema, dot, table = name.partition(".")
    if not dot or not schema or not table:
        raise BadRequest(f"{name[:100]} is not a table's name", "write table=schema.table")
    return schema, table


def _says(found: Coverage) -> bool:
    return found.says_no_change()


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "kind": gap.kind,
        "from_time": utc_text(gap.from_time),
        "to_time": utc_text(gap.to_time),
        "from_lsn": gap.from_lsn,
        "to_lsn": gap.to_lsn,
        "why": gap.why,
    }


def _table(table: TableCoverage) -> dict[str, Any]:
    done = table.baseline
    return {
        "schema": table.schema,
        "table": table.table,
        "published": table.published,
        "published_since": utc_text(table.published_since),
        "operations_missing": list(table.operations_missing),
        "columns_missing": list(table.unpublished_columns),
        "row_filter": table.row_filter,
        "baseline": None
        if done is None
        else {"lsn": str(done.lsn), "rows": done.rows, "finished_at": utc_text(done.finished_at)},
    }

"""The API of one row: its history, and its values as of a moment."""

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema

from decoder.scalars import LSN
from replview.access.page import ROWS, VIEWER, page
from replview.access.visibility import reading_session
from replview.store.models import Slot
from replview.store.read.changes.records import OPERATIONS, utc_text
from replview.store.read.coverage import coverage_of
from replview.store.read.row_history.as_of import bounded, row_as_of
from replview.store.read.row_history.events import RowPeriod, change_name
from replview.store.read.row_history.history import row_history
from replview.store.read.row_history.keys import KeyProblem, TableRows, parse_key, tables_named
from replview.store.read.row_history.replay import HistoryEntry
from replview.store.read.transactions.filter_values import read_time
from replview.store.write.access_record import viewed
from replview.text.parsing import clean_text
from replview.ui.api.answers import BadRequest
from replview.ui.api.filters import BUDGET_SECONDS, Paging
from replview.ui.api.slots import coverage_json, slot_named

router = Router(tags=["rows"])
#: Subjects of the two requests in the access record.
HISTORY, AS_OF = "the history of a row", "a row as of a moment"


class RowHistoryOut(Schema):
    """A page of a row's history, newest first."""

    slot: str
    table: str
    key: dict[str, str | None]
    items: list[dict[str, Any]]
    #: Cursor of the older changes; null: there are none.
    older: str | None
    #: True if the page ends with the insert of the row, so that no older change exists.
    complete: bool
    #: Other rows that had the key; `change` selects one of them.
    other_rows: list[dict[str, Any]]
    coverage: dict[str, Any]


class RowOut(Schema):
    """A row at one moment."""

    slot: str
    table: str
    key: dict[str, str | None]
    #: null: unknown.
    exists: bool | None
    #: The reason why it does not exist, or why that is unknown.
    why: str
    values: dict[str, Any]
    #: The reason for each column whose value is unknown.
    unknown: dict[str, str]
    #: If the record does not cover the moment (`why`: `not stored`, `gap`): since when the row is
    #: unknown, and in `last_known` what it was then.
    unknown_since: str | None
    last_known: dict[str, Any] | None
    version: int | None
    #: The last transaction that changed the row.
    last_xid: int | None
    last_commit_time: str | None
    coverage: dict[str, Any]


@page(role=VIEWER, record=ROWS)
@router.get("/rows", response=RowHistoryOut, summary="A row's history")
def rows(
    request: HttpRequest,
    table: str,
    key: str,
    paging: Query[Paging],
    slot: str = "",
    actor: str | None = None,
    column: str | None = None,
    change: str = "",
) -> dict[str, object]:
    """List every change of one row, newest first, across changes of its key and its table's shape.

    Of several rows that had the key, it is the one that has it, or had it last, unless `change`
    names a change of another one. `key`: `42`, `id=42`, or `a=1, b='x, y'`. `actor`: only changes
    by this actor; `?`: by an unknown one.
    """
    named_slot = slot_named(slot)
    table_rows, row_key = _table_and_key(named_slot, table, key)
    page = row_history(
        reading_session(),
        named_slot,
        table_rows.relation.pk,
        row_key,
        change=_parse_change(change),
        cursor=paging.cursor or None,
        limit=paging.limit,
        actor="" if actor == "?" else actor,
        column=column,
        budget_seconds=BUDGET_SECONDS,
    )
    viewed(relation_ids=table_rows.relation_ids, rows=len(page.entries), subject=HISTORY)
    return {
        **_common_fields(named_slot, table_rows, row_key),
        "items": [_entry_json(entry, table_rows) for entry in page.entries],
        "older": page.older,
        "complete": page.older is None
        and page.row.begun == "insert"
        and not page.finder.is_keyless,
        "other_rows": [_period_json(period) for period in page.others],
    }


@page(role=VIEWER, record=ROWS)
@router.get("/rows/as-of", response=RowOut, summary="A row at a moment")
def as_of(
    request: HttpRequest, table: str, key: str, slot: str = "", at: str = "", lsn: str = ""
) -> dict[str, object]:
    """Return the row as of `at` (an ISO time, or an age like `2h`) or `lsn`; by default: now.

    All transactions that committed at or before that moment are included. Values that the record
    does not have are in `unknown`.
    """
    named_slot = slot_named(slot)
    table_rows, row_key = _table_and_key(named_slot, table, key)
    moment = read_time(at) if at else None
    if at and moment is None:
        raise BadRequest(f"{at[:100]} is not a time", "write at=2026-11-20T07:57:11Z, or at=2h")
    relation, position = table_rows.relation, _parse_lsn(lsn) if lsn else None
    state = bounded(
        row_as_of(reading_session(), named_slot, relation.pk, row_key, moment=moment, lsn=position),
        coverage_of(reading_session(), named_slot, table=(relation.schema, relation.table)),
        moment=moment,
        lsn=position,
    )
    viewed(relation_ids=table_rows.relation_ids, rows=1, subject=AS_OF)
    last_known = {"exists": state.exists, "values": dict(state.values)}
    column_names = [column["name"] for column in state.version.columns] if state.version else []
    return {
        **_common_fields(named_slot, table_rows, row_key),
        "exists": None if state.beyond else state.exists,
        "why": state.beyond or state.why,
        "values": {} if state.beyond else last_known["values"],
        "unknown": dict.fromkeys(column_names, state.beyond)
        if state.beyond
        else dict(state.unknown),
        "unknown_since": utc_text(state.unknown_since),
        "last_known": last_known if state.beyond else None,
        "version": state.version.number if state.version else None,
        "last_xid": state.last.xid if state.last else None,
        "last_commit_time": utc_text(state.last.commit_time) if state.last else None,
    }


def _parse_change(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    if (name := change_name(text)) is None:
        raise BadRequest(f"{text[:100]} names no change", "give back `change` as it came")
    return name


def _period_json(period: RowPeriod) -> dict[str, object]:
    """Return the period in which another row had the key, and how it began and ended."""
    first, last = period.events[0], period.events[-1]
    return {
        "change": last.text,
        "begun": period.begun or "unknown",
        "since": utc_text(first.commit_time),
        "ended": period.ended or None,
        "until": utc_text(period.until),
        "changes": len(period.events),
    }


def _table_and_key(slot: Slot, table: str, key: str) -> tuple[TableRows, dict[str, str | None]]:
    """Return the table and the key in it. Raises ``Http404`` and ``BadRequest``."""
    table_rows = tables_named(reading_session(), slot, clean_text(table, 200, strip=False))
    if table_rows is None:
        raise Http404(f"slot {slot} has no table {table[:100]!r}: see /api/v1/relations")
    if reason := table_rows.withheld(reading_session()):
        raise BadRequest(reason, "ask for the table's changes without a key")
    try:
        typed = parse_key(clean_text(key, strip=False), table_rows.key_columns)
        return table_rows, table_rows.printed(reading_session(), typed)
    except KeyProblem as problem:
        remedy = "write key=42, key=id=42 or key=a=1, b='x, y'"
        raise BadRequest(str(problem), remedy) from None


def _common_fields(
    slot: Slot, table: TableRows, key: Mapping[str, str | None]
) -> dict[str, object]:
    relation = table.relation
    return {
        "slot": str(slot),
        "table": f"{relation.schema}.{relation.table}",
        "key": dict(key),
        "coverage": coverage_json(slot, (relation.schema, relation.table)),
    }


def _entry_json(entry: HistoryEntry, table: TableRows) -> dict[str, object]:
    """Return one change of the row.

    ``before_kind`` says how ``before`` is known; ``altered`` names columns missing in it because
    ALTER TABLE or this change changed them.
    """
    step, version = entry.step, table.shapes.versions.get(entry.step.version_id)
    return {
        "transaction": step.transaction_id,
        "seq": step.seq,
        "lsn": str(LSN(step.lsn)),
        "op": OPERATIONS[step.op],
        "version": version.number if version else None,
        "xid": step.xid,
        "gid": step.gid,
        "commit_seq": step.commit_seq,
        "commit_time": utc_text(step.commit_time),
        "actor": step.actor,
        "actor_grade": step.actor_grade or ("claimed" if step.actor else "unknown"),
        "before_kind": entry.before_kind,
        "before": dict(entry.before.values) if entry.before.exists else None,
        "altered": sorted(entry.before.altered),
        "after": dict(entry.after.values) if entry.after.exists else None,
    }


def _parse_lsn(text: str) -> int:
    try:
        return int(LSN.parse(text))
    except ValueError:
        raise BadRequest(f"{text[:100]} is not an LSN", "write lsn=0/1B2C3D8") from None

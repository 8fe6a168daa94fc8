"""One row: its history, and what it was at a moment."""

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema

from replview.access.page import ROWS, VIEWER, page
from replview.access.visibility import reading_session
from replview.store.fields import LSN
from replview.store.models import Slot
from replview.store.read.changes.records import OPERATIONS, utc_text
from replview.store.read.row_history.as_of import row_as_of
from replview.store.read.row_history.history import RowHistory, row_history
from replview.store.read.row_history.keys import KeyProblem, TableRows, parse_key, tables_named
from replview.store.read.row_history.replay import Entry
from replview.store.read.transactions.transaction_filter import read_time
from replview.store.write.access_record import viewed
from replview.text.parsing import clean_text
from replview.ui.api.answers import BadRequest
from replview.ui.api.filters import BUDGET_SECONDS, Paging
from replview.ui.api.slots import coverage_json, slot_named

router = Router(tags=["rows"])
#: What the access record calls them.
HISTORY, AS_OF = "the history of a row", "a row as of a moment"


class RowHistoryOut(Schema):
    """A page of a row's history, newest first."""

    slot: str
    table: str
    key: dict[str, str | None]
    items: list[dict[str, Any]]
    #: Where older changes begin; null: there are none.
    older: str | None
    complete: bool
    coverage: dict[str, Any]


class RowOut(Schema):
    """A row at one moment."""

    slot: str
    table: str
    key: dict[str, str | None]
    #: null: the record cannot tell.
    exists: bool | None
    #: Why it does not exist, or why that cannot be told.
    why: str
    values: dict[str, Any]
    #: Columns whose value the record does not tell, and why.
    unknown: dict[str, str]
    version: int | None
    #: The transaction that left it so.
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
) -> dict[str, object]:
    """Every change of one row, newest first, across moves of its key and versions of its table.

    `key`: `42`, `id=42`, or `a=1, b=2`. `actor`: only theirs; `?`: of nobody named.
    """
    found = slot_named(slot)
    of_table, wanted = _row(found, table, key)
    try:
        page: RowHistory = row_history(
            reading_session(),
            found,
            of_table.relation.pk,
            wanted,
            cursor=paging.cursor or None,
            limit=paging.limit,
            actor="" if actor == "?" else actor,
            column=column,
            budget_seconds=BUDGET_SECONDS,
        )
    except ValueError:
        raise BadRequest("this is no cursor", "give back `older` as it came") from None
    viewed(relation_ids=of_table.relation_ids, rows=len(page.entries), subject=HISTORY)
    return {
        **_named(found, of_table, wanted),
        "items": [_entry(entry, of_table) for entry in page.entries],
        "older": page.older,
        "complete": page.older is None,
    }


@page(role=VIEWER, record=ROWS)
@router.get("/rows/as-of", response=RowOut, summary="A row at a moment")
def as_of(
    request: HttpRequest, table: str, key: str, slot: str = "", at: str = "", lsn: str = ""
) -> dict[str, object]:
    """The row after everything that had committed by `at` (an ISO time, or an age like `2h`), or
    at or before `lsn`; without either: now. What the record cannot tell is in `unknown`.
    """
    found = slot_named(slot)
    of_table, wanted = _row(found, table, key)
    moment = read_time(at) if at else None
    if at and moment is None:
        raise BadRequest(f"{at[:100]} is not a time", "write at=2026-11-20T07:57:11Z, or at=2h")
    state = row_as_of(
        reading_session(),
        found,
        of_table.relation.pk,
        wanted,
        moment=moment,
        lsn=_lsn(lsn) if lsn else None,
    )
    viewed(relation_ids=of_table.relation_ids, rows=1, subject=AS_OF)
    return {
        **_named(found, of_table, wanted),
        "exists": state.exists,
        "why": state.why,
        "values": dict(state.values),
        "unknown": dict(state.unknown),
        "version": state.version.number if state.version else None,
        "last_xid": state.last.xid if state.last else None,
        "last_commit_time": utc_text(state.last.commit_time) if state.last else None,
    }


def _row(slot: Slot, table: str, key: str) -> tuple[TableRows, dict[str, str | None]]:
    """The table and the key in it. Raises ``Http404``, ``BadRequest``."""
    found = tables_named(reading_session(), slot, clean_text(table, 200, strip=False))
    if found is None:
        raise Http404(f"slot {slot} has no table {table[:100]!r}: see /api/v1/relations")
    if reason := found.withheld(reading_session()):
        raise BadRequest(reason, "ask for the table's changes without a key")
    try:
        return found, parse_key(clean_text(key, strip=False), found.key_columns)
    except KeyProblem as problem:
        raise BadRequest(str(problem), "write key=42, key=id=42 or key=a=1, b=2") from None


def _named(slot: Slot, table: TableRows, key: Mapping[str, str | None]) -> dict[str, object]:
    relation = table.relation
    return {
        "slot": str(slot),
        "table": f"{relation.schema}.{relation.table}",
        "key": dict(key),
        "coverage": coverage_json(slot, (relation.schema, relation.table)),
    }


def _entry(entry: Entry, table: TableRows) -> dict[str, object]:
    """One change of the row; ``before_kind`` says how ``before`` is known."""
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
        "after": dict(entry.after.values) if entry.after.exists else None,
    }


def _lsn(text: str) -> int:
    try:
        return int(LSN.parse(text))
    except ValueError:
        raise BadRequest(f"{text[:100]} is not an LSN", "write lsn=0/1B2C3D8") from None

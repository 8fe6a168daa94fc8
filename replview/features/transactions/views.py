"""Views of a transaction, of its drawer, and of each change as JSON, SQL or undo."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from replview.access.page import GET, ROWS, VIEWER, page
from replview.access.visibility import reading_session
from replview.features.transactions.page import read_page
from replview.store.models import SlotIncarnation, Transaction
from replview.store.models.seen import seen_sources
from replview.store.read.changes.as_sql import (
    MOST_CHANGES,
    change_as_sql,
    undo_sql,
    undo_transaction,
)
from replview.store.read.changes.of_transaction import (
    beginning_of,
    first_changes_whole,
    last_seq,
    one_change,
    value_pieces,
)
from replview.store.read.changes.stream import RecordWriter
from replview.store.read.coverage import coverage_of
from replview.store.read.days import deleted_day_of
from replview.store.read.history import transitions_of
from replview.store.read.row_history.before_images import before_images
from replview.store.read.row_history.shapes import altered_since
from replview.store.read.rows import ChangeRow, TransactionRow
from replview.store.read.sql_text import comment
from replview.store.retention.archived import place_of
from replview.store.write.access_record import Action, note, viewed, viewed_changes
from replview.targets.archived import archived_transaction
from replview.ui.changes.drawer import (
    DrawerChanges,
    changes_page,
    find_transaction,
    read_slot,
    received_anew,
)
from replview.ui.changes.stages import LifecycleDrawing, lifecycle_of
from replview.ui.changes.transaction_text import NOT_UNDONE, Heading, heading_of
from replview.ui.page_fields import named_fields
from replview.ui.params import Params, scope_to
from replview.ui.shell import fleet_of
from replview.ui.streaming import stream

REFUSED = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawer:
    """A transaction in the drawer beside the live page."""

    heading: Heading
    #: None for a transaction that was received in one piece.
    lifecycle: LifecycleDrawing | None
    changes: DrawerChanges


def read_drawer(row: TransactionRow, after: int = 0) -> Drawer:
    """Read the drawer of a transaction, with the changes after change ``after``."""
    staged = row.streamed or row.gid
    transitions = transitions_of(reading_session(), [row.id]).get(row.id, ()) if staged else ()
    return Drawer(
        heading=heading_of(row),
        lifecycle=lifecycle_of(row, transitions, timezone.now()),
        changes=changes_page(row, read_slot(row), after),
    )


@page(GET, role=VIEWER, nav="transactions", of={"transaction_id": None}, record=ROWS)
def transaction_page(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """Show a transaction, or what happened to one that is not in the store."""
    try:
        row = find_transaction(transaction_id)
    except Http404:
        return _missing_transaction(request, transaction_id)
    slot = read_slot(row, fleet_of(request))
    # Set the header's scope to the transaction's slot, whatever the address says.
    scope_to(request, slot)
    content = named_fields(read_page(request.GET, row, slot))
    return render(request, "transactions/transaction.html", content)


def _missing_transaction(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """Show the archived transaction, redirect to its successor, or say that it was deleted."""
    # The source of a deleted transaction is unknown, so tell only accounts that see all sources.
    limited = seen_sources() is not None
    deleted_day = None if limited else deleted_day_of(reading_session(), transaction_id)
    if deleted_day is not None and (archived_place := place_of(transaction_id)) is not None:
        return archived_transaction(request, archived_place, request.path)
    successor_id, discarded_at = received_anew(transaction_id)
    if successor_id is not None:
        return redirect("transaction", successor_id)
    context = {"deleted_day": deleted_day, "discarded_at": discarded_at}
    return render(request, "404.html", context, status=404)


@page(GET, role=VIEWER, of={"transaction_id": Transaction})
def coverage(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """Show the coverage around a transaction, which its page loads afterwards."""
    slot_coverage = coverage_of(reading_session(), read_slot(find_transaction(transaction_id)))
    return render(request, "transactions/_coverage.html", {"coverage": slot_coverage})


@page(GET, role=VIEWER, of={"transaction_id": Transaction}, record=ROWS)
def drawer(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """Show a transaction in the drawer of the live page."""
    page = read_drawer(find_transaction(transaction_id), _after_seq(request))
    scope_to(request, page.changes.slot)
    content = {"heading": page.heading, "lifecycle": page.lifecycle, **named_fields(page.changes)}
    return render(request, "live_page/_drawer.html", content)


@page(GET, role=VIEWER, of={"transaction_id": Transaction}, record=ROWS)
def changes(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """Show the next changes of a transaction in a drawer."""
    row = find_transaction(transaction_id)
    page = changes_page(row, read_slot(row), _after_seq(request))
    return render(request, "ui/changes/_list.html", named_fields(page))


def _after_seq(request: HttpRequest) -> int:
    return Params(request.GET).number("after", digits=9) or 0


@page(GET, role=VIEWER, of={"transaction_id": Transaction, "seq": None}, record=ROWS)
def value(request: HttpRequest, transaction_id: int, seq: int) -> HttpResponseBase:
    """Return a value as a page shows it, or with ``whole`` all of it, as a download.

    ``side`` is old, new, or before (derived from earlier changes).
    """
    side, column = request.GET.get("side", ""), request.GET.get("column", "")
    text, place = None, (transaction_id, seq, side)
    if side == "before":
        change = _read_change(transaction_id, seq)
        before = before_images(reading_session(), [change]).get((transaction_id, seq))
        image = None if before is None else before.image.get(column)
        text = image if isinstance(image, str) else None
        if before is not None and isinstance(image, Mapping) and "$aside" in image:
            # The value is stored with the change that sent it.
            place = before.origins.get(column, place)
    pieces = iter([text]) if text is not None else value_pieces(reading_session(), *place, column)
    if pieces is None:
        raise Http404("no such value")
    viewed(rows=1, transaction=transaction_id, seq=seq)
    if "whole" not in request.GET:
        return _text_response(beginning_of(pieces), "value.txt")
    answer = stream(request, (piece.encode() for piece in pieces), "text/plain; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="value.txt"'
    return answer


@page(GET, role=VIEWER, of={"transaction_id": Transaction, "seq": None}, record=ROWS)
def as_json(request: HttpRequest, transaction_id: int, seq: int) -> HttpResponse:
    """Return a change as JSON."""
    change = _read_change(transaction_id, seq)
    row = find_transaction(transaction_id)
    incarnation = SlotIncarnation.objects.select_related("slot").get(pk=row.incarnation_id)
    record = RecordWriter(reading_session(), incarnation.slot).record((row, change))
    return _text_response(json.dumps(record, ensure_ascii=False, indent=2) + "\n", "change.json")


@page(
    GET,
    role=VIEWER,
    of={"transaction_id": Transaction, "seq": None},
    record=(*ROWS, Action.COPIED_SQL),
)
def as_sql(request: HttpRequest, transaction_id: int, seq: int) -> HttpResponse:
    """Return the SQL statement that repeats a change, or the reason that there is none."""
    change = _read_change(transaction_id, seq)
    statement = change_as_sql(
        change, before_images(reading_session(), [change]).get((transaction_id, seq))
    )
    note_copied("the SQL of a change", statement.sql, transaction_id, seq)
    return _statement_response(statement.sql, f"No SQL: {statement.reason}.", "change.sql")


@page(
    GET,
    role=VIEWER,
    of={"transaction_id": Transaction, "seq": None},
    record=(*ROWS, Action.COPIED_SQL),
)
def undo(request: HttpRequest, transaction_id: int, seq: int) -> HttpResponse:
    """Return the SQL statement that undoes a change, or the reason that there is none."""
    if problem := NOT_UNDONE.get(find_transaction(transaction_id).state):
        return _statement_response(None, f"No undo: {problem}.", "undo.sql")
    change = _read_change(transaction_id, seq)
    statement = undo_sql(
        change, before_images(reading_session(), [change]).get((transaction_id, seq))
    )
    note_copied("the SQL that undoes a change", statement.sql, transaction_id, seq)
    return _statement_response(
        _with_alteration_comments(statement.sql, [change]),
        f"No undo: {statement.reason}.",
        "undo.sql",
    )


@page(GET, role=VIEWER, of={"transaction_id": Transaction}, record=(*ROWS, Action.COPIED_SQL))
def undo_all(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """Return the SQL that undoes a transaction, last change first."""
    row = find_transaction(transaction_id)
    problem = NOT_UNDONE.get(row.state, "")
    changes: list[ChangeRow] | None = []
    if not problem and row.changes <= MOST_CHANGES:
        changes = first_changes_whole(reading_session(), transaction_id, MOST_CHANGES + 1)
    elif not problem:
        problem = f"it has more than {MOST_CHANGES:,} changes"
    if changes is None:
        problem = "its changes are too long to be copied"
    if problem:
        return _statement_response(None, f"No undo: {problem}.", "undo.sql")
    changes = changes or []
    script = undo_transaction(
        changes, before_images(reading_session(), changes), name=row.gid or str(row.xid or "")
    )
    viewed_changes(changes)
    note_copied("the SQL that undoes a transaction", script.sql, transaction_id)
    reasons = "\n".join(script.reasons)
    sql = _with_alteration_comments(script.sql, changes)
    return _statement_response(sql, f"No undo of the whole transaction:\n{reasons}", "undo.sql")


def _with_alteration_comments(sql: str | None, changes: list[ChangeRow]) -> str | None:
    """Prepend comments about later alterations of the tables' columns."""
    return sql and "".join(map(comment, altered_since(reading_session(), changes))) + sql


def note_copied(subject: str, sql: str | None, transaction_id: int, seq: int | None = None) -> None:
    """Record that SQL was copied, with the change's place but without the SQL itself."""
    if sql is not None:
        details = {"transaction": transaction_id} | ({} if seq is None else {"seq": seq})
        note(Action.COPIED_SQL, subject=subject, details=details)


def _read_change(transaction_id: int, seq: int) -> ChangeRow:
    """Return one whole change. Raises ``Http404``."""
    row = find_transaction(transaction_id)
    change = one_change(reading_session(), row.id, seq) if seq < 1 << 31 else None
    if change is None:
        if seq < 1 << 31 and 0 < seq <= last_seq(reading_session(), row.id):
            raise Http404("this change is too long to be copied")
        raise Http404("the transaction has no such change")
    viewed_changes([change])
    return change


def _statement_response(sql: str | None, refusal: str, name: str) -> HttpResponse:
    if sql is None:
        return _text_response(f"{refusal}\n", "refused.txt", status=REFUSED)
    return _text_response(f"{sql}\n", name)


def _text_response(text: str, name: str, *, status: int = 200) -> HttpResponse:
    response = HttpResponse(text, content_type="text/plain; charset=utf-8", status=status)
    # With this name and the type text/plain no browser renders the values as a page.
    response["Content-Disposition"] = f'inline; filename="{name}"'
    return response

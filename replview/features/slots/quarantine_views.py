"""Views that show a quarantined message and decide about it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from replview.access.guard import require_all_tables
from replview.access.page import GET, OF_SLOT, OPERATOR, POST, ROWS, page
from replview.access.visibility import current_visibility
from replview.features.slots import views as slot_page
from replview.features.slots.quarantine_text import SHOWN_BYTES, hex_dump
from replview.store.django_session import current_rules
from replview.store.models import Quarantine, RelationVersion, Slot
from replview.store.quarantine import decide, raw_length, raw_part, skip_word
from replview.store.read.mask_rules import masked_by, named_columns, table_readings
from replview.store.read.visibility import NO_RIGHT
from replview.store.write.access_record import Action, note

#: Tags of messages that carry values of rows; among the others only ``M`` carries values.
_ROW_TAGS = "IUD"
#: Size of the pieces in which a download is read from the store.
_PIECE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMessage:
    """The beginning of a quarantined message, or the reason that it is not shown."""

    row: Quarantine
    #: The hex dump; empty if no bytes are shown.
    dump: str
    #: Number of bytes that are stored: a longer message was cut off.
    stored_bytes: int
    #: Number of bytes that the dump leaves out.
    rest_bytes: int
    #: The reason that the bytes are not shown to this account; empty if they may be.
    withheld: str
    #: True when the bytes were stored and then erased.
    erased: bool


def why_withheld(row: Quarantine, slot: Slot) -> str:
    """Return why the message's bytes are not shown to this account; empty if they are."""
    visibility = current_visibility()
    if row.tag == "M":
        return f"you have {NO_RIGHT}" if visibility.hides_messages(slot.source_id) else ""
    if row.tag not in _ROW_TAGS and row.tag:
        return ""
    tables = table_readings(row.relation)
    if not tables:
        restricted = visibility.restricted or current_rules() or slot.column_rules
        return "it names no table, and you may not see all tables" if restricted else ""
    if any(visibility.hides_table(slot.source_id, schema, table) for schema, table in tables):
        return f"you have {NO_RIGHT} of {row.relation}"
    if any(_is_masked(slot, schema, table) for schema, table in tables):
        return f"columns of {row.relation} are masked, and these bytes are not"
    return ""


def _is_masked(slot: Slot, schema: str, table: str) -> bool:
    """Return whether a column of the table is masked, under any name that the table had.

    The slot's own rules and those of the instance count. For a table that is not recorded any
    matching rule counts, since its columns are unknown.
    """
    same_named = RelationVersion.objects.filter(relation__slot=slot, schema=schema, table=table)
    relation_versions = RelationVersion.objects.filter(relation__in=same_named.values("relation"))
    versions = list(relation_versions.values_list("schema", "table", "columns"))
    columns = [
        column for *_, version_columns in versions for column in named_columns(version_columns)
    ]
    rules = current_rules()
    for schema_name, table_name in {
        (schema, table),
        *((version_schema, version_table) for version_schema, version_table, _ in versions),
    }:
        if (slot.column_rules or {}).get(f"{schema_name}.{table_name}"):
            return True
        table_rules = [
            rule for rule in rules if rule.matches_table(slot.source_id, schema_name, table_name)
        ]
        if table_rules and (
            not columns or masked_by(table_rules, slot.source_id, schema_name, table_name, columns)
        ):
            return True
    return False


@page(POST, role=OPERATOR, of={**OF_SLOT, "quarantine_id": None})
def decision(
    request: HttpRequest, source_name: str, slot_name: str, quarantine_id: int
) -> HttpResponse:
    """Try again or skip the transaction; a skip must be confirmed with the typed xid."""
    view = slot_page.find(request, source_name, slot_name)
    row = _find_quarantine(source_name, slot_name, quarantine_id)
    if view is None:
        raise Http404("there is no such slot")
    chosen, typed = request.POST.get("decision", ""), request.POST.get("xid", "").strip()[:40]
    if chosen not in (Quarantine.Decision.RETRY, Quarantine.Decision.SKIP):
        return slot_page.show(request, view, error="Choose retry or skip.", status=422)
    if chosen == Quarantine.Decision.SKIP:
        # A transaction is left out with all that it changed, in whatever tables.
        require_all_tables(request, row.slot.source)
        word = skip_word(row)
        if not word:
            error = "This message belongs to no transaction, so nothing can be skipped."
            return slot_page.show(request, view, error=error, status=422)
        if typed != word:
            error = f"Not skipped: type {word} to confirm."
            return slot_page.show(request, view, error=error, typed=typed, status=422)
    # If another account decided first, the page shows that decision.
    decide(row.pk, chosen, request.user.get_username())
    note(Action.CHANGED_SLOT, subject=f"quarantine of {row.slot}: {chosen}",
         source_id=row.slot.source_id, details={"quarantine": row.pk})  # fmt: skip
    return redirect(reverse("slot", args=[source_name, slot_name]) + "#quarantine")


@page(GET, role=OPERATOR, of={**OF_SLOT, "quarantine_id": None}, record=ROWS)
def raw(request: HttpRequest, source_name: str, slot_name: str, quarantine_id: int) -> HttpResponse:
    """Show the message's beginning as a hex dump, as a part of the page."""
    message = read_raw(_find_quarantine(source_name, slot_name, quarantine_id))
    if message.dump:
        slot = message.row.slot
        note(Action.VIEWED_ROWS, subject=f"a quarantined message of {slot}",
             source_id=slot.source_id)  # fmt: skip
    return render(request, "slots/_raw.html", {"message": message})


def read_raw(row: Quarantine) -> RawMessage:
    """Read the beginning of a message, if this account may see it."""
    withheld = why_withheld(row, row.slot)
    stored_bytes = 0 if withheld else raw_length(row.pk)
    return RawMessage(
        row=row,
        dump=hex_dump(raw_part(row.pk, 0, SHOWN_BYTES)) if stored_bytes else "",
        stored_bytes=stored_bytes,
        rest_bytes=max(row.raw_bytes - SHOWN_BYTES, 0),
        withheld=withheld,
        erased=not withheld and not stored_bytes and row.raw_bytes > 0,
    )


@page(GET, role=OPERATOR, of={**OF_SLOT, "quarantine_id": None}, record=(Action.DOWNLOADED,))
def raw_file(
    request: HttpRequest, source_name: str, slot_name: str, quarantine_id: int
) -> StreamingHttpResponse:
    """Send the whole message as a download."""
    row = _find_quarantine(source_name, slot_name, quarantine_id)
    if withheld := why_withheld(row, row.slot):
        raise PermissionDenied(f"This message is not shown: {withheld}.")
    note(Action.DOWNLOADED, subject=f"a quarantined message of {row.slot}",
         source_id=row.slot.source_id)  # fmt: skip
    name = f"{slot_name}-quarantine-{row.pk}.bin"
    return StreamingHttpResponse(
        _pieces(row.pk),
        content_type="application/octet-stream",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Content-Length": str(raw_length(row.pk)),
        },
    )


async def _pieces(quarantine_id: int) -> AsyncIterator[bytes]:
    """Yield the message in pieces, so that the web process never holds all of it."""
    offset = 0
    while piece := await sync_to_async(raw_part)(quarantine_id, offset, _PIECE_BYTES):
        yield piece
        offset += len(piece)


def _find_quarantine(source_name: str, slot_name: str, quarantine_id: int) -> Quarantine:
    rows = Quarantine.objects.filter(slot__name=slot_name, slot__source__name=source_name)
    row = rows.select_related("slot__source").defer("raw").filter(pk=quarantine_id).first()
    if row is None:
        raise Http404("there is no such quarantined message")
    return row

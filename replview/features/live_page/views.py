"""The live page. Its drawer is a view of the transaction: ``views.transaction``."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from replview.catalog.test_message import statement
from replview.jobs.drafts import watch_of
from replview.store.models import Relation
from replview.ui.params import slot_asked_for

_TABLES_OFFERED = 200


@require_GET
def live_page(request: HttpRequest) -> HttpResponse:
    """Transactions as they commit. The rows come over the socket; this is all around them."""
    wanted = request.GET.get("slot", "")
    slot = slot_asked_for(wanted)
    if slot is None and wanted:
        raise Http404(f"there is no slot {wanted!r}")
    if slot is None:
        return render(request, "live_page/no_slot.html")
    # The header's scope is the slot that is shown, chosen or not.
    if not wanted:
        request.GET = request.GET.copy()  # type: ignore[assignment]
        request.GET["slot"] = str(slot)  # type: ignore[index]
    tables = Relation.objects.filter(slot=slot).order_by("schema", "table")
    names = list(dict.fromkeys(f"{t.schema}.{t.table}" for t in tables[:_TABLES_OFFERED]))
    page = {
        "slot": slot,
        "tables": names,
        "operations": [
            ("I", "inserts"),
            ("U", "updates"),
            ("D", "deletes"),
            ("T", "truncates"),
            ("M", "messages"),
        ],
        "states": [
            "streaming",
            "prepared",
            "committed",
            "message",
            "snapshot",
            "aborted",
            "rolled back",
        ],
        "test_statement": statement(request.user.get_username()),
        "watch": watch_of(slot),
    }
    return render(request, "live_page/live.html", page)

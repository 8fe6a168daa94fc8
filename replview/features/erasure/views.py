"""Erasing a person: rows named, what that touches looked at, confirmed by a word, followed."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from replview.access.page import ADMIN, page
from replview.access.permitted import require
from replview.access.rights import Role
from replview.features.erasure import queue as erasing
from replview.features.erasure.page import erasure_view, list_sentence
from replview.features.erasure.request import Unerasable, read_erasure_request
from replview.store.models import Erasure, Slot
from replview.store.write.access_record import note

_SHOWN = 100
_BOXES = ("slot", "rows", "columns", "actor", "why")
#: More than this is no list of keys that somebody typed.
_LONGEST = 400_000


@page(role=ADMIN, nav="masks")
@require_http_methods(["GET", "POST"])
def erase(request: HttpRequest) -> HttpResponse:
    """What was erased, and the form; what is sent is looked at first."""
    require(request, Role.ADMIN)
    if request.method != "POST":
        return _show(request, {"slot": request.GET.get("slot", ""), "rows": ""})
    values = {box: request.POST.get(box, "")[:_LONGEST] for box in _BOXES}
    try:
        row = _asked(request, values)
    except Unerasable as error:
        return _show(request, values, error)
    return redirect("erasure", erasure_id=row.pk)


@page(role=ADMIN, nav="masks", of={"erasure_id": None})
@require_GET
def erasure(request: HttpRequest, erasure_id: int) -> HttpResponse:
    """One act; a link that stays, without a key in it."""
    require(request, Role.ADMIN)
    row = _found(erasure_id)
    htmx = request.headers.get("HX-Request") == "true"
    # What has ended while somebody looked has other parts: the whole page is read anew.
    if htmx and not _moves(row):
        return HttpResponse(headers={"HX-Refresh": "true"})
    return _render(request, row, "erasure/_now.html" if htmx else "erasure/erasure.html")


@page(role=ADMIN, of={"erasure_id": None})
@require_POST
def confirm(request: HttpRequest, erasure_id: int) -> HttpResponse:
    """Have it done, once what it touches was typed."""
    require(request, Role.ADMIN)
    row = _found(erasure_id)
    if request.POST.get("typed", "").strip() != erasing.word_of(row):
        trouble = f"Nothing is erased: type {erasing.word_of(row)} to confirm"
        return _render(request, row, "erasure/erasure.html", trouble=trouble, status=422)
    if erasing.confirm(row, by=request.user.get_username()):
        note(
            "erased",
            subject=f"erasure {row.pk}",
            source_id=row.slot.source_id if row.slot else None,
            details={
                "tables": row.tables,
                "keys": row.keys,
                "columns": row.columns,
                "digests": row.digests,
            },
        )
    return redirect("erasure", erasure_id=row.pk)


@page(role=ADMIN, of={"erasure_id": None})
@require_POST
def drop(request: HttpRequest, erasure_id: int) -> HttpResponse:
    """Not to be done after all."""
    require(request, Role.ADMIN)
    erasing.drop(_found(erasure_id))
    return redirect("erase")


@page(role=ADMIN, of={"erasure_id": None})
@require_POST
def again(request: HttpRequest, erasure_id: int) -> HttpResponse:
    """Try now what was left, or go without a root that will never be reached."""
    require(request, Role.ADMIN)
    row = _found(erasure_id)
    root = request.POST.get("leave_out", "")
    if root:
        erasing.leave_out(row, root, by=request.user.get_username())
    else:
        erasing.try_again(row)
    return redirect("erasure", erasure_id=row.pk)


def _asked(request: HttpRequest, values: dict[str, str]) -> Erasure:
    source, _, name = values["slot"].rpartition("/")
    slot = Slot.objects.filter(source__name=source, name=name).select_related("source").first()
    if slot is None:
        raise Unerasable("no slot is named", "Choose one")
    pairs = []
    for number, line in enumerate(values["rows"].splitlines(), 1):
        table, _, key = line.strip().partition(" ")
        if table and not key.strip():
            raise Unerasable(
                f"line {number} names a table and no key", "Write schema.table, a space, the key"
            )
        if table:
            pairs.append((table, key.strip()))
    columns = values["columns"].replace(",", " ").split()
    erasure_request = read_erasure_request(
        slot, pairs, columns=columns, actor=values["actor"], reason=values["why"]
    )
    return erasing.request(erasure_request, by=request.user.get_username(), how="page")


def _show(
    request: HttpRequest, values: dict[str, str], error: Unerasable | None = None
) -> HttpResponse:
    rows = list(Erasure.objects.all()[:_SHOWN])
    unfinished = sum(row.state == Erasure.State.UNFINISHED for row in rows)
    done = sum(row.state == Erasure.State.DONE for row in rows)
    page = {
        "rows": [erasure_view(row) for row in rows],
        "sentence": list_sentence(done, unfinished),
        "slots": [str(slot) for slot in Slot.objects.select_related("source")],
        "values": values,
        "error": error,
    }
    return render(request, "erasure/erase.html", page, status=422 if error else 200)


def _render(
    request: HttpRequest, row: Erasure, template: str, *, trouble: str = "", status: int = 200
) -> HttpResponse:
    page: dict[str, Any] = {"view": erasure_view(row), "moves": _moves(row), "trouble": trouble}
    return render(request, template, page, status=status)


def _moves(row: Erasure) -> bool:
    """A worker is at it, or about to be."""
    return row.waits and row.state != Erasure.State.UNFINISHED


def _found(erasure_id: int) -> Erasure:
    return get_object_or_404(Erasure.objects.select_related("slot__source"), pk=erasure_id)

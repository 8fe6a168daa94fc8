"""Looking into any idle slot of a source's server without moving it."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from replview.access.page import OF_SLOT, OF_SOURCE, OPERATOR, ROWS, VIEWER, page
from replview.catalog.connections import reading
from replview.catalog.peekable import Place, read_place
from replview.catalog.problems import SourceProblem
from replview.catalog.slots import SlotFacts
from replview.features.peeks.text import Found, counts_words, groups_of
from replview.jobs import peeks
from replview.store.dsn import full_conninfo
from replview.store.models import Slot, SlotPeek, Source
from replview.store.reachable import DSNError
from replview.store.secrets import SecretKeyChanged
from replview.store.write.access_record import Action, note
from replview.text.formats import bytes_words, plural

CHANGES = (1_000, 10_000, 100_000)
SECONDS = (5, 15, 60)
DEADLINE_SECONDS = 4.0
EARLIER = 10
#: A worker that is there claims a look within a second or two.
UNCLAIMED_SECONDS = 10


@dataclass(slots=True)
class PeekForm:
    place: Place
    slot: SlotFacts
    #: Of the slot's row where replview reads it.
    ours: list[str]
    changes: int = CHANGES[0]
    seconds: int = SECONDS[1]
    chosen: list[str] = field(default_factory=list)
    error: str = ""

    def __post_init__(self) -> None:
        self.chosen = self.known or self.place.publications

    @property
    def known(self) -> list[str]:
        """The publications its reader is known to use, as far as they still exist."""
        return self.place.used_by(self.slot, self.ours)

    @property
    def asks_publications(self) -> bool:
        """Only pgoutput must be told."""
        return self.slot.plugin == "pgoutput"

    @property
    def reads(self) -> str | None:
        """How much WAL PostgreSQL reads for it; None where unknown."""
        size = self.slot.retained_wal_bytes
        return None if size is None else bytes_words(size)

    @property
    def change_choices(self) -> tuple[int, ...]:
        return CHANGES

    @property
    def second_choices(self) -> tuple[int, ...]:
        return SECONDS


def read_form(form: PeekForm, sent: QueryDict) -> dict[str, Any] | None:
    """What was sent, as ``jobs.peeks.request`` takes it; None with ``form.error`` said."""
    form.changes = _one_of(sent.get("changes"), CHANGES)
    form.seconds = _one_of(sent.get("seconds"), SECONDS)
    options: dict[str, Any] = {}
    if form.asks_publications:
        asked = sent.getlist("publication")
        form.chosen = [name for name in form.place.publications if name in asked]
        if not form.chosen:
            form.error = "Choose at least one publication: pgoutput sends nothing without."
            return None
        options["publications"] = form.chosen
    if form.changes not in CHANGES or form.seconds not in SECONDS:
        form.error = "Choose one of the bounds for changes and one for seconds."
        form.changes, form.seconds = CHANGES[0], SECONDS[1]
        return None
    return {"options": options, "max_changes": form.changes, "max_seconds": form.seconds}


def _one_of(text: str | None, choices: tuple[int, ...]) -> int:
    """The choice of that text; 0 where there is none."""
    return next((choice for choice in choices if str(choice) == text), 0)


@page(role=VIEWER, nav="sources", of=OF_SOURCE)
@require_GET
def source_slots(request: HttpRequest, source_name: str) -> HttpResponse:
    """Every slot of the source's server, ours or not, the one that retains most first."""
    source = get_object_or_404(Source, name=source_name)
    place, trouble = _read_place(source)
    ours = set(Slot.objects.filter(source=source).values_list("name", flat=True))
    rows = [
        {"slot": slot, "ours": slot.slot_name in ours and slot.database == place.database,
         "refusal": place.refusal(slot)}
        for slot in sorted(
            place.slots, key=lambda slot: (-(slot.retained_wal_bytes or -1), slot.slot_name)
        )
    ] if place else []  # fmt: skip
    peekable = sum(not row["refusal"] for row in rows)
    can = f"{peekable} can be looked into" if peekable else "none can be looked into"
    page = {
        "source": source,
        "place": place,
        "trouble": trouble,
        "rows": rows,
        "title": f"{plural(len(rows), 'slot')} on this server, {can}.",
        "next": "choose an idle one." if peekable else "",
        "looked_at": timezone.now(),
        "earlier": SlotPeek.objects.filter(source=source).order_by("-id")[:EARLIER],
    }
    return render(request, "peeks/slots.html", page)


@page(role=OPERATOR, nav="sources", of=OF_SLOT)
@require_http_methods(["GET", "POST"])
def ask(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """What a look into the slot would cost, and its bounds; POST asks for it."""
    source = get_object_or_404(Source, name=source_name)
    place, trouble = _read_place(source)
    slot = place.slot(slot_name) if place else None
    page: dict[str, Any] = {
        "source": source,
        "slot_name": slot_name,
        "place": place,
        "slot": slot,
        "trouble": trouble,
    }
    if place is None or slot is None:
        return render(request, "peeks/ask.html", page, status=404 if place else 200)
    page["refusal"] = place.refusal(slot)
    ours = Slot.objects.filter(source=source, name=slot_name).first()
    form = PeekForm(place, slot, list(ours.publications) if ours else [])
    # From the address, where they are among the choices: *look again* keeps them.
    form.changes = _one_of(request.GET.get("changes"), CHANGES) or form.changes
    form.seconds = _one_of(request.GET.get("seconds"), SECONDS) or form.seconds
    status = 200
    if request.method == "POST" and not page["refusal"]:
        answers = read_form(form, request.POST)
        if answers is not None:
            by = request.user.get_username()
            found = peeks.request(source, slot_name, by=by, **answers)
            note(Action.VIEWED_ROWS, subject=f"what waits in {slot_name}", source_id=source.pk)
            return redirect("peek", peek_id=found.pk)
        status = 422
    return render(request, "peeks/ask.html", {**page, "form": form}, status=status)


@page(role=OPERATOR, nav="sources", of={"peek_id": SlotPeek}, record=ROWS)
@require_GET
def peek(request: HttpRequest, peek_id: int) -> HttpResponse:
    """A look: how far it is, then what it found; a link that stays."""
    row = get_object_or_404(SlotPeek.objects.select_related("source"), pk=peek_id)
    htmx = request.headers.get("HX-Request") == "true"
    if row.waits:
        page = {"peek": row, **_progress(row)}
        return render(request, "peeks/progress.html" if htmx else "peeks/waiting.html", page)
    if htmx:
        return HttpResponse(headers={"HX-Refresh": "true"})
    if row.state == SlotPeek.State.FAILED:
        return render(request, "peeks/failed.html", {"peek": row, "again": _again(row)})
    return render(request, "peeks/found.html", _result(row))


def _progress(row: SlotPeek) -> dict[str, object]:
    now = timezone.now()
    since = row.started_at or row.requested_at
    seconds = max((now - since).total_seconds(), 0)
    unclaimed = row.state == SlotPeek.State.WAITING and seconds > UNCLAIMED_SECONDS
    share = min(seconds / row.max_seconds, 1) if row.started_at and row.max_seconds else 0
    return {"seconds": seconds, "unclaimed": unclaimed, "width": round(share * 1000)}


def _again(row: SlotPeek) -> str:
    address = reverse("peek-ask", args=[row.source.name, row.slot_name])
    bounds = {"changes": row.max_changes, "seconds": f"{row.max_seconds:g}"}
    return f"{address}?{urlencode(bounds)}"


def _result(row: SlotPeek) -> dict[str, object]:
    found = Found(row.result or {})
    tables = [(table, counts_words(table)) for table in found.tables]
    return {
        "peek": row,
        "again": _again(row),
        "found": found,
        "tables": tables,
        "groups": groups_of(found.result.get("first_changes") or [], row.source_id),
        "bound": found.not_looked_at(row.max_changes, row.max_seconds),
    }


def _read_place(source: Source) -> tuple[Place | None, SourceProblem | None]:
    """The server's slots, or what keeps us from them."""
    try:
        with reading(full_conninfo(source), deadline_seconds=DEADLINE_SECONDS) as connection:
            return read_place(connection), None
    except SourceProblem as error:
        return None, error
    except (DSNError, SecretKeyChanged) as error:
        return None, SourceProblem("bad_dsn", str(error), "Mend that, or change its credentials")

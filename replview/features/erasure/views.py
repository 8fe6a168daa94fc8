"""Pages that request an erasure, show its counts, confirm it, and follow it to its end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from replview.access.guard import require
from replview.access.page import ADMIN, GET, GET_POST, POST, page
from replview.access.rights import Role
from replview.features.erasure import queue as erasing
from replview.features.erasure.forms import ConfirmForm, ErasureForm
from replview.store.models import Erasure
from replview.store.write.access_record import note
from replview.text.formats import count_words, plural
from replview.ui.forms import posted
from replview.ui.sentence import Sentence, as_next


@dataclass(frozen=True, slots=True, kw_only=True)
class RootView:
    """A folder or URL, with what was found or erased there."""

    root: str
    what: str
    words: str
    level: str
    #: True when the erasure waits for this root, which can be left out.
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureView:
    """An erasure as the pages show it."""

    row: Erasure
    sentence: Sentence
    figures: list[dict[str, Any]]
    tables: list[tuple[str, str]] = field(default_factory=list)
    beside: list[tuple[str, str]] = field(default_factory=list)
    roots: list[RootView] = field(default_factory=list)
    days_words: str = ""
    #: Other slots that recorded the same tables.
    others: list[str] = field(default_factory=list)
    #: Text that confirms; empty if there is nothing to confirm.
    word: str = ""


def erasure_view(row: Erasure) -> ErasureView:
    """Build the view of an erasure."""
    counts: Mapping[str, Any] = row.erased or row.found
    days = list(counts.get("days") or [])
    looked = row.state == Erasure.State.LOOKED
    return ErasureView(
        row=row,
        sentence=_sentence(row),
        figures=_figures(row, counts),
        tables=[(name, count_words(n)) for name, n in (counts.get("tables") or {}).items()],
        beside=[(name, count_words(n)) for name, n in (counts.get("beside") or {}).items()],
        roots=[_root(row, one) for one in row.roots],
        days_words=f"{days[0]} to {days[-1]}" if len(days) > 1 else "".join(days),
        others=erasing.others_recording(row.slot, row.tables) if looked and row.slot else [],
        word=erasing.word_of(row) if looked else "",
    )


def list_sentence(rows: int, unfinished: int) -> Sentence:
    """Return the headline of the list of erasures."""
    if unfinished:
        return Sentence(
            level="look",
            title=f"{plural(unfinished, 'erasure')} not finished:",
            cause="some targets could not be reached.",
            next="fix or skip them.",
        )
    if rows:
        title = f"{plural(rows, 'erasure')}, all complete:"
        cause = "each is recorded with its author and reason, but without keys."
        return Sentence(level="ok", title=title, cause=cause)
    return Sentence(
        level="idle",
        title="No erasures yet.",
        cause="Erasing takes every value of given rows out of the record, the archive and exports; "
        "that the rows changed stays.",
        next="enter a slot and the rows.",
    )


def _sentence(row: Erasure) -> Sentence:
    number = int((row.erased or row.found).get("changes") or 0)
    changes = plural(number, "change")
    step = f"{row.step or 'waiting for a worker'}."
    match row.state:
        case Erasure.State.LOOKING:
            return Sentence(level="unknown", title="Counting what it would erase:", cause=step)
        case Erasure.State.LOOKED:
            title = f"This would erase {changes} for good."
            if row.found.get("withheld"):
                title = (
                    "A key is masked, so its rows are counted only when they are erased for good."
                )
            return Sentence(
                level="look",
                title=title,
                cause="Nothing is erased yet.",
                next="check the list, then confirm.",
            )
        case Erasure.State.WAITING | Erasure.State.RUNNING:
            return Sentence(level="ok", title="Erasing:", cause=step)
        case Erasure.State.UNFINISHED:
            following = as_next(row.problem_remedy or "it is retried automatically")
            cause = f"{row.problem_cause}."
            return Sentence(level="now", title="Not finished:", cause=cause, next=following)
        case Erasure.State.DONE:
            cause = f"By {row.confirmed_by or row.requested_by}; the keys are deleted."
            title = f"Erased: {changes}." if number else "These rows have no recorded change."
            return Sentence(level="ok", title=title, cause=cause)
        case _:
            cause = f"{row.problem_cause or 'it was not confirmed'}."
            return Sentence(level="idle", title="Nothing was erased:", cause=cause)


def _figures(row: Erasure, counts: Mapping[str, Any]) -> list[dict[str, Any]]:
    files = [one.get("files") for one in row.roots]
    known = [int(n) for n in files if n is not None]
    numbers = {
        "Changes": counts.get("changes"),
        "Transactions": counts.get("transactions"),
        "Days": len(counts["days"]) if counts.get("days") is not None else None,
        "Files": sum(known) if known or (counts and not files) else None,
        "Keys named": row.keys,
    }
    reached = {"rest": "" if len(known) == len(files) else "of those reached"}
    more: dict[str, dict[str, Any]] = {"Changes": {"main": True}, "Files": reached}
    return [
        {
            "label": label,
            "number": None if n is None else count_words(int(n)),
            **more.get(label, {}),
        }
        for label, n in numbers.items()
    ]


def _root(row: Erasure, state: Mapping[str, Any]) -> RootView:
    left, problem = state.get("left_out_by"), state.get("problem")
    waits = row.state == Erasure.State.UNFINISHED and not state.get("done") and not left
    if left:
        words, level = f"left out by {left}: it was not erased", "look"
    elif problem:
        remedy = str(state.get("remedy") or "")
        words, level = f"not reached: {problem}" + (f"; {remedy}" if remedy else ""), "now"
    elif state.get("files") is None:
        by_spark = "lake" in state
        words = "searched by Spark when it is erased" if by_spark else "not searched yet"
        level = "unknown"
    else:
        files, rows = int(state["files"]), int(state.get("rows") or 0)
        what = f"{plural(files, 'file')} with {plural(rows, 'change')}" if files else "nothing"
        words, level = what + (" rewritten" if state.get("done") and files else ""), "ok"
    root, what = str(state["root"]), str(state["what"])
    return RootView(root=root, what=what, words=words, level=level, waits=waits)


_SHOWN = 100


@page(GET_POST, role=ADMIN, nav="masks")
def erase(request: HttpRequest) -> HttpResponse:
    """Show the erasures and the form; a POST requests an erasure, which is counted first."""
    require(request, Role.ADMIN)
    form = ErasureForm(posted(request), initial={"slot": request.GET.get("slot", "")})
    if not form.is_valid():
        return _show(request, form)
    row = erasing.request(form.erasure_request, by=request.user.get_username(), how="page")
    return redirect("erasure", erasure_id=row.pk)


@page(GET, role=ADMIN, nav="masks", of={"erasure_id": None})
def erasure(request: HttpRequest, erasure_id: int) -> HttpResponse:
    """Show one erasure, at an address that stays and contains no key."""
    require(request, Role.ADMIN)
    row = _found(erasure_id)
    htmx = request.headers.get("HX-Request") == "true"
    # The page of an ended erasure has other parts, so reload it as a whole.
    if htmx and not _moves(row):
        return HttpResponse(headers={"HX-Refresh": "true"})
    return _render(request, row, "erasure/_now.html" if htmx else "erasure/erasure.html")


@page(POST, role=ADMIN, of={"erasure_id": None})
def confirm(request: HttpRequest, erasure_id: int) -> HttpResponse:
    """Start erasing if the confirming text was typed."""
    require(request, Role.ADMIN)
    row = _found(erasure_id)
    form = ConfirmForm(row, request.POST)
    if not form.is_valid():
        return _render(request, row, "erasure/erasure.html", form)
    if erasing.confirm(row, by=request.user.get_username()):
        details = {name: getattr(row, name) for name in ("tables", "keys", "columns", "digests")}
        source_id = row.slot.source_id if row.slot else None
        note("erased", subject=f"erasure {row.pk}", source_id=source_id, details=details)
    return redirect("erasure", erasure_id=row.pk)


@page(POST, role=ADMIN, of={"erasure_id": None})
def drop(request: HttpRequest, erasure_id: int) -> HttpResponse:
    """Cancel the request."""
    require(request, Role.ADMIN)
    erasing.drop(_found(erasure_id))
    return redirect("erase")


@page(POST, role=ADMIN, of={"erasure_id": None})
def again(request: HttpRequest, erasure_id: int) -> HttpResponse:
    """Retry what was left, or leave a root out that will never be reached."""
    require(request, Role.ADMIN)
    row = _found(erasure_id)
    if root := request.POST.get("leave_out", ""):
        erasing.leave_out(row, root, by=request.user.get_username())
    else:
        erasing.try_again(row)
    return redirect("erasure", erasure_id=row.pk)


def _show(request: HttpRequest, form: ErasureForm) -> HttpResponse:
    rows = list(Erasure.objects.all()[:_SHOWN])
    states = [row.state for row in rows]
    unfinished, done = map(states.count, (Erasure.State.UNFINISHED, Erasure.State.DONE))
    page = {
        "rows": [erasure_view(row) for row in rows],
        "sentence": list_sentence(done, unfinished),
        "form": form,
    }
    return render(request, "erasure/erase.html", page, status=422 if form.errors else 200)


def _render(
    request: HttpRequest, row: Erasure, template: str, refused: ConfirmForm | None = None
) -> HttpResponse:
    form = refused or ConfirmForm(row)
    page = {"view": erasure_view(row), "moves": _moves(row), "form": form}
    return render(request, template, page, status=422 if refused else 200)


def _moves(row: Erasure) -> bool:
    """Return whether a worker has the erasure, or will claim it."""
    return row.waits and row.state != Erasure.State.UNFINISHED


def _found(erasure_id: int) -> Erasure:
    return get_object_or_404(Erasure.objects.select_related("slot__source"), pk=erasure_id)

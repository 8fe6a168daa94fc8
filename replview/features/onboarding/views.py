"""Adding a source: the ways to begin, its address, the steps to a slot, what becomes of it, and the
way out.
"""

from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters

from replview.access.guard import require
from replview.access.page import ADMIN, GET, OF_SOURCE, OPERATOR, POST, READ_POST, page
from replview.access.rights import Role, account_of
from replview.catalog.connections import Connection, reading
from replview.catalog.doctor_checks import problem
from replview.catalog.server import read_server_facts
from replview.features.onboarding import (
    address_form,
    checking,
    column_choice,
    option_choice,
    plan_page,
    steps,
    table_choice,
)
from replview.features.onboarding.plan_page import carried_out, next_address
from replview.features.onboarding.steps import at_step, go_on, gone, page_of
from replview.jobs import drafts
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.models import Source, SourceDraft

Kind, State = SourceDraft.Kind, SourceDraft.State
_DEADLINE_SECONDS = 10.0


@page(GET, role=OPERATOR, nav="sources", of=OF_SOURCE)
def doctor(request: HttpRequest, source_name: str) -> HttpResponse:
    """Everything the source lacks, each with the SQL that mends it; looked for anew each time."""
    source = get_object_or_404(Source, name=source_name)
    require(request, Role.OPERATOR, source)
    try:
        checked = checking.check(full_conninfo(source))
    except UNUSABLE as error:
        found = problem("bad_dsn", str(error), "Correct the source's address")
        checked = checking.Checked([checking.view_of(found)], blocked=True)
    page = {"source": source, "checked": checked, "checked_at": timezone.now()}
    return render(request, "onboarding/doctor.html", page)


@page(GET, role=ADMIN, nav="sources")
def start(request: HttpRequest) -> HttpResponse:
    """Three ways to begin, and what was begun before."""
    begun = [(draft, steps.KINDS[Kind(draft.kind)], _goes_on(draft))
             for draft in drafts.unfinished(account_of(request))]  # fmt: skip
    notice = next((word for word in ("expired", "left", "remains") if word in request.GET), "")
    page = {"begun": begun, "notice": notice, "may_add": True}
    return render(request, "onboarding/start.html", page)


@page(READ_POST, role=ADMIN, nav="sources", of={"kind": None})
@sensitive_post_parameters("password", "dsn")
def begin(request: HttpRequest, kind: str) -> HttpResponse:
    """The address of a new source; a draft is kept once the address works.

    ``?source=NAME``: a slot on a source that is known already.
    """
    if kind not in Kind.values:
        raise Http404(f"there is no way to begin that is called {kind!r}")
    if name := request.GET.get("source", ""):
        return _begin_for(request, kind, name)
    draft = SourceDraft(user=account_of(request), kind=kind)
    if request.method == "POST":
        form = address_form.read_form(request.POST)
        if _connect(form, draft):
            draft.save()
            return redirect(steps.after(draft, "connection"))
        return _connection_page(request, form, kind, status=422)
    return _connection_page(request, address_form.AddressForm({"port": "5432"}), kind)


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@sensitive_post_parameters("password", "dsn")
def connection(request: HttpRequest, draft_id: int) -> HttpResponse:
    """The address again; what depends on it is asked for anew where it changes."""
    draft = drafts.find(account_of(request), draft_id)
    if draft is None or draft.source_id is not None:
        return gone()
    if draft.state not in drafts.CHANGEABLE:
        return redirect("draft-progress", draft.pk)
    has_password = bool(draft.sealed_password or draft.password_ref)
    former = address_form.form_of(
        draft.answers.get("form") or {}, draft.conninfo, has_password=has_password
    )
    if request.method != "POST":
        return _connection_page(request, former, draft.kind, draft)
    form, before = address_form.read_form(request.POST, former), draft.conninfo
    name = draft.answers.get("name")
    if _connect(form, draft):
        moved = draft.conninfo != before
        kept = drafts.move(draft) if moved else drafts.keep_address(draft)
        return redirect(steps.after(draft, "connection")) if kept else gone()
    draft.answers["name"] = name
    return _connection_page(request, form, draft.kind, draft, status=422)


def _connect(form: address_form.AddressForm, draft: SourceDraft) -> bool:
    """Try the address; True with the draft (not saved) filled in."""
    reached = address_form.connect_draft(form, draft)
    if reached is None:
        return False
    known = address_form.known_as(reached, draft.conninfo)
    draft.answers |= {
        "name": reached.name,
        "form": form.kept(),
        "server": {"version": reached.version, "database": reached.database,
                   "role": reached.role},
        "known": str(known or ""),
    }  # fmt: skip
    if draft.kind == Kind.WATCH and "slot_name" not in draft.answers:
        draft.answers["slot_name"] = drafts.watch_name()
    return True


def _connection_page(
    request: HttpRequest,
    form: address_form.AddressForm,
    kind: str,
    draft: SourceDraft | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    focus = form.first_wrong or ("dsn" if form.how == address_form.STRING else "host")
    page = {**page_of(kind, "connection", draft), "form": form, "focus": focus}
    return render(request, "onboarding/connection.html", page, status=status)


def _begin_for(request: HttpRequest, kind: str, name: str) -> HttpResponse:
    """A slot on a source whose address is known."""
    source = get_object_or_404(Source, name=name, ephemeral=False)
    if kind != Kind.RECORD:
        raise Http404("a source that is known is monitored already")
    if request.method != "POST":
        page = {**page_of(kind, "connection"), "source": source}
        return render(request, "onboarding/known.html", page)
    draft = drafts.begin_for(account_of(request), source)
    return redirect("draft-check", draft.pk)


def _goes_on(draft: SourceDraft) -> str:
    """Where somebody goes on with what was begun."""
    if draft.state not in drafts.CHANGEABLE:
        return reverse("draft-progress", args=[draft.pk])
    return steps.step_url(draft, steps.next_open(draft))


@page(GET, role=ADMIN, nav="sources", of={"draft_id": None})
def progress(request: HttpRequest, draft_id: int) -> HttpResponse:
    """What is being carried out, step by step; then the live page, or what went wrong."""
    draft = drafts.find(account_of(request), draft_id)
    if draft is None:
        return gone()
    if draft.state == State.OPEN:
        return redirect(_goes_on(draft))
    htmx = request.headers.get("HX-Request") == "true"
    page: dict[str, Any] = {**page_of(draft.kind, "review", draft), "work": carried_out(draft),
                            "following": next_address(draft)}  # fmt: skip
    name = "onboarding/progress_now.html" if htmx else "onboarding/progress.html"
    return render(request, name, page)


@page(POST, role=ADMIN, of={"draft_id": None})
def cancel(request: HttpRequest, draft_id: int) -> HttpResponse:
    """Forget it; what is being carried out is taken back, a watch ends."""
    draft = drafts.find(account_of(request), draft_id)
    if draft is None or drafts.drop(draft):
        # What could not be taken back was told with its statements.
        word = "remains" if draft is not None and draft.undo else "left"
        return redirect(f"{reverse('source-new')}?{word}")
    return redirect("draft-progress", draft.pk)


def _source_of(draft: SourceDraft) -> AbstractContextManager[Connection]:
    """The draft's source, to be read. What it raises, or entering it, ``at_step`` shows."""
    return reading(drafts.conninfo_of(draft), deadline_seconds=_DEADLINE_SECONDS)


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@at_step("check")
def check(request: HttpRequest, draft: SourceDraft) -> HttpResponse:
    """Doctor's findings, looked for anew each time; POST goes on."""
    if request.method == "POST" and steps.is_answered(draft, "check"):
        return redirect(steps.after(draft, "check"))
    checked = checking.check(drafts.conninfo_of(draft), draft.kind)
    drafts.keep(draft, check={"blocked": checked.blocked, "sql_only": checked.sql_only})
    page = {**page_of(draft.kind, "check", draft), "checked": checked,
            "known": draft.answers.get("known"), "server": draft.answers.get("server")}  # fmt: skip
    return render(request, "onboarding/check.html", page)


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@at_step("tables")
def tables(request: HttpRequest, draft: SourceDraft) -> HttpResponse:
    with _source_of(draft) as source:
        choice = table_choice.read_choice(source, draft.answers)
    status = 200
    if request.method == "POST":
        chosen = table_choice.read_form(choice, request.POST)
        if chosen is not None:
            return go_on(draft, "tables", **chosen, **_columns_left(draft, chosen))
        status = 422
    page = {**page_of(draft.kind, "tables", draft), "choice": choice}
    return render(request, "onboarding/tables.html", page, status=status)


def _columns_left(draft: SourceDraft, chosen: dict[str, Any]) -> dict[str, object]:
    """Rules for columns of tables that are still chosen; none were asked for: nothing."""
    rules = draft.answers.get("columns")
    if not rules or chosen["through"] == table_choice.PUBLICATIONS:
        return {}
    if chosen["through"] == table_choice.EVERYTHING:
        # What cannot be left out at the source any more is at least not kept here.
        masked = {name: dict.fromkeys(kept, column_choice.MASK) for name, kept in rules.items()}
        return {"columns": masked}
    return {"columns": {name: kept for name, kept in rules.items() if name in chosen["tables"]}}


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@at_step("columns")
def columns(request: HttpRequest, draft: SourceDraft) -> HttpResponse:
    """Which columns are not kept; POST keeps those that are shown and shows others, or goes on."""
    shown = request.GET.get("table", column_choice.SUGGESTED)
    with _source_of(draft) as source:
        source_id = draft.source_id or 0
        choice = column_choice.read_choice(source, draft.answers, shown, source_id)
    if request.method == "POST":
        rules = column_choice.read_form(choice, request.POST)
        if "show" not in request.POST and "all" not in request.POST:
            return go_on(draft, "columns", columns=rules)
        drafts.keep(draft, columns=rules)
        asked = request.POST.get("show", shown)
        table = asked if asked in choice.tables else column_choice.SUGGESTED
        return redirect(f"{request.path}?{urlencode({'table': table})}")
    page = {**page_of(draft.kind, "columns", draft), "choice": choice,
            "keeping": column_choice.KEEPING, "asked": "table" in request.GET}  # fmt: skip
    return render(request, "onboarding/columns.html", page)


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@at_step("options")
def options(request: HttpRequest, draft: SourceDraft) -> HttpResponse:
    """The slot's options, each with what is usual; POST keeps them."""
    with _source_of(draft) as source:
        form = option_choice.form_of(read_server_facts(source), draft.answers)
    status = 200
    if request.method == "POST":
        chosen = option_choice.read_form(form, request.POST)
        if chosen is not None:
            return go_on(draft, "options", **chosen)
        status = 422
    page = {**page_of(draft.kind, "options", draft), "form": form}
    return render(request, "onboarding/options.html", page, status=status)


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@at_step("review")
def review(request: HttpRequest, draft: SourceDraft) -> HttpResponse:
    """Every statement that will run; POST agrees to these, and to no others."""
    found = plan_page.review(draft)
    changed = False
    if request.method == "POST" and found.trouble is None:
        if request.POST.get("digest") == found.digest:
            drafts.ask(draft, found.statements)
            return redirect("draft-progress", draft.pk)
        changed = True
    page = {
        **page_of(draft.kind, "review", draft),
        "review": found,
        "changed": changed,
        "chosen": plan_page.chosen_words(draft.answers),
        "wants_baseline": bool((draft.answers.get("options") or {}).get("baseline")),
        "failed": draft.state == SourceDraft.State.FAILED,
        "mended_at": steps.step_url(draft, found.mended_in)
        if found.mended_in in steps.names_of(draft)
        else "",
    }
    return render(request, "onboarding/review.html", page, status=409 if changed else 200)

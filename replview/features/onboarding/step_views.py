"""Views of the steps after the address: check, tables, columns, options and review."""

from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from replview.access.page import ADMIN, READ_POST, page
from replview.catalog.connections import Connection, reading
from replview.catalog.server import read_server_facts
from replview.features.onboarding import (
    checking,
    column_choice,
    plan_page,
    steps,
    table_choice,
)
from replview.features.onboarding.option_choice import OptionForm
from replview.features.onboarding.pages import (
    CheckPage,
    ColumnsPage,
    OptionsPage,
    TablesPage,
    review_page,
)
from replview.features.onboarding.steps import at_step, frame_of, go_on
from replview.jobs import drafts
from replview.store.models import SourceDraft

_DEADLINE_SECONDS = 10.0


def _connect_to_source(draft: SourceDraft) -> AbstractContextManager[Connection]:
    """Return a connection to the draft's source; ``at_step`` handles the errors it raises."""
    return reading(drafts.conninfo_of(draft), deadline_seconds=_DEADLINE_SECONDS)


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@at_step("check")
def check(request: HttpRequest, draft: SourceDraft) -> HttpResponse:
    """Check the source again and show the findings; POST goes to the next step."""
    if request.method == "POST" and steps.is_answered(draft, "check"):
        return redirect(steps.after(draft, "check"))
    checked = checking.check(drafts.conninfo_of(draft), draft.kind)
    drafts.keep(draft, check={"blocked": checked.blocked, "sql_only": checked.sql_only})
    frame = frame_of(draft.kind, "check", draft)
    page = CheckPage(frame=frame, checked=checked, known=draft.answers.get("known") or "")
    return render(request, "onboarding/check.html", {"page": page})


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@at_step("tables")
def tables(request: HttpRequest, draft: SourceDraft) -> HttpResponse:
    """Show the tables and publications; POST stores the choice."""
    with _connect_to_source(draft) as source:
        choice = table_choice.read_choice(source)
    sent = request.POST if request.method == "POST" else None
    form = table_choice.TableForm(choice, draft.answers, sent)
    if form.is_valid():
        chosen = form.answers()
        return go_on(draft, "tables", **chosen, **_remaining_rules(draft, chosen))
    status = 422 if form.is_bound else 200
    page = TablesPage(frame=frame_of(draft.kind, "tables", draft), choice=choice, form=form)
    return render(request, "onboarding/tables.html", {"page": page}, status=status)


def _remaining_rules(draft: SourceDraft, chosen: dict[str, Any]) -> dict[str, object]:
    """Return the column rules of tables that are still chosen; nothing if there are no rules."""
    rules = draft.answers.get("columns")
    if not rules or chosen["through"] == table_choice.PUBLICATIONS:
        return {}
    if chosen["through"] == table_choice.EVERYTHING:
        # FOR ALL TABLES sends every column, so mask those that were to be left out.
        masked = {
            name: dict.fromkeys(column_rules, column_choice.MASK)
            for name, column_rules in rules.items()
        }
        return {"columns": masked}
    return {
        "columns": {
            name: column_rules for name, column_rules in rules.items() if name in chosen["tables"]
        }
    }


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@at_step("columns")
def columns(request: HttpRequest, draft: SourceDraft) -> HttpResponse:
    """Show the columns of a table or the suggestions; POST stores them and goes on."""
    shown = request.GET.get("table", column_choice.SUGGESTED)
    with _connect_to_source(draft) as source:
        source_id = draft.source_id or 0
        choice = column_choice.read_choice(source, draft.answers, shown, source_id)
    sent = request.POST if request.method == "POST" else None
    form = column_choice.ColumnForm(choice, sent)
    if form.is_valid():
        rules = form.rules()
        if "show" not in request.POST and "all" not in request.POST:
            return go_on(draft, "columns", columns=rules)
        drafts.keep(draft, columns=rules)
        requested_table = request.POST.get("show", shown)
        table = requested_table if requested_table in choice.tables else column_choice.SUGGESTED
        return redirect(f"{request.path}?{urlencode({'table': table})}")
    frame = frame_of(draft.kind, "columns", draft)
    page = ColumnsPage(frame=frame, choice=choice, form=form, asked="table" in request.GET)
    status = 422 if form.is_bound else 200
    return render(request, "onboarding/columns.html", {"page": page}, status=status)


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@at_step("options")
def options(request: HttpRequest, draft: SourceDraft) -> HttpResponse:
    """Show the slot's options with their defaults; POST stores them."""
    with _connect_to_source(draft) as source:
        facts = read_server_facts(source)
    sent = request.POST if request.method == "POST" else None
    form = OptionForm(facts, draft.answers, sent)
    if form.is_valid():
        return go_on(draft, "options", **form.answers())
    status = 422 if form.is_bound else 200
    page = OptionsPage(frame=frame_of(draft.kind, "options", draft), form=form)
    return render(request, "onboarding/options.html", {"page": page}, status=status)


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@at_step("review")
def review(request: HttpRequest, draft: SourceDraft) -> HttpResponse:
    """Show every statement that will run; POST agrees to these statements only."""
    plan_review = plan_page.review(draft)
    changed = False
    if request.method == "POST" and plan_review.trouble is None:
        if request.POST.get("digest") == plan_review.digest:
            drafts.ask(draft, plan_review.statements)
            return redirect("draft-progress", draft.pk)
        changed = True
    page = review_page(draft, plan_review, changed=changed)
    return render(request, "onboarding/review.html", {"page": page}, status=409 if changed else 200)

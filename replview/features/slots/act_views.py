"""Views of acts on a slot: start, stop, change tables and columns, adopt, drop."""

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from replview.access.guard import require_all_tables
from replview.access.page import ADMIN, GET, GET_POST, OF_SLOT, OPERATOR, VIEWER, page
from replview.access.rights import Role
from replview.acts import adopting, dropping, receiving
from replview.acts.columns import DROP, MASK, change_columns, plan_columns
from replview.acts.tables import change_tables, plan_tables
from replview.catalog.plan.plan import Plan
from replview.features.slots.act_pages import (
    AdoptPage,
    ChangeColumnsPage,
    ChangeTablesPage,
    DropPage,
    with_columns,
    with_tables,
)
from replview.store.models import Slot, WatchedSlot
from replview.ui.managed import (
    EXPECTED,
    ActPage,
    Outcome,
    check_confirmed,
    digest_of,
    keep_outcome,
    kept_outcome,
    names_in,
    slot_for,
    source_for,
    statements_of,
    trouble_of,
)
from replview.ui.params import Params, scope_to

#: Prefix of the form fields that hold the choice for a column.
_COLUMN_PREFIX = "column "


@page(GET, role=VIEWER, nav="sources")
def managed(request: HttpRequest) -> HttpResponse:
    """Show the outcome of the last act."""
    outcome = kept_outcome(request)
    if outcome is None:
        return redirect("sources")
    return render(request, "acts/done.html", {"outcome": outcome})


@page(GET_POST, role=OPERATOR, nav="slots", of=OF_SLOT)
def start(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Start receiving the slot; create it again first if the source lost it."""
    slot = slot_for(request, source_name, slot_name, Role.OPERATOR)

    def do(act: Plan) -> Outcome:
        receiving.start(slot, by=request.user.get_username())
        lines = ["Receiving starts within a few seconds."]
        return Outcome(title=f"{slot} is started.", lines=lines, links=links_of(slot))

    return show_or_do(request, act_page(slot), lambda: receiving.plan_start(slot), do)


@page(GET_POST, role=OPERATOR, nav="slots", of=OF_SLOT)
def stop(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Stop receiving the slot, which stays on its source."""
    slot = slot_for(request, source_name, slot_name, Role.OPERATOR)

    def do(act: Plan) -> Outcome:
        receiving.stop(slot, by=request.user.get_username())
        lines = [f"It stays on {slot.source} and retains WAL there until it is started again."]
        start_url = reverse("slot-start", args=[source_name, slot_name])
        links = [*links_of(slot), ("Start it again", start_url)]
        return Outcome(title=f"{slot} is stopped.", lines=lines, links=links)

    return show_or_do(request, act_page(slot), lambda: receiving.plan_stop(slot), do)


@page(GET_POST, role=OPERATOR, nav="slots", of=OF_SLOT)
def drop(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Drop the slot, and keep or delete its record as chosen."""
    slot = slot_for(request, source_name, slot_name, Role.OPERATOR)
    require_all_tables(request, slot.source)
    params = request.POST if request.method == "POST" else request.GET
    record, leave = params.get("record", ""), params.get("leave") == "on"
    keep = record != "delete" and slot.owned
    page = DropPage(source=slot.source, slot=slot, keep=keep, leave=leave)

    def do(act: Plan) -> Outcome:
        by = request.user.get_username()
        dropping.drop_slot(slot, by=by, keep_record=keep, leave_on_source=leave)
        links = links_of(slot) if keep else [("All slots", reverse("slots"))]
        outcome = "was dropped; its history is kept" if keep else "was removed with its history"
        return Outcome(title=f"{slot} {outcome}.", lines=list(act.consequences), links=links)

    def plan() -> Plan:
        return dropping.plan_drop(slot, keep_record=keep, leave_on_source=leave)

    return show_or_do(request, page, plan, do, "acts/drop.html")


@page(GET_POST, role=OPERATOR, nav="slots", of=OF_SLOT)
def tables(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Change the tables that the slot records, after showing the ALTER PUBLICATION statements."""
    slot = slot_for(request, source_name, slot_name, Role.OPERATOR)
    params = request.POST if request.method == "POST" else request.GET
    add, remove = names_in(params.getlist("add")), names_in(params.getlist("remove"))
    search = Params(request.GET).text("q", 100)
    page = ChangeTablesPage(source=slot.source, slot=slot, add=add, remove=remove, search=search)
    if request.method == "GET":
        page = with_tables(page, slot)

    def do(act: Plan) -> Outcome:
        by = request.user.get_username()
        changes = change_tables(slot, add=add, remove=remove, by=by)
        links, lines = links_of(slot), []
        if changes.joining:
            query = urlencode([("table", name) for name in changes.joining])
            address = reverse("baselines", args=[source_name, slot_name])
            links = [("Take a baseline of them", f"{address}?{query}"), *links]
            lines = ["Present rows are not stored without a baseline."]
        return Outcome(title=f"The tables of {slot} are changed.", lines=lines, links=links)

    def plan() -> Plan:
        return plan_tables(slot, add=add, remove=remove)

    if (not add and not remove) or page.trouble:
        status = 422 if request.method == "POST" or page.trouble else 200
        return render(request, "acts/tables.html", {"page": page}, status=status)
    return show_or_do(request, page, plan, do, "acts/tables.html")


@page(GET_POST, role=OPERATOR, nav="slots", of=OF_SLOT)
def adopt(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Adopt a slot that replview did not create."""
    source = source_for(request, source_name, Role.OPERATOR)
    require_all_tables(request, source)
    if Slot.objects.filter(source=source, name=slot_name).exists():
        return redirect("slot", source_name, slot_name)
    watched = WatchedSlot.objects.filter(source=source, name=slot_name).first()
    if watched is None:
        raise Http404("the source never had such a slot")
    scope_to(request, f"{source_name}/{slot_name}")
    params = request.POST if request.method == "POST" else request.GET
    chosen = names_in(params.getlist("publication"))
    page = AdoptPage(source=source, slot_name=slot_name, watched=watched, chosen=chosen)
    try:
        if watched.plugin == "pgoutput":
            page = replace(page, publications=tuple(adopting.publications_on(source)))
    except EXPECTED as error:
        page = replace(page, trouble=trouble_of(error))
        return render(request, "acts/adopt.html", {"page": page}, status=422)

    def do(act: Plan) -> Outcome:
        slot = adopting.adopt(source, slot_name, chosen, by=request.user.get_username())
        lines = ["Receiving starts within a few seconds, from its current position."]
        return Outcome(title=f"{slot} is adopted.", lines=lines, links=links_of(slot))

    def plan() -> Plan:
        return adopting.plan_adopt(source, slot_name, chosen)

    return show_or_do(request, page, plan, do, "acts/adopt.html")


def act_page(slot: Slot) -> ActPage:
    """Return the page of an act that needs no choices."""
    return ActPage(source=slot.source, slot=slot)


def show_or_do(
    request: HttpRequest,
    page: ActPage,
    plan: Callable[[], Plan],
    do: Callable[[Plan], Outcome],
    template: str = "acts/slot.html",
) -> HttpResponse:
    """Show the plan; carry it out on a POST that confirms the plan shown."""
    try:
        act = plan()
        page = replace(page, act=act, shown=digest_of(act))
        if request.method == "GET":
            return render(request, template, {"page": page})
        check_confirmed(request, act)
        keep_outcome(request, replace(do(act), statements=statements_of(act)))
    except EXPECTED as error:
        page = replace(page, trouble=trouble_of(error))
        return render(request, template, {"page": page}, status=422)
    return redirect("managed")


def links_of(slot: Slot) -> list[tuple[str, str]]:
    """Return links to the slot and its source, for the page of an outcome."""
    source = slot.source.name
    return [(f"{slot}", reverse("slot", args=[source, slot.name])),
            (f"Source {source}", reverse("source", args=[source]))]  # fmt: skip


@page(GET_POST, role=ADMIN, nav="slots", of=OF_SLOT)
def columns(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Change which columns of a table are kept, masked or left out, after showing the plan."""
    slot = slot_for(request, source_name, slot_name, Role.ADMIN)
    params = request.POST if request.method == "POST" else request.GET
    table = Params(params).text("table", strip=False)
    rules = {rule: names_in(params.getlist(rule)) for rule in (MASK, DROP)}
    # A form has a field per column; a link names only the columns that are not kept.
    for name, value in params.items():
        if name.startswith(_COLUMN_PREFIX) and value in rules:
            rules[value] += (name.removeprefix(_COLUMN_PREFIX)[:200],)
    table_rules = {table: {name: rule for rule, names in rules.items() for name in names}}
    page = ChangeColumnsPage(
        source=slot.source, slot=slot, table=table, mask=rules[MASK], drop=rules[DROP]
    )
    if not table or (request.method != "POST" and "show" not in params):
        page = with_columns(page, slot)
        status = 422 if page.trouble else 200
        return render(request, "acts/columns.html", {"page": page}, status=status)

    def do(act: Plan) -> Outcome:
        change_columns(slot, table_rules, by=request.user.get_username())
        return Outcome(title=f"The columns of {slot} are changed.", links=links_of(slot),
                       lines=list(act.consequences[:-1]))  # fmt: skip

    def plan() -> Plan:
        return plan_columns(slot, table_rules)

    return show_or_do(request, page, plan, do, "acts/columns.html")

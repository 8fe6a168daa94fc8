"""Which columns of a slot's tables are kept: chosen, shown as ALTER PUBLICATION, then changed."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from replview.access.rights import Role
from replview.acts.column_choices import columns_of
from replview.acts.column_requests import DROP, KEEP, MASK
from replview.acts.columns import change_columns, plan_columns
from replview.features.slots.act_views import links_of, show_or_do
from replview.ui.managed import EXPECTED, Outcome, names_in, slot_for, statements_of, trouble_of

#: In a form: what is wanted of the column whose name follows.
_COLUMN = "column "


@require_http_methods(["GET", "POST"])
def columns(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Which columns of a table are kept, masked or left out; shown as ALTER PUBLICATION first."""
    slot = slot_for(request, source_name, slot_name, Role.ADMIN)
    asked = request.POST if request.method == "POST" else request.GET
    table = asked.get("table", "").replace("\0", "")[:200]
    rules = {rule: names_in(asked.getlist(rule)) for rule in (MASK, DROP)}
    # Of a form each column says what is wanted of it; a link names those that are not kept.
    for name, value in asked.items():
        if name.startswith(_COLUMN) and value in rules:
            rules[value] += (name.removeprefix(_COLUMN)[:200],)
    wanted = {table: {name: rule for rule, names in rules.items() for name in names}}
    page: dict[str, Any] = {
        "table": table,
        "mask": rules[MASK],
        "drop": rules[DROP],
        "keeping": ((KEEP, "Keep"), (MASK, "Mask"), (DROP, "Leave out")),
    }
    chosen = bool(table) and (request.method == "POST" or "show" in asked)
    try:
        if not chosen:
            page["choice"] = columns_of(slot, table)
    except EXPECTED as error:
        page["trouble"] = trouble_of(error)
    if not chosen or "trouble" in page:
        status = 422 if "trouble" in page else 200
        return render(request, "acts/columns.html", {"slot": slot, **page}, status=status)

    def do(page: dict[str, Any]) -> Outcome:
        change_columns(slot, wanted, by=request.user.get_username())
        return Outcome(title=f"The columns of {slot} are changed.", links=links_of(slot),
                       lines=list(page["act"].consequences[:-1]),
                       statements=statements_of(page["act"]))  # fmt: skip

    return show_or_do(
        request, slot, lambda: plan_columns(slot, wanted), do, "acts/columns.html", page
    )

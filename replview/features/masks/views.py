"""Mask rules: what they match, one more after a preview, one less."""

from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from replview.access.mask_making import NotARule, add_rule, all_rules, remove_rule, wished
from replview.access.page import ADMIN, Nav, page
from replview.access.permitted import require
from replview.access.rights import Role
from replview.features.masks.page import rule_view, sentence
from replview.store.models import MaskRule, Source

#: Boxes of the form, by the names ``wished`` knows them by.
_BOXES = {"source": "source", "table": "table", "column": "column", "type": "type_name",
          "when": "when", "note": "note"}  # fmt: skip


@page(role=ADMIN, nav=Nav(group="", label="Privacy", icon="eye"))
@require_http_methods(["GET", "POST"])
def masks(request: HttpRequest) -> HttpResponse:
    """The rules and the form; a preview is a link, so that it can be shown to somebody."""
    require(request, Role.ADMIN)
    if request.method == "POST":
        try:
            rule = _wished(request, request.POST)
        except NotARule as error:
            return _show(request, request.POST, error)
        add_rule(rule, user=request.user)
        return redirect(f"{reverse('masks')}#mask-{rule.pk}")
    return _show(request, request.GET)


@page(role=ADMIN, of={"rule_id": None})
@require_POST
def remove(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Take a rule away."""
    require(request, Role.ADMIN)
    remove_rule(get_object_or_404(MaskRule, pk=rule_id), user=request.user)
    return redirect("masks")


def _show(request: HttpRequest, typed: QueryDict, error: NotARule | None = None) -> HttpResponse:
    rules = [rule_view(rule) for rule in all_rules()]
    page: dict[str, Any] = {
        "rules": rules,
        "sentence": sentence(rules),
        "values": {box: typed.get(box, "")[:200] for box in _BOXES},
        "sources": list(Source.objects.values_list("name", flat=True)),
        "errors": {},
    }
    page["values"]["when"] = page["values"]["when"] or MaskRule.When.INGEST
    if error is None and any(typed.get(box) for box in ("table", "column", "type")):
        try:
            page["preview"] = rule_view(_wished(request, typed))
        except NotARule as refused:
            error = refused
    if error is not None:
        page["errors"] = {error.field: str(error)}
    return render(request, "masks/masks.html", page, status=422 if error else 200)


def _wished(request: HttpRequest, typed: QueryDict) -> MaskRule:
    words = {name: typed.get(box, "") for box, name in _BOXES.items()}
    words["when"] = words["when"] or MaskRule.When.INGEST
    return wished(**words, by=request.user.get_username())

"""Mask rules: what they match, one more after a preview, one less."""

from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from replview.access import mask_making
from replview.access.guard import require
from replview.access.page import ADMIN, GET_POST, POST, Nav, page
from replview.access.rights import Role
from replview.store.models import MaskRule, Source
from replview.text.formats import plural

#: Tables shown of a rule, and columns of a table; the rest is a number.
_TABLES_SHOWN = 20
_COLUMNS_SHOWN = 12
#: Boxes of the form, by the names ``unsaved_rule`` knows them by.
_BOXES = {"source": "source", "table": "table", "column": "column", "type": "type_name",
          "when": "when", "note": "note"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MatchedTable:
    """A table in a list of what a rule matches."""

    found: mask_making.Matched
    columns: list[tuple[str, str, bool]]
    more: int


@dataclass(slots=True, kw_only=True)
class RuleView:
    rule: MaskRule
    tables: list[MatchedTable] = field(default_factory=list)
    more_tables: int = 0
    columns: int = 0
    #: A row's key is among the columns.
    keys: list[str] = field(default_factory=list)

    @property
    def at_ingest(self) -> bool:
        return self.rule.when == MaskRule.When.INGEST

    @property
    def matches_words(self) -> str:
        """``3 columns of 2 tables``."""
        if not self.columns:
            return "nothing that is recorded yet"
        tables = len(self.tables) + self.more_tables
        return f"{plural(self.columns, 'column')} of {plural(tables, 'table')}"

    @property
    def title(self) -> str:
        """``public.users.email`` with the type, if one is asked for."""
        kind = f", {self.rule.type_pattern}" if self.rule.type_pattern else ""
        return f"{self.rule.table_pattern}.{self.rule.column_pattern}{kind}"


def rule_view(rule: MaskRule) -> RuleView:
    """A rule with what it matches of what is recorded."""
    found = mask_making.matched_by(mask_making.as_rule(rule))
    shown = [_table(one) for one in found[:_TABLES_SHOWN]]
    keys = [f"{one.schema}.{one.table}.{name}" for one in found for name in one.keys]
    return RuleView(
        rule=rule,
        tables=shown,
        more_tables=max(len(found) - _TABLES_SHOWN, 0),
        columns=sum(len(one.columns) for one in found),
        keys=list(dict.fromkeys(keys)),
    )


def _table(found: mask_making.Matched) -> MatchedTable:
    columns = [
        (name, kind or "unknown", name in found.keys) for name, kind in found.columns.items()
    ]
    return MatchedTable(found, columns[:_COLUMNS_SHOWN], max(len(columns) - _COLUMNS_SHOWN, 0))


def sentence(rules: list[RuleView]) -> dict[str, object]:
    if not rules:
        return {
            "level": "idle",
            "title": "No column is masked.",
            "cause": "Whoever has the right on a table sees all its values.",
            "next": "add a rule for what nobody should see.",
        }
    ingest = sum(rule.at_ingest for rule in rules)
    parts = [f"{ingest} at ingest: what it matches is not kept"] if ingest else []
    if len(rules) - ingest:
        parts.append(f"{len(rules) - ingest} on display: kept, and shown to nobody")
    matching = sum(bool(rule.columns) for rule in rules)
    return {
        "level": "ok" if matching == len(rules) else "look",
        "title": f"{plural(len(rules), 'mask rule')} in force.",
        "cause": "; ".join(parts) + ".",
        "next": "" if matching == len(rules) else "look at the rules that match nothing recorded.",
    }


@page(GET_POST, role=ADMIN, nav=Nav(group="", label="Privacy", icon="eye"))
def masks(request: HttpRequest) -> HttpResponse:
    """The rules and the form; a preview is a link, so that it can be shown to somebody."""
    require(request, Role.ADMIN)
    if request.method == "POST":
        try:
            rule = _typed_rule(request, request.POST)
        except mask_making.MaskProblem as error:
            return _show(request, request.POST, error)
        mask_making.add_rule(rule, user=request.user)
        return redirect(f"{reverse('masks')}#mask-{rule.pk}")
    return _show(request, request.GET)


@page(POST, role=ADMIN, of={"rule_id": None})
def remove(request: HttpRequest, rule_id: int) -> HttpResponse:
    require(request, Role.ADMIN)
    mask_making.remove_rule(get_object_or_404(MaskRule, pk=rule_id), user=request.user)
    return redirect("masks")


def _show(
    request: HttpRequest, typed: QueryDict, error: mask_making.MaskProblem | None = None
) -> HttpResponse:
    rules = [rule_view(rule) for rule in mask_making.all_rules()]
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
            page["preview"] = rule_view(_typed_rule(request, typed))
        except mask_making.MaskProblem as refused:
            error = refused
    if error is not None:
        page["errors"] = {error.field: str(error)}
    return render(request, "masks/masks.html", page, status=422 if error else 200)


def _typed_rule(request: HttpRequest, typed: QueryDict) -> MaskRule:
    words = {name: typed.get(box, "") for box, name in _BOXES.items()}
    words["when"] = words["when"] or MaskRule.When.INGEST
    return mask_making.unsaved_rule(**words, by=request.user.get_username())

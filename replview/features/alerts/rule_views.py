"""Rules of alerts and their form: list, switch, change, one for a slot, try before saving."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from replview.access.guard import NeedsRole
from replview.access.page import OF_RULE, OPERATOR, VIEWER, page
from replview.access.rights import Role
from replview.features.alerts.built_in import ensure, original, own_rule
from replview.features.alerts.kinds import KINDS, AmountError, Kind, Unit, exact_words, parse_amount
from replview.features.alerts.lines import out_of_reach, rule_rows
from replview.features.alerts.trial import trial_view
from replview.store.models import AlertRule, WatchedSlot
from replview.store.write.access_record import Action, note
from replview.text.parsing import clean_text
from replview.ui.params import Params

_NAME_LIMIT = 100
_TABLES_MOST = 200
_TABLE_LIMIT = 130
_TEXT_LIMIT = 60


@dataclass
class RuleForm:
    """What the form shows and what was sent; ``rule`` takes what could be read of it."""

    rule: AlertRule
    values: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rule: AlertRule) -> "RuleForm":
        """As the rule is."""
        unit = KINDS[rule.kind].unit
        values = {
            "name": rule.name,
            "severity": rule.severity,
            "enabled": "on" if rule.enabled else "",
            "threshold": exact_words(rule.threshold, unit),
            "clear_threshold": exact_words(rule.clear_threshold, unit),
            "hold": exact_words(rule.hold_seconds, Unit.SECONDS),
            "clear": exact_words(rule.clear_seconds, Unit.SECONDS),
            "tables": "\n".join(rule.tables),
        }
        return cls(rule, values)

    @property
    def kind(self) -> Kind:
        """What is measured."""
        return KINDS[self.rule.kind]

    @property
    def has_threshold(self) -> bool:
        """Whether the kind has one."""
        return self.kind.unit != Unit.YES_NO

    @property
    def fields(self) -> list[dict[str, str]]:
        """The amounts: name, label, hint, value, error."""
        kind, below = self.kind, self.kind.below
        rows = []
        if self.has_threshold:
            rows.append(
                ("threshold", "Fires below" if below else "Fires from", _EXAMPLE[kind.unit])
            )
            rows.append(
                ("clear_threshold", "Over from" if below else "Over below",
                 "empty: at the same value")
            )  # fmt: skip
        if not kind.event:
            rows.append(("hold", "After it has held for", "0 s: at once"))
            rows.append(("clear", "Over after so long beyond", "0 s: at once"))
        return [
            {"name": name, "label": label, "hint": hint, "value": self.values.get(name, ""),
             "error": self.errors.get(name, "")}
            for name, label, hint in rows
        ]  # fmt: skip

    def read(self, sent: Mapping[str, Any]) -> bool:
        """Take what was sent; False with ``errors`` said."""
        names = ("name", "severity", "enabled", "threshold", "clear_threshold", "hold", "clear")
        params = Params(sent)
        self.values = {name: params.text(name, _NAME_LIMIT + 1) for name in names}
        self.values["tables"] = clean_text(sent.get("tables"), strip=False)
        rule = self.rule
        rule.name = self.values["name"]
        if not rule.name or len(rule.name) > _NAME_LIMIT:
            self.errors["name"] = f"Give it a name of at most {_NAME_LIMIT} characters"
        if self.values["severity"] in AlertRule.Severity.values:
            rule.severity = self.values["severity"]
        else:
            self.errors["severity"] = "Choose how urgent it is"
        rule.enabled = self.values["enabled"] == "on"
        if self.has_threshold:
            rule.threshold = self._amount("threshold", self.kind.unit)
            rule.clear_threshold = self._amount(
                "clear_threshold", self.kind.unit, may_be_empty=True
            )
            self._check_margin()
        if not self.kind.event:
            rule.hold_seconds = self._amount("hold", Unit.SECONDS, may_be_empty=True) or 0
            rule.clear_seconds = self._amount("clear", Unit.SECONDS, may_be_empty=True) or 0
        self._read_tables()
        return not self.errors

    def _amount(self, name: str, unit: Unit, *, may_be_empty: bool = False) -> float | None:
        text = self.values[name][:_TEXT_LIMIT]
        if not text and may_be_empty:
            return None
        try:
            return parse_amount(text, unit)
        except AmountError as error:
            self.errors[name] = str(error)
            return None

    def _check_margin(self) -> None:
        over, at = self.rule.clear_threshold, self.rule.threshold
        if over is None or at is None:
            return
        if self.kind.below and over < at:
            self.errors["clear_threshold"] = "At least the value at which it fires"
        elif not self.kind.below and over > at:
            self.errors["clear_threshold"] = "At most the value at which it fires"

    def _read_tables(self) -> None:
        if self.rule.kind != AlertRule.Kind.SCHEMA_CHANGE:
            return
        names = self.values["tables"].replace(",", "\n").split("\n")
        tables = list(dict.fromkeys(name.strip() for name in names if name.strip()))
        if len(tables) > _TABLES_MOST or any(len(name) > _TABLE_LIMIT for name in tables):
            self.errors["tables"] = f"At most {_TABLES_MOST} patterns"
        elif any("." not in name and "*" not in name for name in tables):
            self.errors["tables"] = "Write schema.table; * stands for any characters"
        else:
            self.rule.tables = tables


_EXAMPLE = {
    Unit.BYTES: "like 10 GB",
    Unit.SHARE: "like 90 %",
    Unit.SECONDS: "like 30 s, 5 min, 6 h",
    Unit.YES_NO: "",
}


_SLOTS_OFFERED = 500


@page(role=VIEWER, nav="alerts")
@require_GET
def rules(request: HttpRequest) -> HttpResponse:
    """All rules, those of a slot below what they stand for."""
    ensure()
    rows = rule_rows()
    kinds = [(name, kind.word) for name, kind in KINDS.items()]
    on = sum(row.rule.enabled for row in rows)
    # What is added here is for every source.
    page = {"rows": rows, "kinds": kinds, "on": on, "all_sources": not out_of_reach(AlertRule())}
    return render(request, "alerts/rules.html", page)


@page(role=OPERATOR, nav="alerts", of=OF_RULE)
@require_http_methods(["GET", "POST"])
def rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """One rule's form."""
    found = _find(rule_id)
    form = RuleForm.of(found)
    if request.method == "POST":
        if form.read(request.POST):
            return _save(request, found)
        return _show(request, form, status=422)
    return _show(request, form)


@page(role=OPERATOR, nav="alerts")
@require_http_methods(["GET", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """A further rule of a kind, or one slot's instead of another."""
    asked = request.POST if request.method == "POST" else request.GET
    form = RuleForm.of(_unsaved(asked))
    if request.method == "POST":
        if form.read(request.POST):
            return _save(request, form.rule)
        return _show(request, form, status=422)
    return _show(request, form)


@page(role=OPERATOR)
@require_POST
def attempt(request: HttpRequest) -> HttpResponse:
    """Try what the form holds against the past hour; nothing is saved."""
    number = Params(request.POST).number("rule")
    known = _find(number) if number is not None else _unsaved(request.POST)
    form = RuleForm.of(known)
    if not form.read(request.POST):
        return render(request, "alerts/_trial.html", {"errors": form.errors})
    return render(request, "alerts/_trial.html", {"view": trial_view(form.rule)})


@page(role=OPERATOR, of=OF_RULE)
@require_POST
def change(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Switch on or off, delete, or set back to how it came."""
    found, action = _find(rule_id), request.POST.get("action", "")
    _check_reach(found)
    if action in ("on", "off"):
        found.enabled = action == "on"
        _save(request, found)
    elif action == "delete" and not found.built_in:
        note(Action.CHANGED_SETTINGS, subject=f"alert rule {found.name}: deleted")
        found.delete()
    elif action == "reset" and (came := original(found)):
        plain: dict[str, Any] = {
            "clear_threshold": None,
            "hold_seconds": 0,
            "clear_seconds": 0,
            "tables": [],
        }
        for name, value in {**plain, **came}.items():
            setattr(found, name, value)
        return _save(request, found)
    return redirect("alert-rules")


def _check_reach(found: AlertRule) -> None:
    """A rule for every slot is not for those to change who see some of the sources."""
    if why := out_of_reach(found):
        raise NeedsRole(Role.ADMIN, why)


def _save(request: HttpRequest, found: AlertRule) -> HttpResponse:
    _check_reach(found)
    found.changed_at, found.changed_by = timezone.now(), request.user.get_username()
    found.save()
    note(Action.CHANGED_SETTINGS, subject=f"alert rule {found.name}: saved")
    return redirect(f"{reverse('alert-rules')}#rule-{found.pk}")


def _show(request: HttpRequest, form: RuleForm, *, status: int = 200) -> HttpResponse:
    found = form.rule
    page: dict[str, Any] = {"form": form, "rule": found}
    if found.pk is not None:
        page["came"] = original(found)
        page["own"] = list(AlertRule.objects.filter(overrides=found).select_related("slot__source"))
        if form.kind.per_slot and found.slot_id is None:
            taken = [own.slot_id for own in page["own"]]
            slots = WatchedSlot.objects.filter(gone_at=None).exclude(pk__in=taken)
            page["slots"] = slots.select_related("source").order_by("source__name", "name")[
                :_SLOTS_OFFERED
            ]
    return render(request, "alerts/rule.html", page, status=status)


def _unsaved(asked: Any) -> AlertRule:
    """What the address, or the form, wants: a kind, or a rule and a slot."""
    base, slot = Params(asked).number("overrides"), Params(asked).number("slot")
    if base is not None and slot is not None:
        found = _find(base)
        watched = get_object_or_404(WatchedSlot.objects.select_related("source"), pk=slot)
        if found.slot_id is not None or not KINDS[found.kind].per_slot:
            raise Http404("this rule has none of a single slot")
        # It may have been made meanwhile: then it is that one.
        return own_rule(found, watched)
    kind = asked.get("kind", "")
    if kind not in KINDS:
        raise Http404("there is no such kind of rule")
    like = AlertRule.objects.filter(kind=kind, slot=None).first()
    fresh = AlertRule(kind=kind, name=KINDS[kind].word)
    if like is not None:
        fresh.threshold, fresh.clear_threshold = like.threshold, like.clear_threshold
        fresh.hold_seconds, fresh.clear_seconds = like.hold_seconds, like.clear_seconds
    return fresh


def _find(rule_id: int) -> AlertRule:
    rows = AlertRule.objects.select_related("slot__source", "overrides")
    found: AlertRule = get_object_or_404(rows, pk=rule_id)
    return found

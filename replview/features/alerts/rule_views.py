"""Views of alert rules: list, change, create, and try before saving."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone

from replview.access.guard import NeedsRole
from replview.access.page import GET, GET_POST, OF_RULE, OPERATOR, POST, VIEWER, page
from replview.access.rights import Role
from replview.features.alerts.built_in import ensure, original, own_rule
from replview.features.alerts.kinds import KINDS, kind_of
from replview.features.alerts.lines import RuleRow, out_of_reach, rule_rows
from replview.features.alerts.rule_form import RuleForm
from replview.features.alerts.trial_chart import TrialView, trial_view
from replview.store.models import AlertRule, WatchedSlot
from replview.store.write.access_record import Action, note
from replview.ui.params import Params

_SLOTS_OFFERED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesPage:
    """The list of all rules."""

    rows: list[RuleRow]
    #: Kinds that a new rule can have: (value, words).
    kinds: list[tuple[str, str]]
    #: Number of enabled rules, without rules of single slots.
    on: int
    #: True when this account may add a rule, which applies to every source.
    all_sources: bool


def read_rules_page() -> RulesPage:
    """Read all rules and what a new rule may be."""
    rows = rule_rows()
    return RulesPage(
        rows=rows,
        kinds=[(name, kind.word) for name, kind in KINDS.items()],
        on=sum(row.rule.enabled and row.kind.known for row in rows),
        all_sources=not out_of_reach(AlertRule()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePage:
    """The form of one rule, and related data of a saved rule."""

    #: The rule, the fields that were sent, and their errors.
    form: RuleForm
    #: True for a built-in rule, which can be reset.
    came: bool = False
    #: Rules of single slots that replace this one.
    own: Sequence[AlertRule] = ()
    #: Slots that may still get a rule of their own.
    slots: Sequence[WatchedSlot] = ()

    @property
    def rule(self) -> AlertRule:
        """Return the form's rule."""
        return self.form.rule

    @property
    def deletable(self) -> bool:
        """Return whether the rule may be deleted."""
        return _may_be_deleted(self.rule)


def build_rule_page(form: RuleForm) -> RulePage:
    """Read the data related to a form's rule; an unsaved rule has none."""
    rule = form.rule
    if rule.pk is None:
        return RulePage(form=form)
    own_rules = list(AlertRule.objects.filter(overrides=rule).select_related("slot__source"))
    slots: list[WatchedSlot] = []
    if form.kind.per_slot and rule.slot_id is None:
        free_slots = WatchedSlot.objects.filter(gone_at=None).exclude(
            pk__in=[row.slot_id for row in own_rules]
        )
        free_slots = free_slots.select_related("source").order_by("source__name", "name")
        slots = list(free_slots[:_SLOTS_OFFERED])
    return RulePage(form=form, came=original(rule) is not None, own=own_rules, slots=slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPage:
    """The trial of the rule in a form."""

    #: An error message for each invalid field; with any, nothing was tried.
    errors: Sequence[str] = ()
    #: The result, or None if nothing was tried.
    view: TrialView | None = None


def build_trial_page(form: RuleForm) -> TrialPage:
    """Try the form's rule on the past hour; nothing is saved."""
    if not form.read():
        return TrialPage(errors=[str(errors[0]) for errors in form.errors.values()])
    return TrialPage(view=trial_view(form.rule))


@page(GET, role=VIEWER, nav="alerts")
def rules(request: HttpRequest) -> HttpResponse:
    """List all rules."""
    ensure()
    return render(request, "alerts/rules.html", {"page": read_rules_page()})


@page(GET_POST, role=OPERATOR, nav="alerts", of=OF_RULE)
def rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Show or save one rule."""
    return _show_or_save(request, _rule_or_404(rule_id))


@page(GET_POST, role=OPERATOR, nav="alerts")
def new(request: HttpRequest) -> HttpResponse:
    """Show the form of a new rule, or save it."""
    return _show_or_save(
        request, _new_rule(request.POST if request.method == "POST" else request.GET)
    )


def _show_or_save(request: HttpRequest, rule: AlertRule) -> HttpResponse:
    if request.method != "POST":
        return _show(request, RuleForm(rule))
    form = RuleForm(rule, request.POST)
    return _save(request, rule) if form.read() else _show(request, form, status=422)


@page(POST, role=OPERATOR)
def attempt(request: HttpRequest) -> HttpResponse:
    """Try the form's rule on the past hour; nothing is saved."""
    rule_id = Params(request.POST).number("rule")
    rule = _rule_or_404(rule_id) if rule_id is not None else _new_rule(request.POST)
    page = build_trial_page(RuleForm(rule, request.POST))
    return render(request, "alerts/_trial.html", {"page": page})


@page(POST, role=OPERATOR, of=OF_RULE)
def change(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Switch the rule on or off, delete it, or reset a built-in rule."""
    rule, action = _rule_or_404(rule_id), request.POST.get("action", "")
    _check_reach(rule)
    if action in ("on", "off"):
        rule.enabled = action == "on"
        _save(request, rule)
    elif action == "delete" and _may_be_deleted(rule):
        note(Action.CHANGED_SETTINGS, subject=f"alert rule {rule.name}: deleted")
        rule.delete()
    elif action == "reset" and (original_values := original(rule)):
        for name, value in {"tables": [], **original_values}.items():
            setattr(rule, name, value)
        return _save(request, rule)
    return redirect("alert-rules")


def _may_be_deleted(rule: AlertRule) -> bool:
    """Return whether the rule is not built in, or of a kind this version does not know."""
    return not rule.built_in or not kind_of(rule).known


def _check_reach(rule: AlertRule) -> None:
    """Raise ``NeedsRole`` for a rule on all sources if the account sees only some."""
    if reason := out_of_reach(rule):
        raise NeedsRole(Role.ADMIN, reason)


def _save(request: HttpRequest, rule: AlertRule) -> HttpResponse:
    _check_reach(rule)
    rule.changed_at, rule.changed_by = timezone.now(), request.user.get_username()
    rule.save()
    note(Action.CHANGED_SETTINGS, subject=f"alert rule {rule.name}: saved")
    return redirect(f"{reverse('alert-rules')}#rule-{rule.pk}")


def _show(request: HttpRequest, form: RuleForm, *, status: int = 200) -> HttpResponse:
    return render(request, "alerts/rule.html", {"page": build_rule_page(form)}, status=status)


def _new_rule(query: Any) -> AlertRule:
    """Return the rule to begin with: of a kind, or a slot's own rule in place of another."""
    base_id, slot_id = Params(query).number("overrides"), Params(query).number("slot")
    if base_id is not None and slot_id is not None:
        base = _rule_or_404(base_id)
        slot = get_object_or_404(WatchedSlot.objects.select_related("source"), pk=slot_id)
        if base.slot_id is not None or not kind_of(base).per_slot:
            raise Http404("this rule has none of a single slot")
        # The slot may have its own rule by now; then return that one.
        return own_rule(base, slot)
    kind = query.get("kind", "")
    if kind not in KINDS:
        raise Http404("there is no such kind of rule")
    similar = AlertRule.objects.filter(kind=kind, slot=None).first()
    rule = AlertRule(kind=kind, name=KINDS[kind].word)
    if similar is not None:
        rule.threshold, rule.clear_threshold = similar.threshold, similar.clear_threshold
        rule.hold_seconds, rule.clear_seconds = similar.hold_seconds, similar.clear_seconds
    return rule


def _rule_or_404(rule_id: int) -> AlertRule:
    rows = AlertRule.objects.select_related("slot__source", "overrides")
    rule: AlertRule = get_object_or_404(rows, pk=rule_id)
    return rule

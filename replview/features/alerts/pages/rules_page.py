"""The list of rules, each in a sentence."""

from dataclasses import dataclass, field

from django.db.models import Count, Q

from replview.features.alerts.rules.amounts import amount_words
from replview.features.alerts.rules.kinds import KINDS, Kind, Unit
from replview.health.states import Level
from replview.store.models import Alert, AlertRule
from replview.store.models.seen import seen_sources
from replview.text.formats import NO_BREAK


@dataclass(slots=True)
class RuleRow:
    """One rule of the list."""

    rule: AlertRule
    firing: int = 0
    own: list["RuleRow"] = field(default_factory=list)

    @property
    def kind(self) -> Kind:
        """What is measured."""
        return KINDS[self.rule.kind]

    @property
    def level(self) -> Level:
        """How urgent."""
        return Level.NOW if self.rule.severity == AlertRule.Severity.NOW else Level.LOOK

    @property
    def when(self) -> str:
        """``from 90 % on, over below 85 %``."""
        return condition_words(self.rule)

    @property
    def waits(self) -> str:
        """``held for 6 s, over after 6 s``; empty: at once."""
        held, over = (
            amount_words(seconds, Unit.SECONDS).replace(" ", NO_BREAK)
            for seconds in (self.rule.hold_seconds, self.rule.clear_seconds)
        )
        said = [f"held for {held}"] if self.rule.hold_seconds else []
        said += [f"over for {over}"] if self.rule.clear_seconds else []
        return ", ".join(said)


def condition_words(rule: AlertRule) -> str:
    """When a rule fires, and when it is over."""
    kind = KINDS[rule.kind]
    if kind.unit == Unit.YES_NO:
        return ", ".join(rule.tables) if kind.event and rule.tables else "when it is so"
    at, over = (
        amount_words(value, kind.unit).replace(" ", NO_BREAK)
        for value in (rule.threshold, rule.clear_threshold)
    )
    said = f"below {at}" if kind.below else f"from {at} on"
    if rule.clear_threshold is not None and rule.clear_threshold != rule.threshold:
        said += f", over {'from' if kind.below else 'below'} {over}"
    return said


def out_of_reach(rule: AlertRule) -> str:
    """Why this reader may not change it; empty: that depends on the role alone."""
    if rule.slot_id is None and seen_sources() is not None:
        return "This rule is for every source, and this account sees some."
    return ""


def rule_rows() -> list[RuleRow]:
    """All rules; those of one slot stand with the rule they are instead of."""
    firing = Count("alerts", filter=Q(alerts__state=Alert.State.FIRING))
    rules = AlertRule.objects.select_related("slot__source").annotate(firing=firing)
    # Those that came with replview first, each kind together as it came.
    rules = rules.order_by("-built_in", "pk")
    found = {rule.pk: RuleRow(rule, rule.firing) for rule in rules}
    for row in found.values():
        base = found.get(row.rule.overrides_id or 0)
        if base is not None:
            base.own.append(row)
    return [row for row in found.values() if row.rule.overrides_id not in found]

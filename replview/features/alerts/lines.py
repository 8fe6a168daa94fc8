"""Alerts and rules as the pages list them."""

import datetime as dt
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.db.models import Count, Q
from django.urls import reverse
from django.utils.text import capfirst

from replview.features.alerts.amounts import Unit, amount_words
from replview.features.alerts.kinds import kind_of
from replview.features.alerts.kinds.base import AlertKind
from replview.features.alerts.messages import cleared_sentence
from replview.health.states import Level
from replview.store.models import Alert, AlertRule
from replview.store.models.seen import seen_sources
from replview.text.formats import NO_BREAK, age_words

#: Time that the lag charts show before an alert began and after it was cleared.
_CHART_MARGIN = dt.timedelta(minutes=10)
#: Names of details that the page of any alert shows elsewhere.
_HIDDEN_DETAILS = frozenset({"name", "over_because"})


@dataclass(frozen=True, slots=True)
class AlertLine:
    """An alert as a page shows it."""

    alert: Alert
    now: dt.datetime
    #: The next step of the slot's present health; empty if not read, or if there is none.
    next_step: str = ""

    @property
    def kind(self) -> AlertKind:
        """Return the kind of the alert's rule."""
        return kind_of(self.alert.rule)

    @property
    def remedy(self) -> str:
        """Return what to do: the next step of the slot's health, else the kind's remedy."""
        step = self.next_step if self.firing and self.kind.per_slot else ""
        return capfirst(step) or self.kind.remedy

    @property
    def rule_name(self) -> str:
        """Return the name that the rule had when the alert fired."""
        return str(self.alert.rule_was.get("name") or self.alert.rule.name)

    @property
    def what(self) -> str:
        """Return the name of the slot (``source/slot``), source or table."""
        return str(self.alert.detail.get("name") or self.alert.subject)

    @property
    def url(self) -> str:
        """Return the address of the alert's page."""
        return reverse("alert", args=[self.alert.pk])

    @property
    def firing(self) -> bool:
        """Return whether the alert is firing."""
        return self.alert.state == Alert.State.FIRING

    @property
    def level(self) -> Level:
        """Return how severe the alert is; a cleared one is ``OK``."""
        if not self.firing:
            return Level.OK
        return Level.NOW if self.alert.rule_was.get("severity") == "now" else Level.LOOK

    @property
    def has_values(self) -> bool:
        """Return whether the alert has values, because its rule has a threshold."""
        return self.kind.unit != Unit.YES_NO

    @property
    def fired(self) -> str:
        """Return in words the value at which the alert fired."""
        return self._amount_text(self.alert.value_fired)

    @property
    def worst(self) -> str:
        """Return the worst value in words."""
        return self._amount_text(self.alert.value_worst)

    @property
    def last(self) -> str:
        """Return the last value in words."""
        return self._amount_text(self.alert.value_last)

    @property
    def value(self) -> str:
        """Return the value for a list: the last one while it fires, then the worst one."""
        if not self.has_values:
            times = int(self.alert.value_last or 1)
            return f"{times} changes" if self.kind.event and times > 1 else ""
        return self.last if self.firing else f"worst value {self.worst}"

    @property
    def limit(self) -> str:
        """Return the threshold at that time, as ``from 90 % on`` or ``below 6 h``."""
        threshold = self.alert.rule_was.get("threshold")
        if threshold is None:
            return ""
        amount = self._amount_text(threshold)
        return f"below {amount}" if self.kind.below else f"from {amount} on"

    @property
    def duration(self) -> str:
        """Return how long the alert has been firing, or how long it fired."""
        since = self.alert.fired_at or self.alert.began_at
        return age_words((self.alert.cleared_at or self.now) - since)

    @property
    def sentence(self) -> str:
        """Return the sentence that describes the alert."""
        return self.alert.message or f"{self.rule_name}: {self.what}."

    @property
    def over_sentence(self) -> str:
        """Return the sentence for a cleared alert; empty while it fires."""
        return "" if self.firing else cleared_sentence(self.alert)

    @property
    def lag_url(self) -> str:
        """Return the address of the slot's charts around that time; empty without a slot."""
        if self.alert.slot is None or self.alert.source is None:
            return ""
        since = self.alert.began_at - _CHART_MARGIN
        until = min((self.alert.cleared_at or self.now) + _CHART_MARGIN, self.now)
        query = {
            "slot": f"{self.alert.source.name}/{self.alert.slot.name}",
            "from": f"{since:%Y-%m-%dT%H:%M:%SZ}",
            "to": f"{until:%Y-%m-%dT%H:%M:%SZ}",
        }
        return f"{reverse('lag')}?{urlencode(query, safe='/:')}"

    @property
    def slot_url(self) -> str:
        """Return the address of the slot's page; empty if the alert has no slot."""
        if self.alert.slot is None or self.alert.source is None:
            return ""
        return reverse("slot", args=[self.alert.source.name, self.alert.slot.name])

    @property
    def source_url(self) -> str:
        """Return the address of the source on its page; empty without a source."""
        if self.alert.source is None:
            return ""
        return f"{reverse('sources')}#source-{self.alert.source.pk}"

    @property
    def relation_url(self) -> str:
        """Return the address of the table's page; empty without a table."""
        relation = self.alert.detail.get("relation")
        return reverse("relation", args=[relation]) if isinstance(relation, int) else ""

    @property
    def details(self) -> list[tuple[str, str]]:
        """Return further values of the alert as (name, text)."""
        details, hidden = [], _HIDDEN_DETAILS | self.kind.hidden_details
        for name, value in self.alert.detail.items():
            if name in hidden or value in (None, "", [], {}):
                continue
            label, is_bytes, per_second = name.partition("_bytes")
            if is_bytes:
                text = amount_words(float(value), Unit.BYTES) + ("/s" if per_second else "")
            else:
                text = _moment_text(str(value))[:200]
            details.append((label.replace("_", " "), text))
        return details

    def _amount_text(self, value: float | None) -> str:
        return amount_words(value, self.kind.unit).replace(" ", NO_BREAK)


def _moment_text(text: str) -> str:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC" if moment.tzinfo else text


@dataclass(slots=True)
class RuleRow:
    """A rule in the list of rules, with the own rules of single slots below it."""

    rule: AlertRule
    firing: int = 0
    own: list["RuleRow"] = field(default_factory=list)

    @property
    def kind(self) -> AlertKind:
        """Return the rule's kind."""
        return kind_of(self.rule)

    @property
    def level(self) -> Level:
        """Return how severe an alert of this rule is."""
        return Level.NOW if self.rule.severity == AlertRule.Severity.NOW else Level.LOOK

    @property
    def when(self) -> str:
        """Return the condition, such as ``from 90 % on, over below 85 %``."""
        return condition_words(self.rule)

    @property
    def waits(self) -> str:
        """Return the delays, such as ``held for 6 s, over for 6 s``; empty if there are none."""
        hold, clear = (
            amount_words(seconds, Unit.SECONDS).replace(" ", NO_BREAK)
            for seconds in (self.rule.hold_seconds, self.rule.clear_seconds)
        )
        texts = [f"held for {hold}"] if self.rule.hold_seconds else []
        texts += [f"over for {clear}"] if self.rule.clear_seconds else []
        return ", ".join(texts)


def condition_words(rule: AlertRule) -> str:
    """Return in words when the rule fires."""
    kind = kind_of(rule)
    if not kind.known:
        return "not evaluated"
    if kind.unit == Unit.YES_NO:
        return ", ".join(rule.tables) if kind.event and rule.tables else "when it happens"
    threshold, clear_threshold = (
        amount_words(value, kind.unit).replace(" ", NO_BREAK)
        for value in (rule.threshold, rule.clear_threshold)
    )
    text = f"below {threshold}" if kind.below else f"from {threshold} on"
    if rule.clear_threshold is not None and rule.clear_threshold != rule.threshold:
        text += f", over {'from' if kind.below else 'below'} {clear_threshold}"
    return text


def out_of_reach(rule: AlertRule) -> str:
    """Return why this account may not change the rule.

    It is empty if only the account's role decides.
    """
    if rule.slot_id is None and seen_sources() is not None:
        return "This rule applies to every source, and this account may see only some."
    return ""


def rule_rows() -> list[RuleRow]:
    """Return all rules; those of single slots are below the rule they replace."""
    firing = Count("alerts", filter=Q(alerts__state=Alert.State.FIRING))
    rules = AlertRule.objects.select_related("slot__source").annotate(firing=firing)
    # Built-in rules first, in their original order.
    rules = rules.order_by("-built_in", "pk")
    rows_by_rule = {rule.pk: RuleRow(rule, rule.firing) for rule in rules}
    for row in rows_by_rule.values():
        base = rows_by_rule.get(row.rule.overrides_id or 0)
        if base is not None:
            base.own.append(row)
    return [row for row in rows_by_rule.values() if row.rule.overrides_id not in rows_by_rule]

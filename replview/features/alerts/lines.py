"""Alerts and rules as pages list them: what fired, on what, the values, when a rule fires."""

import datetime as dt
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.db.models import Count, Q
from django.urls import reverse

from replview.features.alerts.amounts import amount_words
from replview.features.alerts.kinds import Kind, Unit, kind_of
from replview.features.alerts.messages import cleared_sentence
from replview.health.states import Level
from replview.store.models import Alert, AlertRule
from replview.store.models.seen import seen_sources
from replview.text.formats import NO_BREAK, age_words

#: Of the lag charts: shown before an alert began and after it was over.
_AROUND = dt.timedelta(minutes=10)


#: What an alert keeps and its page says elsewhere.
_NOT_DETAILS = ("name", "relation", "event", "version", "over_because", "quarantine")


@dataclass(frozen=True, slots=True)
class AlertLine:
    alert: Alert
    now: dt.datetime
    #: What the health of its slot asks for now; empty: not asked for, or nothing.
    next_step: str = ""

    @property
    def kind(self) -> Kind:
        return kind_of(self.alert.rule)

    @property
    def remedy(self) -> str:
        """What to do: as the slot's page says it, else what its kind of rule asks for."""
        step = self.next_step if self.firing and self.kind.per_slot else ""
        return f"{step[:1].upper()}{step[1:]}" or self.kind.remedy

    @property
    def rule_name(self) -> str:
        return str(self.alert.rule_was.get("name") or self.alert.rule.name)

    @property
    def what(self) -> str:
        """The slot, source or table; of slots ``source/slot``."""
        return str(self.alert.detail.get("name") or self.alert.subject)

    @property
    def url(self) -> str:
        return reverse("alert", args=[self.alert.pk])

    @property
    def firing(self) -> bool:
        return self.alert.state == Alert.State.FIRING

    @property
    def level(self) -> Level:
        """How bad; of one that is over, that it is."""
        if not self.firing:
            return Level.OK
        return Level.NOW if self.alert.rule_was.get("severity") == "now" else Level.LOOK

    @property
    def has_values(self) -> bool:
        """Whether there is more to say than that it is so."""
        return self.kind.unit != Unit.YES_NO

    @property
    def fired(self) -> str:
        return self._words(self.alert.value_fired)

    @property
    def worst(self) -> str:
        return self._words(self.alert.value_worst)

    @property
    def last(self) -> str:
        return self._words(self.alert.value_last)

    @property
    def value(self) -> str:
        """What a list says: of one that fires the last value, of one that is over the worst."""
        if not self.has_values:
            times = int(self.alert.value_last or 1)
            return f"{times} changes" if self.kind.event and times > 1 else ""
        return self.last if self.firing else f"at worst {self.worst}"

    @property
    def limit(self) -> str:
        """The threshold as it was: ``from 90 % on``, ``below 6 h``."""
        threshold = self.alert.rule_was.get("threshold")
        if threshold is None:
            return ""
        words = self._words(threshold)
        return f"below {words}" if self.kind.below else f"from {words} on"

    @property
    def duration(self) -> str:
        since = self.alert.fired_at or self.alert.began_at
        return age_words((self.alert.cleared_at or self.now) - since)

    @property
    def sentence(self) -> str:
        return self.alert.message or f"{self.rule_name}: {self.what}."

    @property
    def over_sentence(self) -> str:
        """That it is over; empty: it is not."""
        return "" if self.firing else cleared_sentence(self.alert)

    @property
    def lag_url(self) -> str:
        """The slot's charts around that time; empty: they say nothing of it."""
        if self.alert.slot is None or self.alert.source is None:
            return ""
        since = self.alert.began_at - _AROUND
        until = min((self.alert.cleared_at or self.now) + _AROUND, self.now)
        query = {
            "slot": f"{self.alert.source.name}/{self.alert.slot.name}",
            "from": f"{since:%Y-%m-%dT%H:%M:%SZ}",
            "to": f"{until:%Y-%m-%dT%H:%M:%SZ}",
        }
        return f"{reverse('lag')}?{urlencode(query, safe='/:')}"

    @property
    def slot_url(self) -> str:
        """The slot's page; empty: it is not of one."""
        if self.alert.slot is None or self.alert.source is None:
            return ""
        return reverse("slot", args=[self.alert.source.name, self.alert.slot.name])

    @property
    def source_url(self) -> str:
        if self.alert.source is None:
            return ""
        return f"{reverse('sources')}#source-{self.alert.source.pk}"

    @property
    def relation_url(self) -> str:
        relation = self.alert.detail.get("relation")
        return reverse("relation", args=[relation]) if isinstance(relation, int) else ""

    @property
    def details(self) -> list[tuple[str, str]]:
        shown = []
        for name, value in self.alert.detail.items():
            if name in _NOT_DETAILS or value in (None, "", [], {}):
                continue
            what, is_bytes, per_second = name.partition("_bytes")
            if is_bytes:
                text = amount_words(float(value), Unit.BYTES) + ("/s" if per_second else "")
            else:
                text = _moment(str(value))[:200]
            shown.append((what.replace("_", " "), text))
        return shown

    def _words(self, value: float | None) -> str:
        return amount_words(value, self.kind.unit).replace(" ", NO_BREAK)


def _moment(text: str) -> str:
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC" if at.tzinfo else text


@dataclass(slots=True)
class RuleRow:
    rule: AlertRule
    firing: int = 0
    own: list["RuleRow"] = field(default_factory=list)

    @property
    def kind(self) -> Kind:
        return kind_of(self.rule)

    @property
    def level(self) -> Level:
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
        words = [f"held for {held}"] if self.rule.hold_seconds else []
        words += [f"over for {over}"] if self.rule.clear_seconds else []
        return ", ".join(words)


def condition_words(rule: AlertRule) -> str:
    kind = kind_of(rule)
    if not kind.known:
        return "not evaluated"
    if kind.unit == Unit.YES_NO:
        return ", ".join(rule.tables) if kind.event and rule.tables else "when it is so"
    at, over = (
        amount_words(value, kind.unit).replace(" ", NO_BREAK)
        for value in (rule.threshold, rule.clear_threshold)
    )
    words = f"below {at}" if kind.below else f"from {at} on"
    if rule.clear_threshold is not None and rule.clear_threshold != rule.threshold:
        words += f", over {'from' if kind.below else 'below'} {over}"
    return words


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

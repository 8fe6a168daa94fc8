"""Alerts as pages show them: what fired, on what, the values, and where to look."""

import datetime as dt
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from replview.features.alerts.rules.amounts import amount_words
from replview.features.alerts.rules.kinds import KINDS, Kind, Unit
from replview.features.alerts.rules.outbox import cleared_sentence
from replview.health.states import Level
from replview.store.models import Alert
from replview.text.formats import NO_BREAK, age_words

#: Of the lag charts: shown before an alert began and after it was over.
_AROUND = dt.timedelta(minutes=10)
#: Of these, the lag charts of the slot say how it came.
_ON_CHARTS = (Unit.BYTES, Unit.SHARE, Unit.SECONDS)


@dataclass(frozen=True, slots=True)
class AlertLine:
    """One alert."""

    alert: Alert
    now: dt.datetime

    @property
    def kind(self) -> Kind:
        """What was measured."""
        return KINDS[self.alert.rule.kind]

    @property
    def rule_name(self) -> str:
        """As the rule was called when it fired."""
        return str(self.alert.rule_was.get("name") or self.alert.rule.name)

    @property
    def what(self) -> str:
        """The slot, source or table; of slots ``source/slot``."""
        return str(self.alert.detail.get("name") or self.alert.subject)

    @property
    def url(self) -> str:
        """Its own page."""
        return reverse("alert", args=[self.alert.pk])

    @property
    def firing(self) -> bool:
        """Whether it is not over yet."""
        return self.alert.state == Alert.State.FIRING

    @property
    def level(self) -> Level:
        """How bad; of one that is over, that it is."""
        if not self.firing:
            return Level.OK
        return Level.NOW if self.alert.rule_was.get("severity") == "now" else Level.LOOK

    @property
    def was_level(self) -> Level:
        """How bad it was."""
        return Level.NOW if self.alert.rule_was.get("severity") == "now" else Level.LOOK

    @property
    def has_values(self) -> bool:
        """Whether there is more to say than that it is so."""
        return self.kind.unit != Unit.YES_NO

    @property
    def fired(self) -> str:
        """The value when it fired."""
        return self._words(self.alert.value_fired)

    @property
    def worst(self) -> str:
        """The worst value."""
        return self._words(self.alert.value_worst)

    @property
    def last(self) -> str:
        """The last value."""
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
        """From firing to its end, or until now."""
        since = self.alert.fired_at or self.alert.began_at
        return age_words((self.alert.cleared_at or self.now) - since)

    @property
    def sentence(self) -> str:
        """What is or was the matter."""
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
        """The source's block."""
        if self.alert.source is None:
            return ""
        return f"{reverse('sources')}#source-{self.alert.source.pk}"

    @property
    def relation_url(self) -> str:
        """The table's schema history."""
        relation = self.alert.detail.get("relation")
        return reverse("relation", args=[relation]) if isinstance(relation, int) else ""

    @property
    def details(self) -> list[tuple[str, str]]:
        """Further values of that moment."""
        shown = []
        for name, value in self.alert.detail.items():
            if name in ("name", "relation", "event", "version", "over_because", "quarantine"):
                continue
            if value in (None, "", [], {}):
                continue
            unit = None
            if name.endswith("_bytes"):
                name, unit = name.removesuffix("_bytes"), Unit.BYTES
            elif name.endswith("_bytes_per_second"):
                name, unit = name.removesuffix("_bytes_per_second"), Unit.BYTES
                shown.append((name, f"{amount_words(float(value), unit)}/s"))
                continue
            text = amount_words(float(value), unit) if unit else _moment(str(value))
            shown.append((name, text[:200]))
        return [(name.replace("_", " "), text) for name, text in shown]

    def _words(self, value: float | None) -> str:
        return amount_words(value, self.kind.unit).replace(" ", NO_BREAK)


def _moment(text: str) -> str:
    """A moment as a page writes it; anything else as it is."""
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC" if at.tzinfo else text

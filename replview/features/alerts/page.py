"""The alerts page: firing alerts, worst first, then cleared ones, newest first; and its filters."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from replview.access.reading import RecordPosition
from replview.features.alerts.evaluation import EVALUATED_AT
from replview.features.alerts.kinds import KINDS
from replview.features.alerts.lines import AlertLine
from replview.health.fleet import Fleet
from replview.health.states import Level
from replview.store import instance_settings
from replview.store.models import Alert, AlertRule, Delivery, Source
from replview.text.formats import age_words, plural
from replview.ui.params import RANGES, Params
from replview.ui.sentence import Sentence

_DEFAULT_RANGE = "7d"
_TEXT_LIMIT = 130
PAGE_ALERTS = 50
_FIRING_LIMIT = 500
_DELIVERIES_SHOWN = 50
#: Age of the last evaluation above which rules count as not evaluated; they run every 5 s.
_EVALUATED_WITHIN = dt.timedelta(seconds=30)
_RELATED = ("rule", "source", "slot")


@dataclass(frozen=True, slots=True)
class AlertsQuery:
    """The filters in the page's address; unknown values are ignored."""

    #: A rule's number.
    rule: int | None = None
    kind: str = ""
    source: str = ""
    #: ``source/slot``.
    slot: str = ""
    range: str = _DEFAULT_RANGE
    #: Firing time and number of the last alert on the page before; None on the first page.
    after: RecordPosition | None = None

    @property
    def filtered(self) -> bool:
        """Return whether any filter besides the time range is set."""
        return bool(self.rule or self.kind or self.source or self.slot)

    def url(self, **changed: Any) -> str:
        """Return the address with some filters changed; it begins at the first page."""
        filters = replace(self, **{"after": None, **changed})
        params = {
            "rule": str(filters.rule or ""),
            "kind": filters.kind,
            "source": filters.source,
            "slot": filters.slot,
            "range": filters.range if filters.range != _DEFAULT_RANGE else "",
            "after": str(filters.after or ""),
        }
        query = urlencode({name: value for name, value in params.items() if value}, safe="/:")
        return f"{reverse('alerts')}{'?' if query else ''}{query}"

    def narrow(self, alerts: QuerySet[Alert]) -> QuerySet[Alert]:
        """Return the alerts that pass the filters, of any state and time."""
        if self.rule:
            alerts = alerts.filter(Q(rule=self.rule) | Q(rule__overrides=self.rule))
        if self.kind:
            alerts = alerts.filter(rule__kind=self.kind)
        if self.source:
            alerts = alerts.filter(source__name=self.source)
        if self.slot:
            source, _, name = self.slot.rpartition("/")
            alerts = alerts.filter(slot__name=name, source__name=source)
        return alerts

    def within(self, alerts: QuerySet[Alert], now: dt.datetime) -> QuerySet[Alert]:
        """Return the alerts of the time range after the last one shown, newest first."""
        _, length = RANGES[self.range]
        if length is not None:
            alerts = alerts.filter(fired_at__gte=now - length)
        if self.after is not None:
            fired_at = self.after.at
            alerts = alerts.filter(fired_at__lte=fired_at).filter(
                Q(fired_at__lt=fired_at) | Q(fired_at=fired_at, pk__lt=self.after.number)
            )
        return alerts.order_by("-fired_at", "-pk")


def wanted_of(query: Mapping[str, str]) -> AlertsQuery:
    """Parse the address parameters."""
    params = Params(query)
    return AlertsQuery(
        rule=params.number("rule"),
        kind=params.choice("kind", KINDS),
        source=params.text("source", _TEXT_LIMIT),
        slot=params.text("slot", _TEXT_LIMIT),
        range=params.choice("range", RANGES, _DEFAULT_RANGE),
        after=RecordPosition.parse(query.get("after", "")),
    )


@dataclass(slots=True, kw_only=True)
class AlertsPage:
    """The page of all alerts."""

    wanted: AlertsQuery
    now: dt.datetime
    firing: list[AlertLine] = field(default_factory=list)
    history: list[AlertLine] = field(default_factory=list)
    more: bool = False
    rules_on: int = 0
    evaluated_at: dt.datetime | None = None
    sources: list[str] = field(default_factory=list)

    @property
    def following_url(self) -> str:
        """Return the next page's address; empty on the last page."""
        if not self.more:
            return ""
        last = self.history[-1].alert
        assert last.fired_at is not None
        return self.wanted.url(after=RecordPosition(last.fired_at, last.pk))

    @property
    def clear_url(self) -> str:
        """Return the address without filters, with the same time range."""
        return AlertsQuery(range=self.wanted.range).url()

    @property
    def all_url(self) -> str:
        """Return the address with the same filters over all time."""
        return self.wanted.url(range="all")

    @property
    def ranges(self) -> list[tuple[str, str, bool]]:
        """Return the time ranges as (label, address, chosen)."""
        return [
            (label, self.wanted.url(range=name), name == self.wanted.range)
            for name, (label, _) in RANGES.items()
        ]

    @property
    def kinds(self) -> list[tuple[str, str, bool]]:
        """Return the kinds as (label, address, chosen); the first stands for any."""
        any_kind = ("Any kind", self.wanted.url(kind="", rule=None), not self.wanted.kind)
        return [any_kind] + [
            (kind.word, self.wanted.url(kind=str(name), rule=None), name == self.wanted.kind)
            for name, kind in KINDS.items()
        ]

    @property
    def source_choices(self) -> list[tuple[str, str, bool]]:
        """Return the sources as (label, address, chosen); the first stands for all."""
        everywhere = ("All sources", self.wanted.url(source="", slot=""), not self.wanted.source)
        return [everywhere] + [
            (name, self.wanted.url(source=name, slot=""), name == self.wanted.source)
            for name in self.sources
        ]

    @property
    def kind_word(self) -> str:
        """Return the name of the chosen kind; empty if none is chosen."""
        return KINDS[self.wanted.kind].word if self.wanted.kind else ""

    @property
    def unseen(self) -> bool:
        """Return whether any firing alert is not marked as seen."""
        return any(line.alert.seen_at is None for line in self.firing)

    @property
    def silent(self) -> bool:
        """Return whether rules are no longer evaluated, so that the list is out of date."""
        return self.evaluated_at is None or self.now - self.evaluated_at > _EVALUATED_WITHIN

    @property
    def sentence(self) -> Sentence:
        """Return the headline: the worst alert, or that nothing is firing or evaluated."""
        if self.silent and self.rules_on:
            since = f"for {age_words(self.now - self.evaluated_at)}" if self.evaluated_at else "yet"
            return Sentence(
                level=Level.UNKNOWN,
                title=f"Unknown: alerts have not been evaluated {since}.",
                cause="The list shows the state at that time.",
                next="check that a worker and beat run: replview up.",
            )
        if not self.firing:
            return Sentence(
                level=Level.OK if self.rules_on else Level.UNKNOWN,
                title="No alert is firing." if self.rules_on else "No alert rule is on.",
                cause=f"{plural(self.rules_on, 'rule')} on, evaluated every five seconds."
                if self.rules_on
                else "No notification is sent.",
            )
        worst, urgent_count = self.firing[0], sum(line.level == Level.NOW for line in self.firing)
        count = urgent_count or len(self.firing)
        verb, need = "needs" if count == 1 else "need", "you now" if urgent_count else "a look"
        return Sentence(
            level=worst.level,
            title=f"{plural(count, 'alert')} {verb} {need}.",
            cause=worst.sentence,
        )

    @property
    def worst_url(self) -> str:
        """Return the page of the alert that the sentence names; empty if it names none."""
        if not self.firing or (self.silent and self.rules_on):
            return ""
        return self.firing[0].url


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPage:
    """The page of one alert that has fired."""

    line: AlertLine
    #: The alert's deliveries, the oldest first.
    deliveries: Sequence[Delivery]


def read_alerts_page(query: AlertsQuery) -> AlertsPage:
    """Read the page in five queries."""
    now = timezone.now()
    alerts = query.narrow(Alert.objects.select_related(*_RELATED))
    firing = [
        AlertLine(alert, now)
        for alert in alerts.filter(state=Alert.State.FIRING).order_by("-fired_at")[:_FIRING_LIMIT]
    ]
    firing.sort(key=lambda line: line.level.rank)
    cleared = query.within(alerts.filter(state=Alert.State.CLEARED, fired_at__isnull=False), now)
    history = [AlertLine(alert, now) for alert in cleared[: PAGE_ALERTS + 1]]
    evaluated_at = instance_settings.read(EVALUATED_AT, None)
    return AlertsPage(
        wanted=query,
        now=now,
        firing=firing,
        history=history[:PAGE_ALERTS],
        more=len(history) > PAGE_ALERTS,
        rules_on=AlertRule.objects.filter(enabled=True, kind__in=KINDS).count(),
        evaluated_at=dt.datetime.fromisoformat(evaluated_at)
        if isinstance(evaluated_at, str)
        else None,
        sources=list(Source.objects.values_list("name", flat=True)),
    )


def find_line(alert_id: int) -> AlertLine | None:
    """Return the alert with this number, or None if there is none that has fired."""
    alert = (
        Alert.objects.select_related(*_RELATED).filter(pk=alert_id, fired_at__isnull=False).first()
    )
    return None if alert is None else AlertLine(alert, timezone.now())


def build_alert_page(line: AlertLine, fleet: Fleet) -> AlertPage:
    """Read the alert's deliveries; take the next step from its slot's present health."""
    if view := fleet.find_slot(line.what) or fleet.find_other(line.what):
        line = replace(line, next_step=view.health.next_step)
    deliveries = Delivery.objects.filter(alert=line.alert).select_related("webhook")
    return AlertPage(line=line, deliveries=list(deliveries.order_by("pk")[:_DELIVERIES_SHOWN]))

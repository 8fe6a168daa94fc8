"""What the address of the alerts page asks for: which of those that are over, and from where."""

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse

from replview.features.alerts.rules.kinds import KINDS
from replview.store.models import Alert
from replview.text.parsing import whole_number
from replview.ui.params import Params

#: Word in the address → what the page calls it, and how far back; None: all there is.
RANGES: dict[str, tuple[str, dt.timedelta | None]] = {
    "1h": ("1 h", dt.timedelta(hours=1)),
    "24h": ("24 h", dt.timedelta(hours=24)),
    "7d": ("7 d", dt.timedelta(days=7)),
    "30d": ("30 d", dt.timedelta(days=30)),
    "all": ("all", None),
}
_DEFAULT_RANGE = "7d"
_TEXT_LIMIT = 130


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for; anything else is as if not asked."""

    #: A rule's number.
    rule: int | None = None
    kind: str = ""
    source: str = ""
    #: ``source/slot``.
    slot: str = ""
    range: str = _DEFAULT_RANGE
    #: When the last alert shown before fired, and its number.
    after: tuple[str, int] | None = None

    @property
    def filtered(self) -> bool:
        """Whether anything narrows the list besides the time."""
        return bool(self.rule or self.kind or self.source or self.slot)

    def url(self, **changed: Any) -> str:
        """The page with some of it changed; from its beginning, unless told where."""
        asked = replace(self, **{"after": None, **changed})
        words = {
            "rule": str(asked.rule or ""),
            "kind": asked.kind,
            "source": asked.source,
            "slot": asked.slot,
            "range": asked.range if asked.range != _DEFAULT_RANGE else "",
            "after": f"{asked.after[0]}~{asked.after[1]}" if asked.after else "",
        }
        query = urlencode({name: word for name, word in words.items() if word}, safe="/:")
        return f"{reverse('alerts')}{'?' if query else ''}{query}"

    def narrow(self, alerts: QuerySet[Alert], now: dt.datetime) -> QuerySet[Alert]:
        """Those that are asked for, whatever their state and place."""
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
        """Of the asked time, from the asked place on, newest first."""
        _, length = RANGES[self.range]
        if length is not None:
            alerts = alerts.filter(fired_at__gte=now - length)
        if self.after is not None:
            at, number = dt.datetime.fromisoformat(self.after[0]), self.after[1]
            alerts = alerts.filter(fired_at__lte=at).filter(
                Q(fired_at__lt=at) | Q(fired_at=at, pk__lt=number)
            )
        return alerts.order_by("-fired_at", "-pk")


def wanted_of(request: HttpRequest) -> Wanted:
    """Read the address; whatever cannot be meant is left out."""
    asked = Params(request.GET)
    return Wanted(
        rule=asked.number("rule"),
        kind=asked.choice("kind", KINDS),
        source=asked.text("source", _TEXT_LIMIT),
        slot=asked.text("slot", _TEXT_LIMIT),
        range=asked.choice("range", RANGES, _DEFAULT_RANGE),
        after=_place(request.GET.get("after", "")),
    )


def _place(text: str) -> tuple[str, int] | None:
    at, _, number = text.partition("~")
    try:
        moment = dt.datetime.fromisoformat(at)
    except ValueError:
        return None
    found = whole_number(number)
    return None if moment.tzinfo is None or found is None else (moment.isoformat(), found)

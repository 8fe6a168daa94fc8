"""The *make trouble* page's cards: each trouble with its state, its alerts, its buttons."""

import datetime as dt
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from replview.features.trouble.text import WORDS, Words, links
from replview.store import demo_troubles as troubles
from replview.store.demo_troubles import State, Told
from replview.store.models import Alert
from replview.text.formats import age_words, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One trouble."""

    told: Told
    words: Words
    #: Word and address.
    links: list[tuple[str, str]]
    #: Those that fired since it began, the oldest first.
    alerts: list[Alert]
    now: dt.datetime

    @property
    def level(self) -> str:
        """Of ``health.states``: how it looks."""
        if self.told.state == State.OFF:
            return "idle"
        return "now" if self.alerts else "look"

    @property
    def state(self) -> str:
        """What it is now, with since when."""
        told = self.told
        if told.wanted and told.state == State.OFF:
            return "asked for"
        word = {State.OFF: "off", State.COMING: "coming", State.ON: "on", State.ENDING: "ending"}
        if told.state == State.OFF or told.since is None:
            return word[told.state]
        return f"{word[told.state]} for {age_words(self.now - told.since)}"

    @property
    def left(self) -> str:
        """Until it ends by itself; empty where it does not."""
        told = self.told
        if told.ends_at is None or not told.wanted or told.state not in (State.COMING, State.ON):
            return ""
        return age_words(max(told.ends_at - self.now, dt.timedelta(0)))


def build_page() -> dict[str, Any]:
    """What the templates need."""
    now = timezone.now()
    told = troubles.read()
    alerts = _alerts(told)
    cards = [
        Card(
            told=one,
            words=WORDS[one.name],
            links=links(WORDS[one.name]),
            alerts=alerts[one.name],
            now=now,
        )
        for one in told
    ]
    alive = troubles.maker_is_alive()
    return {"cards": cards, "alive": alive, "sentence": _sentence(cards, alive)}


def _sentence(cards: list[Card], alive: bool) -> dict[str, str]:
    on = [card for card in cards if card.told.state != State.OFF]
    if not alive:
        return {
            "level": "unknown",
            "title": "Nobody makes trouble now.",
            "cause": "The demo's process for it does not answer; its log is logs/trouble.log.",
        }
    if not on:
        return {
            "level": "idle",
            "title": "No trouble now.",
            "cause": "This is a demo: nobody minds what happens to the shop.",
            "next": "make some, and watch what replview says.",
        }
    firing = sum(len(card.alerts) for card in on)
    return {
        "level": "now" if firing else "look",
        "title": f"{plural(len(on), 'trouble')} now.",
        "cause": f"{plural(firing, 'alert')} firing." if firing else "No alert yet.",
    }


def _alerts(told: list[Told]) -> dict[str, list[Alert]]:
    """What fires of the kinds that see a trouble, since it began; nothing of one that is off."""
    on = [one for one in told if one.state != State.OFF and one.asked_at is not None]
    kinds = {kind for one in on for kind in WORDS[one.name].kinds}
    rows = (
        list(
            Alert.objects.filter(state=Alert.State.FIRING, rule__kind__in=kinds)
            .select_related("rule")
            .order_by("fired_at", "pk")
        )
        if on
        else []
    )
    found: dict[str, list[Alert]] = defaultdict(list)
    for one in on:
        for row in rows:
            began = one.asked_at if one.wanted else None
            recent = began is None or (row.fired_at is not None and row.fired_at >= began)
            if row.rule.kind in WORDS[one.name].kinds and recent:
                found[one.name].append(row)
    return found

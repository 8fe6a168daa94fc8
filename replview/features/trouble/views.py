"""Views of the demo's page *make trouble*, which answers 404 outside the demo."""

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from replview.access.page import GET, OPERATOR, POST, VIEWER, Nav, page
from replview.store import demo_troubles as troubles
from replview.store.demo_troubles import Reported, TroubleState
from replview.store.models import Alert
from replview.store.write.access_record import Action, note
from replview.text.formats import age_words, plural
from replview.ui.sentence import Sentence

#: The demo's own source and slot.
_SOURCE, _SLOT = "shop", "replview"

_SLOT_LINK = ("its slot", "slot", (_SOURCE, _SLOT))
_SLOTS_LINK = ("all slots", "slots", ())
_LAG_LINK = ("lag over time", "lag", ())
_ALERTS_LINK = ("alerts", "alerts", ())
_IN_FLIGHT_LINK = ("what is in flight", "in-flight", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleText:
    """The text about one kind of trouble."""

    title: str
    #: The effect, in two sentences at most.
    about: str
    #: The kinds of alert rule that detect it.
    kinds: Sequence[str]
    #: Pages that show it: label, URL name, URL arguments.
    look: Sequence[tuple[str, str, tuple[str, ...]]]
    #: The clause that follows *At the end:*.
    ends: str


TROUBLE_TEXTS: dict[str, TroubleText] = {
    "paused-receiver": TroubleText(
        title="Pause the receiver",
        about="The process that reads the slot is stopped by a signal. To the server it is still "
        "connected; its heartbeat stops, and the slot retains WAL.",
        kinds=("receiver_down",),
        look=(_SLOT_LINK, _LAG_LINK, _ALERTS_LINK),
        ends="it continues where it stopped: nothing is lost.",
    ),
    "prepared-transaction": TroubleText(
        title="Leave a prepared transaction",
        about="Two notes are prepared as trouble_forgotten, and never committed or rolled back. It "
        "holds WAL, locks and vacuum.",
        kinds=("prepared_age",),
        look=(_IN_FLIGHT_LINK, _SLOT_LINK, _ALERTS_LINK),
        ends="it is rolled back.",
    ),
    "long-transaction": TroubleText(
        title="Leave a transaction open",
        about="A session writes a note and then waits, idle in transaction. Every slot must keep "
        "WAL from its beginning on.",
        kinds=("long_transaction",),
        look=(_IN_FLIGHT_LINK, _SLOT_LINK, _ALERTS_LINK),
        ends="it is rolled back, its session closed.",
    ),
    "flood": TroubleText(
        title="Flood it",
        about="The whole price list is repriced, again and again, faster than it can be stored. "
        "The slot retains up to about 24 MB; at most 300 MB are written.",
        kinds=("retained_wal", "lag"),
        look=(_LAG_LINK, _SLOT_LINK, _ALERTS_LINK),
        ends="it ends when the receiver has caught up.",
    ),
    "idle-slot": TroubleText(
        title="Abandon a slot",
        about="A slot debezium_billing appears without a consumer, and retains 1.6 MB of WAL more "
        "every second.",
        kinds=("slot_inactive",),
        look=(_SLOTS_LINK, _LAG_LINK, _ALERTS_LINK),
        ends="it is dropped.",
    ),
    "lost-slot": TroubleText(
        title="Lose a slot",
        about="A slot debezium_orders is left behind until the server removes WAL that it still "
        "needs: its limit is set low for a moment. replview's own slot is never in danger.",
        kinds=("slot_lost",),
        look=(_SLOTS_LINK, _LAG_LINK, _ALERTS_LINK),
        ends="it is dropped, the limit is as before.",
    ),
    "schema-change": TroubleText(
        title="Change a table",
        about="The table receipts gets a column cashier: programs that read it downstream may "
        "not expect it.",
        kinds=("schema_change",),
        look=(("its relations", "relations", ()), _SLOT_LINK, _ALERTS_LINK),
        ends="the column is dropped, which is one more change. The alert ends ten minutes after "
        "the last change, or when somebody marks it as seen.",
    ),
    "poison-change": TroubleText(
        title="Write a row that cannot be stored",
        about="The store refuses one row of audit_notes. The receiver stops before it, and skips "
        "nothing: somebody must decide.",
        kinds=("poison_change",),
        look=(_SLOT_LINK, _LAG_LINK, _ALERTS_LINK),
        ends="the store accepts the row, and it is tried again.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A trouble with its state, its text and the alerts that it caused."""

    trouble: Reported
    words: TroubleText
    #: Alerts that fired since the trouble was requested, oldest first.
    alerts: list[Alert]
    now: dt.datetime

    @property
    def links(self) -> list[tuple[str, str]]:
        """Return label and address of each page that shows the trouble."""
        return [(label, reverse(name, args=args)) for label, name, args in self.words.look]

    @property
    def level(self) -> str:
        """Return the card's level: idle when off, now when an alert fires, else look."""
        if self.trouble.state == TroubleState.OFF:
            return "idle"
        return "now" if self.alerts else "look"

    @property
    def state(self) -> str:
        """Return the state in words, with its duration where that is known."""
        trouble = self.trouble
        if trouble.wanted and trouble.state == TroubleState.OFF:
            return "asked for"
        if trouble.state == TroubleState.OFF or trouble.since is None:
            return str(trouble.state)
        return f"{trouble.state} for {age_words(self.now - trouble.since)}"

    @property
    def left(self) -> str:
        """Return the time until the trouble ends by itself; empty if it does not."""
        trouble = self.trouble
        going = trouble.wanted and trouble.state in (TroubleState.COMING, TroubleState.ON)
        if trouble.ends_at is None or not going:
            return ""
        return age_words(max(trouble.ends_at - self.now, dt.timedelta(0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TroublePage:
    """The page of the troubles that the demo can make, one card each."""

    cards: tuple[Card, ...]
    #: True while the demo's process that makes trouble reports itself alive.
    alive: bool
    sentence: Sentence


def build_page() -> TroublePage:
    """Read the state of each trouble, with the alerts that it caused."""
    now = timezone.now()
    reports = troubles.read()
    alerts = _alerts_by_trouble(reports)
    cards = tuple(
        Card(trouble=report, words=TROUBLE_TEXTS[report.name], alerts=alerts[report.name], now=now)
        for report in reports
    )
    alive = troubles.maker_is_alive()
    return TroublePage(cards=cards, alive=alive, sentence=_sentence(cards, alive))


def _sentence(cards: Sequence[Card], alive: bool) -> Sentence:
    active = [card for card in cards if card.trouble.state != TroubleState.OFF]
    if not alive:
        return Sentence(
            level="unknown",
            title="Troubles are not available.",
            cause="The demo's process for troubles does not answer; its log is logs/trouble.log.",
        )
    if not active:
        return Sentence(
            level="idle",
            title="No trouble now.",
            cause="This is a demo: nothing here can be harmed.",
            next="start one, and watch what replview shows.",
        )
    firing = sum(len(card.alerts) for card in active)
    return Sentence(
        level="now" if firing else "look",
        title=f"{plural(len(active), 'trouble')} now.",
        cause=f"{plural(firing, 'alert')} firing." if firing else "No alert yet.",
    )


def _alerts_by_trouble(reports: list[Reported]) -> dict[str, list[Alert]]:
    """Return, per trouble that is on, the firing alerts of its kinds since it was requested."""
    active = [
        report
        for report in reports
        if report.state != TroubleState.OFF and report.asked_at is not None
    ]
    kinds = {kind for report in active for kind in TROUBLE_TEXTS[report.name].kinds}
    alerts = Alert.objects.filter(state=Alert.State.FIRING, rule__kind__in=kinds)
    alerts = alerts.select_related("rule").order_by("fired_at", "pk")
    alerts_by_trouble: dict[str, list[Alert]] = defaultdict(list)
    for report in active:
        for alert in alerts:
            requested_at = report.asked_at if report.wanted else None
            recent = requested_at is None or (
                alert.fired_at is not None and alert.fired_at >= requested_at
            )
            if alert.rule.kind in TROUBLE_TEXTS[report.name].kinds and recent:
                alerts_by_trouble[report.name].append(alert)
    return alerts_by_trouble


@page(GET, role=VIEWER, nav=Nav(group="Demo", label="Make trouble", icon="trouble"))
def trouble(request: HttpRequest) -> HttpResponse:
    """Show a card for each trouble; for htmx only the part that is refreshed."""
    _only_in_a_demo()
    htmx = request.headers.get("HX-Request") == "true"
    template = "trouble/now.html" if htmx else "trouble/trouble.html"
    return render(request, template, {"page": build_page()})


@page(POST, role=OPERATOR, of={"name": None, "action": None})
def ask(request: HttpRequest, name: str, action: str) -> HttpResponse:
    """Request the start or the end of a trouble."""
    _only_in_a_demo()
    if name not in troubles.NAMES or action not in ("start", "end"):
        raise Http404("there is no such trouble")
    troubles.request(name, action == "start", request.user.get_username())
    note(Action.CHANGED_SETTINGS, subject=f"trouble {name}: {action}")
    return redirect(f"{reverse('trouble')}#{name}")


def _only_in_a_demo() -> None:
    """Raise ``Http404`` outside the demo."""
    if not settings.DEMO:
        raise Http404("this is no demo")

"""What surrounds every page: navigation with counts, the scope, the scope's health."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from replview.access.allowed import role_for
from replview.access.rights import Role, role_of
from replview.access.rights import may as may_role
from replview.health.fleet import Fleet, SlotView, read_fleet
from replview.health.lost_words import lost_short
from replview.health.states import Level
from replview.health.watched import OtherView
from replview.text.addresses import in_flight_url, of_slot, slot_page_url, stream_url
from replview.text.formats import bytes_words, rate_words

#: Word, name of its address, icon, name of its count; in groups.
NAVIGATION = (
    (
        "Watch",
        False,
        (
            ("Overview", "overview", "overview", ""),
            ("Live", "live", "live", ""),
            ("In flight", "in-flight", "flight", "open"),
        ),
    ),
    (
        "Browse",
        False,
        (
            ("Transactions", "transactions", "transactions", ""),
            ("Row history", "row-history", "rows", ""),
            ("Relations", "relations", "relations", ""),
            ("Actors", "actors", "actor", ""),
            ("Find", "find", "find", ""),
        ),
    ),
    (
        "Health",
        False,
        (
            ("Slots", "slots", "slot", "slots"),
            ("Lag", "lag", "lag", ""),
            ("Alerts", "alerts", "alerts", "alerts"),
        ),
    ),
    (
        "Take out",
        False,
        (
            ("Exports", "exports", "export", ""),
            ("History jobs", "history-jobs", "history", ""),
        ),
    ),
    (
        "",
        True,
        (
            ("Sources", "sources", "source", "sources"),
            ("Store", "store", "record", ""),
            ("Privacy", "masks", "eye", ""),
            ("Accounts", "accounts", "actor", ""),
        ),
    ),
)
#: And in a demo.
DEMO_NAVIGATION = (("Demo", False, (("Make trouble", "trouble", "trouble", ""),)),)
#: What a phone shows at the bottom; the rest is behind *More*.
TABS = ("overview", "live", "in-flight", "transactions")
#: Pages of the record: always of one slot, which stays from one of them to the next.
OF_ONE_SLOT = (
    "live",
    "transactions",
    "row-history",
    "relations",
    "actors",
    "find",
    "lag",
    "exports",
)
#: Pages that are a part of an entry's, by the names of their addresses.
PARTS = {
    "account": "accounts",
    "in-flight-ended": "in-flight",
    "transaction": "transactions",
    "relation": "relations",
    "actor": "actors",
    "slot": "slots",
    "baselines": "slots",
    "slot-keeping": "slots",
    "access-record": "masks",
    "source-slots": "sources",
    "source": "sources",
    "source-publications": "sources",
    "source-credentials": "sources",
    "source-move": "sources",
    "source-rename": "sources",
    "source-remove": "sources",
    "managed": "sources",
    "slot-start": "slots",
    "slot-stop": "slots",
    "slot-tables": "slots",
    "slot-columns": "slots",
    "slot-adopt": "slots",
    "slot-drop": "slots",
    "source-doctor": "sources",
    "source-new": "sources",
    "source-new-kind": "sources",
    "draft-connection": "sources",
    "draft-check": "sources",
    "draft-tables": "sources",
    "draft-columns": "sources",
    "draft-options": "sources",
    "draft-review": "sources",
    "draft-progress": "sources",
    "alert": "alerts",
    "alert-rules": "alerts",
    "alert-rule": "alerts",
    "alert-rule-new": "alerts",
    "webhooks": "alerts",
    "peek-ask": "sources",
    "peek": "sources",
    "export": "exports",
    "exports-all": "exports",
    "export-new": "exports",
    "erase": "masks",
    "erasure": "masks",
    "history-job": "history-jobs",
    "history-jobs-all": "history-jobs",
    "history-job-new": "history-jobs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An entry of the navigation."""

    word: str
    name: str
    url: str
    icon: str
    current: bool
    count: int | None
    count_of: str
    danger: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of the scope selector."""

    word: str
    url: str
    current: bool = False
    level: Level | None = None
    within: bool = False


def fleet_of(request: HttpRequest) -> Fleet:
    """The fleet as of this request, read once however many parts of the page ask."""
    fleet: Fleet | None = getattr(request, "replview_fleet", None)
    if fleet is None:
        fleet = read_fleet()
        request.replview_fleet = fleet  # type: ignore[attr-defined]
    return fleet


def shell(request: HttpRequest) -> dict[str, Any]:
    """The context processor; nothing is read for pages before the login."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"shell": None}
    may = {"operate": may_role(user, Role.OPERATOR), "administer": may_role(user, Role.ADMIN)}
    return {"shell": SimpleLazyObject(lambda: build_shell(request)), "may": may}


def build_shell(request: HttpRequest) -> dict[str, Any]:
    """Navigation, tabs, scope and health, for the templates in ``shell/``."""
    fleet, asked = fleet_of(request), request.GET.get("slot", "")
    role = role_of(request.user)

    def may_open(name: str) -> bool:
        needed = role_for(name, "GET")
        return isinstance(needed, Role) and role is not None and role >= needed

    slot = fleet.find_slot(asked)
    other = fleet.find_other(asked) if slot is None and asked else None
    counts = _counts(fleet)
    groups: list[dict[str, Any]] = [
        {
            "title": title,
            "apart": apart,
            "pages": [_page(request, counts, slot, *page) for page in pages if may_open(page[1])],
        }
        for title, apart, pages in NAVIGATION + (DEMO_NAVIGATION if settings.DEMO else ())
    ]
    groups = [group for group in groups if group["pages"]]
    pages = [page for group in groups for page in group["pages"]]
    return {
        "navigation": groups,
        "demo": settings.DEMO,
        "pages": pages,
        "tabs": [page for page in pages if page.name in TABS],
        "more": [page for page in pages if page.name not in TABS],
        # An address for each of a thousand slots: what is asked every few seconds shows none.
        "scope": SimpleLazyObject(lambda: _scope(request, fleet, slot, other)),
        "health": _health(fleet, slot, other),
        "checked_at": _checked_at(fleet, slot, other),
    }


#: How many, of what, and whether that is bad; by the name of the count.
_Counts = dict[str, tuple[int | None, str, bool]]


def _counts(fleet: Fleet) -> _Counts:
    bad = sum(1 for view in (*fleet.slots, *fleet.others) if view.level == Level.NOW)
    return {
        "open": (fleet.open or None, "open transactions", False),
        "slots": (bad or None, "need you now", True),
        "sources": (len(fleet.sources) or None, "in all", False),
        "alerts": (fleet.alerts.firing or None, "firing", fleet.alerts.now > 0),
    }


def _page(
    request: HttpRequest,
    counts: _Counts,
    slot: SlotView | None,
    word: str,
    name: str,
    icon: str,
    count_name: str,
) -> Page:
    count, count_of, danger = counts.get(count_name, (None, "", False))
    match = request.resolver_match
    return Page(
        word=word,
        name=name,
        url=of_slot(name, slot.slot) if slot and name in OF_ONE_SLOT else reverse(name),
        icon=icon,
        current=match is not None and PARTS.get(match.url_name or "", match.url_name) == name,
        count=count,
        count_of=count_of,
        danger=danger,
    )


def _scope(
    request: HttpRequest, fleet: Fleet, slot: SlotView | None, other: OtherView | None
) -> dict[str, Any]:
    """All sources stay on their page; a source leads to its block, a slot to its stream, or from
    a page of one slot to the same of another.
    """
    match = request.resolver_match
    name = match.url_name if match else None
    slot_url = slot_page_url if name in ("slots", "slot", "baselines") else stream_url
    here = PARTS.get(name or "", name or "")
    here = here if here in ("sources", "slots", "in-flight") else "overview"
    if here == "in-flight":
        slot_url = in_flight_url
    page = PARTS.get(name or "", name or "")
    if page in OF_ONE_SLOT:
        slot_url = partial(of_slot, page)
    shown = slot or other
    entries = [Entry(word="All sources", url=reverse(here), current=shown is None)]
    for source in sorted(fleet.sources, key=lambda view: view.source.name):
        entries.append(
            Entry(
                word=source.source.name,
                url=f"{reverse('sources')}#source-{source.source.pk}",
                level=source.level,
            )
        )
        for view in sorted(source.slots, key=lambda view: view.slot.name):
            entries.append(
                Entry(
                    word=view.slot.name,
                    url=slot_url(view.slot),
                    level=view.level,
                    within=True,
                    current=view is slot,
                )
            )
        if other is not None and other in source.others:
            entries.append(
                Entry(word=other.name, url=other.url, level=other.level, within=True, current=True)
            )
    name = shown.full_name if shown else ""
    return {
        "label": name or "All sources",
        "source": name.partition("/")[0],
        "slot": name.partition("/")[2],
        "entries": entries,
        "query": urlencode({"slot": name}, safe="/") if shown else "",
    }


def _health(fleet: Fleet, slot: SlotView | None, other: OtherView | None) -> dict[str, Any] | None:
    if other is not None:
        retained = other.retained_wal_bytes
        known = "" if other.lost else "retained WAL unknown"
        return {
            "level": other.level,
            "title": other.health.title,
            "cause": other.health.cause,
            "next": other.health.next_step,
            "word": lost_short(other.lost) if other.lost else other.level.word,
            "rest": known if retained is None else f"{bytes_words(retained)} retained",
        }
    if slot is not None:
        rate = slot.transactions_per_second
        return {
            "level": slot.level,
            "title": slot.health.title,
            "cause": slot.health.cause,
            "next": slot.health.next_step,
            "word": lost_short(slot.lost) if slot.lost else slot.level.word,
            "rest": "rate unknown" if rate is None else rate_words(rate),
            "lsn": slot.slot.checkpoint_lsn,
        }
    worst = fleet.worst
    if worst is None:
        return None
    word, _, rest = fleet.summary().partition(" · ")
    return {"level": worst.level, "word": word, "rest": rest}


def _checked_at(fleet: Fleet, slot: SlotView | None, other: OtherView | None) -> datetime | None:
    if other is not None:
        return other.server.seen_at
    if slot is None:
        return fleet.checked_at
    signs = (slot.slot.heartbeat_at, slot.reading.sampled_at)
    return max((sign for sign in signs if sign), default=None)

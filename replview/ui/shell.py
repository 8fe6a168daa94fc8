"""Build the parts around every page: navigation with counts, the scope, and its health."""

from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlencode

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from replview.access.page import Nav, navigation, page_named, page_of
from replview.access.rights import Role, role_of
from replview.access.rights import may as may_role
from replview.health.findings_wal import lost_short
from replview.health.fleet import Fleet, SlotView, read_fleet
from replview.health.states import Level
from replview.health.watched import OtherView
from replview.text.addresses import in_flight_url, of_slot, slot_page_url, stream_url
from replview.text.formats import bytes_words, rate_words
from replview.ui.params import scope_to
from replview.ui.shell_parts import NavGroup, PageLink, ScopeHealth, Shell

#: Groups of the navigation; the group without a title stands apart.
GROUPS = ("Watch", "Browse", "Health", "Export", "")
#: Groups of the navigation in a demo.
DEMO_GROUPS = (*GROUPS, "Demo")

#: Name of a count → the number, what is counted, and whether that is bad.
_Counts = dict[str, tuple[int | None, str, bool]]


def fleet_of(request: HttpRequest) -> Fleet:
    """Return the fleet at the time of this request, read once for all parts of the page."""
    fleet: Fleet | None = getattr(request, "replview_fleet", None)
    if fleet is None:
        fleet = read_fleet()
        request.replview_fleet = fleet  # type: ignore[attr-defined]
    return fleet


def slot_view_of(request: HttpRequest) -> SlotView | None:
    """Return the view of the slot that ``params.slot_of`` returns, taken from the fleet."""
    fleet, name = fleet_of(request), request.GET.get("slot", "")
    if name:
        view = fleet.find_slot(name)
        if view is None:
            raise Http404(f"there is no slot {name!r}")
        return view
    # Without a name take the slot with the latest heartbeat.
    never = datetime.min.replace(tzinfo=UTC)
    view = max(
        fleet.slots,
        key=lambda candidate: (candidate.slot.heartbeat_at or never, -candidate.slot.pk),
        default=None,
    )
    if view is not None:
        scope_to(request, view.slot)
    return view


def no_slot(
    request: HttpRequest,
    title: str,
    idle: str,
    why: str,
    *,
    cause: str = "No slots yet.",
    next: str = "add a source and a slot.",
    run: str = "replview source add shop postgresql://user@host/database",
) -> HttpResponse:
    """Show what a page of one slot would show, and how to begin, where there is no slot."""
    page = {"title": title, "idle": idle, "why": why, "cause": cause, "next": next, "run": run}
    return render(request, "ui/no_slot.html", page)


def no_record(request: HttpRequest, title: str, idle: str, does: str) -> HttpResponse:
    """Show a page of the record without slots; ``does``: ``lists every stored transaction``."""
    why = (f"This page {does}. Add a source and a slot to begin a record; the command shows first "
           "what it will do on the server.")  # fmt: skip
    return no_slot(request, title, idle, why, cause="There is no slot, so nothing is recorded.")


def shell(request: HttpRequest) -> dict[str, object]:
    """Return the template context, lazily; before the login nothing is read."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"shell": None}
    may = {"operate": may_role(user, Role.OPERATOR), "administer": may_role(user, Role.ADMIN)}
    return {"shell": SimpleLazyObject(lambda: build_shell(request)), "may": may}


def build_shell(request: HttpRequest) -> Shell:
    """Return navigation, tabs, scope and health, for the templates in ``shell/``."""
    fleet, slot_name = fleet_of(request), request.GET.get("slot", "")
    role = role_of(request.user)

    def may_open(name: str) -> bool:
        page = page_named(name)
        needed = page.role if page is not None else None
        return isinstance(needed, Role) and role is not None and role >= needed

    slot = fleet.find_slot(slot_name)
    other = fleet.find_other(slot_name) if slot is None and slot_name else None
    counts = _counts(fleet)
    entries = list(navigation())
    tabs = {name for name, nav in entries if nav.tab}
    groups = [
        NavGroup(
            title=title,
            pages=[
                _page_link(request, counts, slot, name, nav)
                for name, nav in entries
                if nav.group == title and may_open(name)
            ],
        )
        for title in (DEMO_GROUPS if settings.DEMO else GROUPS)
    ]
    groups = [group for group in groups if group.pages]
    pages = [page for group in groups for page in group.pages]
    return Shell(
        navigation=groups,
        demo=settings.DEMO,
        pages=pages,
        tabs=[page for page in pages if page.name in tabs],
        more=[page for page in pages if page.name not in tabs],
        # Build the entries only if used: there may be a thousand, and polled parts show none.
        scope=SimpleLazyObject(lambda: _scope(request, fleet, slot, other)),
        health=_health(fleet, slot, other),
        checked_at=_checked_at(fleet, slot, other),
    )


def _counts(fleet: Fleet) -> _Counts:
    levels = [slot.level for slot in fleet.slots] + [other.level for other in fleet.others]
    bad = levels.count(Level.NOW)
    return {
        "open": (fleet.open or None, "open transactions", False),
        "slots": (bad or None, "need you now", True),
        "sources": (len(fleet.sources) or None, "in all", False),
        "alerts": (fleet.alerts.firing or None, "firing", fleet.alerts.now > 0),
    }


def _page_link(
    request: HttpRequest, counts: _Counts, slot: SlotView | None, name: str, nav: Nav
) -> PageLink:
    count, count_of, danger = counts.get(nav.count, (None, "", False))
    return PageLink(
        word=nav.label,
        name=name,
        url=of_slot(name, slot.slot) if slot and nav.one_slot else reverse(name),
        icon=nav.icon,
        current=_entry_of(request) == name,
        count=count,
        count_of=count_of,
        danger=danger,
    )


def _entry_of(request: HttpRequest) -> str:
    """Return the navigation entry of the page, by the name of its address; may be empty."""
    match = request.resolver_match
    page = page_of(match.func) if match is not None else None
    if match is None or page is None:
        return ""
    return (page.nav if isinstance(page.nav, str) else "") or match.url_name or ""


def _scope(
    request: HttpRequest, fleet: Fleet, slot: SlotView | None, other: OtherView | None
) -> dict[str, object]:
    """Return the scope's label and choices: all sources, each source, and its slots."""
    match = request.resolver_match
    name = match.url_name if match else None
    # A slot leads to its live page, or from a page of one slot to the same page of the other.
    slot_url = slot_page_url if name in ("slots", "slot", "baselines") else stream_url
    entry = _entry_of(request)
    page_name = entry if entry in ("sources", "slots", "in-flight") else "overview"
    if page_name == "in-flight":
        slot_url = in_flight_url
    page = page_named(entry)
    if page is not None and isinstance(page.nav, Nav) and page.nav.one_slot:
        slot_url = partial(of_slot, entry)
    shown = slot or other
    entries: list[dict[str, object]] = [
        {"word": "All sources", "url": reverse(page_name), "current": shown is None}
    ]
    for source in sorted(fleet.sources, key=lambda view: view.source.name):
        url = f"{reverse('sources')}#source-{source.source.pk}"
        entries.append({"word": source.source.name, "url": url, "level": source.level})
        own_views = sorted(source.slots, key=lambda view: view.slot.name)
        within: list[tuple[SlotView | OtherView, str]]
        within = [(view, slot_url(view.slot)) for view in own_views]
        within += [(other, other.url)] if other is not None and other in source.others else []
        entries += [
            {"word": view.name, "url": url, "level": view.level, "within": True,
             "current": view is shown}
            for view, url in within
        ]  # fmt: skip
    name = shown.full_name if shown else ""
    return {
        "label": name or "All sources",
        "source": name.partition("/")[0],
        "slot": name.partition("/")[2],
        "entries": entries,
        "query": urlencode({"slot": name}, safe="/") if shown else "",
    }


def _health(fleet: Fleet, slot: SlotView | None, other: OtherView | None) -> ScopeHealth | None:
    detail, lsn = "", None
    if other is not None:
        retained = other.retained_wal_bytes
        unknown_text = "" if other.lost else "retained WAL unknown"
        detail = unknown_text if retained is None else f"{bytes_words(retained)} retained"
    elif slot is not None:
        rate = slot.transactions_per_second
        detail = "measuring rate" if rate is None else rate_words(rate)
        lsn = slot.slot.checkpoint_lsn
    if (view := other or slot) is not None:
        return ScopeHealth(
            level=view.level,
            word=lost_short(view.lost) if view.lost else view.level.word,
            rest=detail,
            lsn=lsn,
            title=view.health.title,
            cause=view.health.cause,
            next=view.health.next_step,
        )
    worst = fleet.worst
    if worst is None:
        return None
    word, _, others = fleet.summary().partition(" · ")
    return ScopeHealth(level=worst.level, word=word, rest=others)


def _checked_at(fleet: Fleet, slot: SlotView | None, other: OtherView | None) -> datetime | None:
    if other is not None:
        return other.server.seen_at
    if slot is None:
        return fleet.checked_at
    times = (slot.slot.heartbeat_at, slot.reading.sampled_at)
    return max((time for time in times if time), default=None)

"""Build the list of all slots of all sources, narrowed by the query parameters."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from replview.health.failover_steps import WAITS_FOR_NONE
from replview.health.findings_wal import lost_short
from replview.health.findings_watched import forgotten
from replview.health.fleet import Fleet, SlotView
from replview.health.queries import SlotRates
from replview.health.slot_steps import drop_statement
from replview.health.states import Level, urgency
from replview.health.subscriptions import SubscriptionView, read_subscriptions
from replview.health.watched import OtherView, other_view
from replview.store.failover_readiness import read_failover_settings, waits_for_none
from replview.store.models import Source, WatchedSlot
from replview.text.formats import plural

#: Label of each choice of owner, by query parameter.
WHOSE = {
    "": "any",
    "ours": "replview",
    "others": "others",
    "nobody": "unused",
    "gone": "gone",
}
#: Most rows; the worst come first, and the list can be narrowed to a source.
ROWS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsFilter:
    """The query parameters of the list; invalid values are left out."""

    source: str = ""
    state: str = ""
    whose: str = ""

    @property
    def narrowed(self) -> bool:
        """Return whether a filter is set."""
        return bool(self.source or self.state or self.whose)

    @property
    def query(self) -> str:
        """Return the query string, such as ``?source=shop&state=now``; empty without a filter."""
        pairs = {"source": self.source, "state": self.state, "whose": self.whose}
        query = urlencode({name: value for name, value in pairs.items() if value})
        return f"?{query}" if query else ""

    @property
    def whose_word(self) -> str:
        """Return the label of the chosen owner."""
        return WHOSE[self.whose]

    def states(self) -> Iterator[tuple[str, str, bool]]:
        """Yield level, query string and selected state of each choice of level."""
        for level in ("", *Level):
            yield level, replace(self, state=level).query, self.state == level

    def owners(self) -> Iterator[tuple[str, str, bool]]:
        """Yield label, query string and selected state of each choice of owner."""
        for value, label in WHOSE.items():
            yield label, replace(self, whose=value).query, self.whose == value


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotListRow:
    """A slot as a row of the list."""

    view: SlotView | OtherView
    ours: bool
    source: Source
    #: Type and plugin, such as ``logical, pgoutput``.
    kind: str
    #: Reason of a loss in short, such as ``lost: wal_removed``, shown instead of numbers.
    lost: str
    behind_bytes: int | None
    transactions_per_second: float | None
    #: True when the slot reserves no WAL yet, which is neither zero nor unknown.
    reserves_none: bool

    @property
    def key(self) -> str:
        """Return the row's HTML id; other slots get a prefix, since their ids may coincide."""
        if isinstance(self.view, SlotView):
            return str(self.view.slot.pk)
        return f"w{self.view.watched_id}"


@dataclass(slots=True, kw_only=True)
class SlotsPage:
    """The list of slots."""

    filters: SlotsFilter
    sources: list[tuple[str, str, bool]]
    rows: list[SlotListRow] = field(default_factory=list)
    more: int = 0
    #: ``{"row", "run"}``: slots that seem unused, each with the statement that drops it.
    unneeded: list[dict[str, object]] = field(default_factory=list)
    subscriptions: list[SubscriptionView] = field(default_factory=list)
    #: Primaries with failover slots whose walsenders wait for no standby, and the warning.
    warnings: list[tuple[Source, str]] = field(default_factory=list)
    #: Number of all slots, whatever the filter.
    total: int = 0
    summary: str = ""
    level: str = "idle"


def read_filter(params: Mapping[str, str], fleet: Fleet) -> SlotsFilter:
    """Read the query parameters."""
    names = {view.source.name for view in fleet.sources}
    source, state, whose = (params.get(name, "") for name in ("source", "state", "whose"))
    return SlotsFilter(
        source=source if source in names else "",
        state=state if state in set(Level) else "",
        whose=whose if whose in WHOSE else "",
    )


def read_page(fleet: Fleet, params: Mapping[str, str]) -> SlotsPage:
    """Build the list that the query parameters ask for, with warnings about failover."""
    settings = read_failover_settings(view.source.pk for view in fleet.sources)
    waits = {pk: waits_for_none(facts) for pk, facts in settings.items()}
    return build_page(fleet, read_filter(params, fleet), waits)


def build_page(
    fleet: Fleet, filters: SlotsFilter, waits_for_none: Mapping[int, bool | None]
) -> SlotsPage:
    """Build the rows, worst first, with what belongs to them."""
    sources = {view.source.pk: view.source for view in fleet.sources}
    all_rows = sorted(
        (*_received_rows(fleet), *(_watched_row(view, fleet) for view in fleet.others)),
        key=lambda row: (urgency(row.view.health), not row.ours, row.source.name, row.view.name),
    )
    names = ("", *sorted(source.name for source in sources.values()))
    menu = [(name, replace(filters, source=name).query, filters.source == name) for name in names]
    page = SlotsPage(filters=filters, sources=menu, total=len(all_rows))
    page.level = all_rows[0].view.level if all_rows else "idle"
    page.summary = _summary(all_rows)
    candidates = list(_gone_rows(sources, fleet)) if filters.whose == "gone" else all_rows
    rows = [row for row in candidates if _matches_filter(row, filters, fleet)]
    page.rows, page.more = rows[:ROWS], max(len(rows) - ROWS, 0)
    page.unneeded = [
        {"row": row, "run": drop_statement(row.view.server)}
        for row in rows
        if isinstance(row.view, OtherView) and forgotten(row.view.server, fleet.now)
    ][:ROWS]
    chosen_sources = {
        pk: source for pk, source in sources.items() if filters.source in ("", source.name)
    }
    page.subscriptions = read_subscriptions(chosen_sources, fleet.now, fleet.stale_after)
    servers = [row.view.server for row in rows if row.view.server is not None]
    failover = {server.source.pk for server in servers if server.facts.get("failover") is True}
    page.warnings = [
        (source, WAITS_FOR_NONE)
        for pk, source in chosen_sources.items()
        if pk in failover and waits_for_none.get(pk) and not source.in_recovery
    ]
    return page


def _received_rows(fleet: Fleet) -> Iterator[SlotListRow]:
    for view in fleet.slots:
        server = view.server
        position_known = view.present_known and server is not None
        yield SlotListRow(
            view=view,
            ours=True,
            source=view.slot.source,
            kind=f"logical, {view.slot.plugin}",
            lost=lost_short(view.lost) if view.lost else "",
            behind_bytes=server.behind_bytes if position_known and server is not None else None,
            transactions_per_second=view.transactions_per_second,
            reserves_none=False,
        )


def _watched_row(view: OtherView, fleet: Fleet) -> SlotListRow:
    server = view.server
    return SlotListRow(
        view=view,
        ours=False,
        source=server.source,
        kind="physical" if server.physical else f"logical, {server.plugin or 'unknown'}",
        lost=lost_short(view.lost) if view.lost else "",
        behind_bytes=server.behind_bytes if server.fresh(fleet.now) else None,
        transactions_per_second=None,
        reserves_none=server.fresh(fleet.now) and not server.lost and server.reserves_none,
    )


def _gone_rows(sources: Mapping[int, Source], fleet: Fleet) -> Iterator[SlotListRow]:
    """Yield other slots that were dropped, latest first."""
    gone_slots = WatchedSlot.objects.filter(slot=None, gone_at__isnull=False).order_by("-gone_at")
    for row in gone_slots[:ROWS]:
        row.source = sources[row.source_id]
        yield _watched_row(other_view(row, SlotRates(), fleet.now, fleet.causes), fleet)


def _matches_filter(row: SlotListRow, filters: SlotsFilter, fleet: Fleet) -> bool:
    server = row.view.server
    unread = server is not None and server.active is False and not server.synced
    return (
        filters.source in ("", row.source.name)
        and filters.state in ("", row.view.level)
        and {"ours": row.ours, "others": not row.ours, "nobody": unread}.get(filters.whose, True)
    )


def _summary(rows: list[SlotListRow]) -> str:
    """Return the count by level: ``1 needs you now, 8 caught up; 3 slots only monitored.``."""
    counts = Counter(row.view.level for row in rows)
    parts = ", ".join(_count_words(counts[level], level) for level in Level if counts[level])
    others = sum(1 for row in rows if not row.ours)
    watched = f"; {plural(others, 'slot')} only monitored" if others else ""
    return f"{parts}{watched}."


def _count_words(number: int, level: Level) -> str:
    """Return a number with the level's words: ``1 needs a look``, ``2 need a look``."""
    word = level.word
    return f"{number} {word if number == 1 else word.replace('needs', 'need')}"

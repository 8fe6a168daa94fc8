"""Build the overview: what must be done, figures, sources, transactions and recent events."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.core.cache import cache
from django.db.models import F
from django.urls import reverse

from replview.access.visibility import reading_session
from replview.features.overview.charts import OverviewCharts, charts_of
from replview.health.fleet import Fleet, SourceView
from replview.health.open_transactions import OpenRow
from replview.health.queries import OPEN_STATES, AlertCounts, read_history, read_window
from replview.health.states import Level
from replview.store.models import SlotEvent, SourceLook, Transaction
from replview.store.read import history
from replview.store.same_server import server_of
from replview.text.formats import (
    age_words,
    bytes_words,
    count_words,
    plural,
    rate_words,
    short_words,
)
from replview.ui.changes.transaction_lines import TransactionLine, transaction_lines
from replview.ui.charts.sparkline import Sparkline, sparkline
from replview.ui.sentence import Sentence

BUCKETS = 60
ROWS_BELOW = 8
#: Number of the newest transactions, and most slots that they are read of.
NEWEST_ROWS = 8
#: Seconds for which history is cached; newer points would be narrower than a pixel.
DRAWN_FOR_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A labelled number in words (None when unknown), with a remark beside it."""

    label: str
    number: str | None
    rest: str = ""
    main: bool = False
    danger: bool = False


def figures(fleet: Fleet) -> list[Figure]:
    """Return the figures at the top of the overview."""
    return [
        _loss_figure(fleet),
        _retained_figure(fleet),
        _rate_figure(fleet),
        _delay_figure(fleet),
        _stored_figure(fleet),
    ]


def _loss_figure(fleet: Fleet) -> Figure:
    losses = [
        view.health.loss_seconds
        for view in fleet.views
        if view.health.loss_seconds is not None and view.level in (Level.NOW, Level.LOOK)
    ]
    label = "Shortest time to loss"
    if losses:
        danger = any(view.level == Level.NOW for view in fleet.views)
        return Figure(label=label, number=age_words(min(losses)), main=True, danger=danger)
    if any(view.lost for view in fleet.views):
        return Figure(label=label, number="lost", main=True, danger=True)
    present = any(view.present_known for view in fleet.views)
    return Figure(label=label, number="none at risk" if present else None, main=True)


def _retained_figure(fleet: Fleet) -> Figure:
    by_server: dict[Hashable, float | None] = {}
    sources = [view.source for view in fleet.sources]
    share_a_server = len({source.system_identifier for source in sources}) < len(sources)
    looks = SourceLook.objects.in_bulk() if share_a_server else {}
    for view in fleet.sources:
        # Sources of one server share its WAL.
        server = server_of(view.source, looks) or view.source.pk
        size, largest = (
            view.retained_wal_bytes if view.present_known else None,
            by_server.get(server),
        )
        by_server[server] = size if largest is None else max(largest, size or 0)
    return _sum_figure("Retained WAL", list(by_server.values()), bytes_words)


def _rate_figure(fleet: Fleet) -> Figure:
    rates = [source.transactions_per_second for source in fleet.sources]
    return _sum_figure("Commits", rates, rate_words)


def _sum_figure(
    label: str, values: Sequence[float | None], format_value: Callable[[float], str]
) -> Figure:
    """Sum the known values of the sources; say how many are known when some are not."""
    known_values = [value for value in values if value is not None]
    total = len(values)
    rest = "" if len(known_values) == total else f"{len(known_values)} of {plural(total, 'source')}"
    return Figure(
        label=label, number=format_value(sum(known_values)) if known_values else None, rest=rest
    )


def _delay_figure(fleet: Fleet) -> Figure:
    """Return the delay of the busiest streaming slot; an average over slots would hide it."""
    streaming = [view.reading for view in fleet.slots if view.level == Level.OK]
    measured = [reading for reading in streaming if reading.stored_after_p50_us is not None]
    busiest = max(measured, key=lambda reading: reading.transactions_per_second or 0, default=None)
    label = "Commit to stored"
    if busiest is None or busiest.stored_after_p50_us is None:
        return Figure(label=label, number=None)
    p99 = short_words(busiest.stored_after_p99_us or busiest.stored_after_p50_us)
    return Figure(label=label, number=short_words(busiest.stored_after_p50_us), rest=f"p99 {p99}")


def _stored_figure(fleet: Fleet) -> Figure:
    changes = sum(view.slot.changes for view in fleet.slots)
    slots = [view.slot.pk for view in fleet.slots]
    day = fleet.now - timedelta(days=1)
    gaps = SlotEvent.objects.filter(slot__in=slots, at__gt=day, kind="gap").count()
    return Figure(
        label="Stored",
        number=count_words(changes),
        rest=f"{'change' if changes == 1 else 'changes'}, {plural(gaps, 'gap')} in 24 h",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewPage:
    """The overview: the state of all sources, charts, transactions and recent events."""

    fleet: Fleet
    #: The headline: what must be done, and where.
    sentence: Sentence
    #: Address and label of the headline's button; empty when nothing must be done.
    action_url: str
    action_label: str
    figures: list[Figure]
    #: The sources, worst first, each with a sparkline of the WAL that its slots retain.
    rows: list[tuple[SourceView, Sparkline]]
    #: The time that the sparklines cover, in words.
    window: str
    #: Charts of the first sources.
    charts: OverviewCharts
    #: The newest transactions of all slots, the newest first.
    newest: list[TransactionLine]
    #: The oldest open transactions, the oldest first.
    open_rows: list[OpenRow]
    #: The newest slot events of the last week.
    events: list[SlotEvent]
    #: Number of slot events in the last day.
    events_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRunPage:
    """The overview while there is no source."""

    #: True when this account may add a source.
    may_add: bool


def build_overview_page(fleet: Fleet) -> OverviewPage:
    """Build the overview of a fleet that has at least one source."""
    action_url, action_label = _headline_button(fleet)
    events, events_total = _events(fleet)
    rows, window = _sparkline_rows(fleet)
    return OverviewPage(
        fleet=fleet,
        sentence=_sentence(fleet),
        action_url=action_url,
        action_label=action_label,
        figures=figures(fleet),
        rows=rows,
        window=age_words(window),
        charts=charts_of(fleet.sources, window),
        newest=_newest_lines(fleet),
        open_rows=_open_rows(fleet),
        events=events,
        events_total=events_total,
    )


def _sentence(fleet: Fleet) -> Sentence:
    """Return the headline: whether something must be done, and why."""
    worst, total = fleet.sources[0], len(fleet.sources)
    affected = sum(1 for source in fleet.sources if source.level == worst.level)
    share = f"{affected} of {plural(total, 'source')}"
    verb = "needs" if affected == 1 else "need"
    cause = f"{worst.source.name}: {worst.health.title}"
    match worst.level:
        case Level.NOW:
            title = f"{share} {verb} you now."
        case Level.LOOK:
            title = f"{share} {verb} a look."
        case Level.UNKNOWN:
            title = f"{share} {'is' if affected == 1 else 'are'} unknown."
        case _:
            return _healthy_sentence(fleet)
    return Sentence(level=worst.level, title=title, cause=cause, next=worst.health.next_step)


def _healthy_sentence(fleet: Fleet) -> Sentence:
    """Return the sentence for sources that are all caught up or idle."""
    worst, total = fleet.sources[0], len(fleet.sources)
    idle = sum(1 for source in fleet.sources if source.level == Level.IDLE)
    state = "is caught up" if total == 1 else "are caught up"
    cause = f"{idle} of {total} idle." if idle else ""
    if idle == total:
        state = "is idle" if total == 1 else "are idle"
        cause = worst.health.title if total == 1 else ""
    subject = worst.source.name if total == 1 else f"All {total} sources"
    if fleet.alerts.firing:
        return _alerts_sentence(fleet.alerts, f"{subject} {state}. {cause}".strip())
    return Sentence(
        level=worst.level, title=f"{subject} {state}.", cause=f"{cause} Nothing to do.".strip()
    )


def _alerts_sentence(alerts: AlertCounts, cause: str) -> Sentence:
    """Return the headline for healthy sources with firing alerts, such as a schema change."""
    count = alerts.now or alerts.firing
    verb = "needs" if count == 1 else "need"
    rest = "you now" if alerts.now else "a look"
    title = f"{plural(count, 'alert')} {verb} {rest}."
    return Sentence(level=alerts.level, title=title, cause=cause)


def _headline_button(fleet: Fleet) -> tuple[str, str]:
    """Return the address and the label of the button beside the headline; both may be empty."""
    worst = fleet.sources[0]
    if worst.level in (Level.NOW, Level.LOOK, Level.UNKNOWN):
        slot = next(iter(worst.worst_first), None)
        if slot is not None:
            return slot.url, f"Open {slot.name}"
        return f"{reverse('sources')}#source-{worst.source.pk}", f"Open {worst.source.name}"
    if fleet.alerts.firing:
        return reverse("alerts"), "Open the alerts"
    return "", ""


def _open_rows(fleet: Fleet) -> list[OpenRow]:
    """Return the oldest open transactions of all slots, oldest first."""
    slots = {view.slot.incarnation_id: view.slot for view in fleet.slots}
    oldest = (
        Transaction.objects.filter(state__in=OPEN_STATES, incarnation_id__in=slots.keys() - {None})
        .order_by(F("prepared_at").asc(nulls_last=True), "received_at")
        .only("id", "incarnation_id", "xid", "gid", "state", "first_lsn", "prepared_at",
              "received_at", "inserts", "updates", "deletes", "truncates", "messages",
              "aborted_changes")
    )[:ROWS_BELOW]  # fmt: skip
    rows = [OpenRow(row, slots[row.incarnation_id], fleet.now) for row in oldest]
    return sorted(rows, key=lambda row: row.since)


def _newest_lines(fleet: Fleet) -> list[TransactionLine]:
    """Return the newest transactions of all slots, in the order of their commits.

    Only the slots that stored last are read, so that the number of slots does not matter.
    """
    stored = [
        (slot.last_stored_at, slot.incarnation_id, str(slot))
        for slot in (view.slot for view in fleet.slots)
        if slot.last_stored_at is not None and slot.incarnation_id is not None
    ]
    stored.sort(reverse=True)
    slots = {incarnation: (name, 0) for _, incarnation, name in stored[:NEWEST_ROWS]}
    if not slots:
        return []
    rows = history.newest_placed(reading_session(), list(slots), NEWEST_ROWS)
    return transaction_lines(rows, slots)


def _events(fleet: Fleet) -> tuple[list[SlotEvent], int]:
    """Return the newest slot events of a week, and the number of events in the last day."""
    slots = [view.slot.pk for view in fleet.slots]
    week, day = (fleet.now - timedelta(days=days) for days in (7, 1))
    events = SlotEvent.objects.filter(slot__in=slots, at__gt=week).order_by("-at")
    newest = list(events.select_related("slot__source")[:ROWS_BELOW])
    return newest, events.filter(at__gt=day).count()


def _sparkline_rows(fleet: Fleet) -> tuple[list[tuple[SourceView, Sparkline]], timedelta]:
    """Return each source with its sparkline of retained WAL, and the time that they cover."""
    key = f"overview-history-{hash(frozenset(view.slot.pk for view in fleet.slots))}"
    cached: tuple[timedelta, dict[int, dict[int, int]]] | None = cache.get(key)
    if cached is None:
        window = read_window(fleet.now)
        cached = window, read_history(fleet.now, window, BUCKETS)
        cache.set(key, cached, DRAWN_FOR_SECONDS)
    window, points = cached
    rows = [(source, _sparkline(source, points)) for source in fleet.sources]
    return rows, window


def _sparkline(source: SourceView, points: dict[int, dict[int, int]]) -> Sparkline:
    """Draw, per bucket, the largest retained WAL among the source's slots."""
    highest: dict[int, int] = {}
    ids = [view.slot.pk for view in source.slots] + [view.watched_id for view in source.others]
    for slot_id in ids:
        for bucket, retained in points.get(slot_id, {}).items():
            highest[bucket] = max(retained, highest.get(bucket, 0))
    return sparkline(highest, BUCKETS, present_known=source.present_known)

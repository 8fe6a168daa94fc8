"""Show the WAL that a slot retains against its limit, in words and as a chart."""

from dataclasses import dataclass

from django.urls import reverse

from replview.health.conditions import BY_IDLE, STEADY_BYTES_PER_SECOND, WalLimit, limit_of
from replview.health.findings_wal import lost_short
from replview.health.fleet import SlotView
from replview.health.states import Health, Level, SlotReading
from replview.health.watched import OtherView
from replview.text.formats import age_words, bytes_words
from replview.ui.charts.query import CHARTS, LagQuery

#: Width of the bar in its own units; the page stretches it.
BAR_WIDTH = 1000
#: Charts of every slot; a chart without data says unknown.
SHOWN = ("retained", "lag", "throughput")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """The WAL that a slot retained in its last sample, as a bar with its texts."""

    #: Retained WAL in words; None when unknown.
    number: str | None
    #: Text shown instead of the number for a lost slot, which retains no WAL.
    lost: str
    pace: str
    left: str
    limit: str
    #: Texts at the bar's middle and end; empty without a limit.
    half: str
    end: str
    #: Filled part of the bar; None when unknown or without a limit.
    width: int | None
    level: str


def retained_of(view: SlotView | OtherView) -> Retained:
    """Return the bar and the texts of the slot's last sample."""
    slot = view.slot if isinstance(view, SlotView) else None
    source = view.slot.source if isinstance(view, SlotView) else view.server.source
    retained, limit = view.retained_wal_bytes, limit_of(source, slot, view.reading)
    size = limit.size_bytes
    return Retained(
        number=None if retained is None else bytes_words(retained),
        lost=lost_short(view.lost) if view.lost else "",
        pace=_growth_words(view.reading) if retained is not None else "",
        left=_remaining_words(view.reading, view.health, retained, limit),
        limit=limit.words,
        half="half: alerts from here" if size else "",
        end=limit.end_words,
        width=None if size is None or retained is None else _bar_width(retained, size),
        level=view.level,
    )


def _growth_words(reading: SlotReading) -> str:
    """Return the change of the retained WAL, such as ``growing 5.2 MB/s``."""
    growth = reading.growth_bytes_per_second
    if growth is None:
        return "rate not known yet"
    if abs(growth) < STEADY_BYTES_PER_SECOND:
        return "steady"
    return f"{'growing' if growth > 0 else 'falling'} {bytes_words(abs(growth))}/s"


def _remaining_words(
    reading: SlotReading, health: Health, retained: int | None, limit: WalLimit
) -> str:
    """Return the WAL left until the limit, and the time to loss if the slot needs attention."""
    if retained is None:
        return ""
    loss_words = _lost_words(health)
    if limit.size_bytes is None:
        return loss_words
    safe_bytes = reading.safe_wal_bytes if limit.by == "server" else None
    remaining = bytes_words(
        max(limit.size_bytes - retained, 0) if safe_bytes is None else max(safe_bytes, 0)
    )
    return f"{remaining} left, {loss_words}" if loss_words else f"{remaining} left"


def _lost_words(health: Health) -> str:
    """Return the time to loss, and its limit if that is the idle timeout."""
    if health.loss_seconds is None or health.level not in (Level.NOW, Level.LOOK):
        return ""
    cause = f", by {BY_IDLE}" if health.loss_by == BY_IDLE else ""
    if health.loss_seconds <= 0:
        return f"lost at the next checkpoint{cause}" if cause else ""
    span = f" ({health.loss_span})" if health.loss_span else ""
    return f"lost in about {age_words(health.loss_seconds)}{span}{cause}"


def _bar_width(retained: int, limit: int) -> int:
    share = retained / limit if limit else 1.0
    return min(max(round(share * BAR_WIDTH), 3 if retained else 0), BAR_WIDTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCharts:
    """The charts of a slot's page, and the addresses of their data."""

    #: The slot as ``source/slot``.
    slot: str
    source_id: int
    titles: list[str]
    #: The slot's page of charts.
    page_url: str
    data_url: str
    csv_url: str


def charts_of(slot: str, source_id: int) -> SlotCharts:
    """Return the charts of ``source/slot``."""
    query = LagQuery(slots=(slot,))
    query_string = query.words(charts=",".join(SHOWN))
    return SlotCharts(
        slot=slot,
        source_id=source_id,
        titles=[CHARTS[key] for key in SHOWN],
        page_url=query.url(),
        data_url=f"{reverse('lag-data')}?{query_string}",
        csv_url=f"{reverse('lag-csv')}?{query_string}",
    )

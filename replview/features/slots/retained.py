"""The WAL that a slot retains against its limit, in words and as a chart."""

from dataclasses import dataclass

from django.urls import reverse

from replview.health.conditions import BY_IDLE, STEADY_BYTES_PER_SECOND, WalLimit, limit_of
from replview.health.findings_wal import lost_short
from replview.health.fleet import SlotView
from replview.health.states import Health, Level, Reading
from replview.health.watched import OtherView
from replview.text.formats import age_words, bytes_words
from replview.ui.charts.query import CHARTS, LagQuery

#: The bar's own units; it is stretched to the width there is.
BAR_WIDTH = 1000
#: Of every slot, replview's or not; what is unknown of one says so.
SHOWN = ("retained", "lag", "throughput")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """The WAL that a slot retained when it was last sampled: a bar and its words."""

    #: None: unknown.
    number: str | None
    #: In the number's place: a lost slot retains nothing, which is no zero.
    lost: str
    pace: str
    left: str
    limit: str
    #: At the bar's middle and its end; empty without a limit.
    half: str
    end: str
    #: None without a limit: there is nothing to draw a share of.
    width: int | None
    level: str


def retained_of(view: SlotView | OtherView) -> Retained:
    """Return what the slot's last sample says of the WAL it retains."""
    slot = view.slot if isinstance(view, SlotView) else None
    source = view.slot.source if isinstance(view, SlotView) else view.server.source
    retained, limit = view.retained_wal_bytes, limit_of(source, slot, view.reading)
    size = limit.size_bytes
    return Retained(
        number=None if retained is None else bytes_words(retained),
        lost=lost_short(view.lost) if view.lost else "",
        pace=_pace(view.reading) if retained is not None else "",
        left=_left(view.reading, view.health, retained, limit),
        limit=limit.words,
        half="half: alerts from here" if size else "",
        end=limit.end_words,
        width=None if size is None or retained is None else _width(retained, size),
        level=view.level,
    )


def _pace(reading: Reading) -> str:
    """Where it goes: ``growing 5.2 MB/s``."""
    growth = reading.growth_bytes_per_second
    if growth is None:
        return "pace not known yet"
    if abs(growth) < STEADY_BYTES_PER_SECOND:
        return "steady"
    return f"{'growing' if growth > 0 else 'falling'} {bytes_words(abs(growth))}/s"


def _left(reading: Reading, health: Health, retained: int | None, limit: WalLimit) -> str:
    """What is left; when it is lost only where that is to be minded."""
    if retained is None:
        return ""
    lost = _lost_words(health)
    if limit.size_bytes is None:
        return lost
    safe = reading.safe_wal_bytes if limit.by == "server" else None
    left = bytes_words(max(limit.size_bytes - retained, 0) if safe is None else max(safe, 0))
    return f"{left} left, {lost}" if lost else f"{left} left"


def _lost_words(health: Health) -> str:
    """Say when it is lost, and by which limit where that is not one of WAL."""
    if health.loss_seconds is None or health.level not in (Level.NOW, Level.LOOK):
        return ""
    by = f", by {BY_IDLE}" if health.loss_by == BY_IDLE else ""
    if health.loss_seconds <= 0:
        return f"lost at the next checkpoint{by}" if by else ""
    span = f" ({health.loss_span})" if health.loss_span else ""
    return f"lost in about {age_words(health.loss_seconds)}{span}{by}"


def _width(retained: int, limit: int) -> int:
    share = retained / limit if limit else 1.0
    return min(max(round(share * BAR_WIDTH), 3 if retained else 0), BAR_WIDTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCharts:
    """The charts of a slot's page, and where their points come from."""

    #: ``source/slot``.
    slot: str
    source_id: int
    titles: list[str]
    #: The slot's page of charts.
    page_url: str
    data_url: str
    csv_url: str


def charts_of(slot: str, source_id: int) -> SlotCharts:
    """Return what is drawn of ``source/slot``."""
    query = LagQuery(slots=(slot,))
    words = query.words(charts=",".join(SHOWN))
    return SlotCharts(
        slot=slot,
        source_id=source_id,
        titles=[CHARTS[key] for key in SHOWN],
        page_url=query.url(),
        data_url=f"{reverse('lag-data')}?{words}",
        csv_url=f"{reverse('lag-csv')}?{words}",
    )

"""Retained WAL against its limit, in words and as a chart."""

from dataclasses import dataclass

from django.urls import reverse

from replview.health.conditions import WalLimit, limit_of
from replview.health.findings_wal import lost_short
from replview.health.fleet import SlotView
from replview.health.states import Health, Level, Reading
from replview.health.watched import OtherView
from replview.store.models import Slot, Source
from replview.text.formats import age_words, bytes_words
from replview.ui.charts.query import CHARTS, LagQuery

#: The bar's own units; it is stretched to the width there is.
BAR_WIDTH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """A bar and its words; ``number`` None is unknown."""

    number: str | None
    #: ``lost: wal_removed``, in the number's place: a lost slot retains nothing, which is no zero.
    lost: str
    #: Where it goes: ``growing 5.2 MB/s``.
    pace: str
    #: What is left, and until when.
    left: str
    limit: str
    #: What is written at the bar's middle and its end; empty without a limit.
    half: str
    end: str
    #: None without a limit: there is nothing to draw a share of.
    width: int | None
    level: str


def retained_of(view: SlotView | OtherView) -> Retained:
    """What the slot's last sample says."""
    slot, source = _whose(view)
    retained, limit = view.retained_wal_bytes, limit_of(source, slot)
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


def _whose(view: SlotView | OtherView) -> tuple[Slot | None, Source]:
    if isinstance(view, SlotView):
        return view.slot, view.slot.source
    return None, view.server.source


def _pace(reading: Reading) -> str:
    growth = reading.growth_bytes_per_second
    if growth is None:
        return "pace not known yet"
    if abs(growth) < 1024:
        return "steady"
    return f"{'growing' if growth > 0 else 'falling'} {bytes_words(abs(growth))}/s"


def _left(reading: Reading, health: Health, retained: int | None, limit: WalLimit) -> str:
    """What is left; when it is lost only where that is to be minded."""
    if limit.size_bytes is None or retained is None:
        return ""
    safe = reading.safe_wal_bytes if limit.by == "server" else None
    left = bytes_words(max(limit.size_bytes - retained, 0) if safe is None else max(safe, 0))
    loss = health.loss_seconds
    minded = loss is not None and health.level in (Level.NOW, Level.LOOK)
    return f"{left} left" + (f", lost in about {age_words(loss)}" if minded and loss else "")


def _width(retained: int, limit: int) -> int:
    share = retained / limit if limit else 1.0
    return min(max(round(share * BAR_WIDTH), 3 if retained else 0), BAR_WIDTH)


#: Of every slot, replview's or not; what is unknown of one says so.
SHOWN = ("retained", "lag", "throughput")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCharts:
    """What the template needs."""

    #: ``source/slot``.
    slot: str
    source_id: int

    @property
    def titles(self) -> list[str]:
        """As they are called before they are drawn."""
        return [CHARTS[key] for key in SHOWN]

    @property
    def page_url(self) -> str:
        """The slot's lag page."""
        return self._query.url()

    @property
    def data_url(self) -> str:
        """What is drawn."""
        return f"{reverse('lag-data')}?{self._query.words(charts=','.join(SHOWN))}"

    @property
    def csv_url(self) -> str:
        """The same as a file."""
        return f"{reverse('lag-csv')}?{self._query.words(charts=','.join(SHOWN))}"

    @property
    def _query(self) -> LagQuery:
        return LagQuery(slots=(self.slot,))

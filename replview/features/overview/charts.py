"""The charts of the overview: commits and retained WAL of the first sources."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from zlib import crc32

from django.urls import reverse

from replview.health.fleet import SourceView
from replview.text.formats import plural
from replview.ui.charts.query import CHARTS, LagQuery, range_covering

#: Most sources that have charts: the browser reads and draws each by itself.
MOST_SOURCES = 3
#: Most slots of a source that its charts draw.
_MOST_SLOTS = 4
#: In the order of the lag page.
SHOWN = ("retained", "commits")
_TITLES = {"1h": "The last hour"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCharts:
    """The charts of one source, and the addresses of their data."""

    source_id: int
    source: str
    #: Changes with what is drawn, so that the page replaces the charts only then.
    key: str
    #: The drawn slots, as ``source/slot``.
    slots: tuple[str, ...]
    #: The lag page of the same slots.
    page_url: str
    data_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewCharts:
    """The charts of the overview, a row for each source that has them."""

    #: The time that the charts cover: ``The last hour``.
    title: str
    #: The only source, or which sources have charts while others have none; else empty.
    note: str
    chart_titles: tuple[str, ...]
    sources: tuple[SourceCharts, ...]

    @property
    def source_ids(self) -> str:
        """Return the ids of the sources, whose new samples make the charts reload."""
        return ",".join(str(source.source_id) for source in self.sources)


def charts_of(sources: Sequence[SourceView], window: timedelta) -> OverviewCharts:
    """Return the charts of the first sources that have slots.

    ``window`` is the time that the samples fill; the charts show an hour of it at most.
    """
    query_range = range_covering(window)
    with_slots = [view for view in sources if view.views]
    drawn = tuple(_source_charts(view, query_range) for view in with_slots[:MOST_SOURCES])
    note = ", ".join(source.source for source in drawn)
    if len(drawn) < len(with_slots):
        note += f": the first {len(drawn)} of {plural(len(with_slots), 'source')}"
    elif len(drawn) > 1:
        note = ""
    return OverviewCharts(
        title=_TITLES.get(query_range, f"The last {int(window.total_seconds()) // 60} min"),
        note=note,
        chart_titles=tuple(CHARTS[key] for key in SHOWN),
        sources=drawn,
    )


def _source_charts(view: SourceView, query_range: str) -> SourceCharts:
    # Received slots come first, since the commits of others are unknown. The names are sorted, so
    # that the charts stay when another of these slots becomes the worst.
    slots = tuple(sorted(slot.full_name for slot in view.views[:_MOST_SLOTS]))
    query = LagQuery(slots=slots, range=query_range)
    data_url = f"{reverse('lag-data')}?{query.words(charts=','.join(SHOWN))}"
    return SourceCharts(
        source_id=view.source.pk,
        source=view.source.name,
        key=f"{view.source.pk}-{crc32(data_url.encode()):x}",
        slots=slots,
        page_url=query.url(),
        data_url=data_url,
    )

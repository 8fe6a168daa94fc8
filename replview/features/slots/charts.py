"""The few charts on a slot's own page, with where the rest of them are."""

from dataclasses import dataclass

from django.urls import reverse

from replview.ui.charts.query import CHARTS, LagQuery

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

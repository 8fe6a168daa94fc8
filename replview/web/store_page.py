"""What the store's page shows: its size in words, and since when each slot is recorded."""

import datetime as dt
from dataclasses import dataclass

from django.db.models import Min

from replview.catalog.wal_budget import size_words
from replview.store import archive, archived
from replview.store.deleted_days import kept_since
from replview.store.models import Slot
from replview.store.store_size import StoreSize, measure, order_of_sacrifice
from replview.web.archive_words import ArchiveView, archive_view
from replview.web.words import bytes_words

#: From this share of the budget on it is to be looked at, as the alert says it.
_LOOK_FROM = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePage:
    """The store now, and the form."""

    store: StoreSize
    level: str
    title: str
    cause: str
    #: What gives way first, one after the other.
    sacrifice: list[str]
    #: Slots with since when they are recorded; None: nothing is yet.
    kept: list[tuple[Slot, dt.datetime | None]]
    archive: ArchiveView
    typed: str
    error: str = ""

    @property
    def growth(self) -> str:
        """A day; empty: unknown."""
        growth = self.store.growth_bytes_per_day
        return "" if growth is None else f"{bytes_words(growth)} of changes a day"


def page_of(*, typed: str | None = None, error: str = "") -> StorePage:
    """Everything the page shows; ``typed``: what was sent and refused, with why."""
    store = measure()
    size = store.budget_bytes
    slots = Slot.objects.select_related("source").annotate(since=Min("incarnations__started_at"))
    share, begins = store.share, kept_since()
    level = "ok" if share is None or share < _LOOK_FROM else "look" if share < 1 else "now"
    return StorePage(
        store=store,
        level=level,
        title=f"The store occupies {bytes_words(store.size_bytes)}.",
        cause=_cause(store),
        sacrifice=order_of_sacrifice(size, store.protect),
        kept=[(slot, _since(slot.since, begins.get(slot.pk))) for slot in slots],
        archive=archive_view(archive.chosen(), archived.standings()),
        typed=typed if typed is not None else ("none" if size is None else size_words(size)),
        error=error,
    )


def _since(connected: dt.datetime | None, kept: dt.datetime | None) -> dt.datetime | None:
    return kept if connected and kept and kept > connected else connected


def _cause(store: StoreSize) -> str:
    if store.share is None or store.budget_bytes is None:
        return "It has no budget: it may grow until its disk is full."
    share = f"{100 * store.share:.0f} % of its budget of {bytes_words(store.budget_bytes)}"
    if store.share >= 1:
        return f"That is {share}. {store.stuck}".rstrip()
    if store.days_left is None:
        return f"That is {share}; how long that lasts is not known yet."
    return f"That is {share}, which lasts about {store.days_left:,.0f} days at this rate."

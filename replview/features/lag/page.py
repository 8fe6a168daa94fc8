"""The lag page around its charts: its slots, its headline and its menus."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from django.db.models import F, Q

from replview.health.fleet import Fleet, SlotView
from replview.health.states import urgency
from replview.store.models import Slot, Source, WatchedSlot
from replview.text.formats import plural
from replview.ui.charts.query import CHARTS, RANGES, LagQuery
from replview.ui.sentence import Sentence

#: Maximum number of slots in a chart; more lines could not be told apart.
MOST_SLOTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSlot:
    """A slot and the id of its samples."""

    sample_id: int
    source: Source
    slot_name: str
    #: The slot that replview receives; None for other slots.
    slot: Slot | None = None

    @property
    def name(self) -> str:
        """Return ``source/slot``."""
        return f"{self.source.name}/{self.slot_name}"

    @property
    def limit_bytes(self) -> int | None:
        """Return max_slot_wal_keep_size; None if there is none, or it is unknown."""
        limit = self.source.max_slot_wal_keep_bytes
        return None if limit is None or limit < 0 else limit

    @property
    def budget_bytes(self) -> int | None:
        """Return the slot's WAL budget; None if it has none, or is not ours."""
        return self.slot.wal_budget_bytes if self.slot else None


def find_lag_slots(names: Sequence[str]) -> list[LagSlot]:
    """Return the known slots of these names, in that order, including slots that are gone."""
    pairs = [name.partition("/")[::2] for name in dict.fromkeys(names[:MOST_SLOTS])]
    if not pairs:
        return []
    condition = Q()
    for source, slot in pairs:
        condition |= Q(source__name=source, name=slot)
    # Until their server is first sampled, our slots have no watched slot.
    ours = [
        LagSlot(sample_id=row.pk, source=row.source, slot_name=row.name, slot=row)
        for row in Slot.objects.filter(condition).select_related("source")
    ]
    watched = [
        LagSlot(sample_id=row.pk, source=row.source, slot_name=row.name, slot=row.slot)
        for row in WatchedSlot.objects.filter(condition).select_related("source", "slot")
    ]
    by_name = {
        (lag_slot.source.name, lag_slot.slot_name): lag_slot for lag_slot in (*ours, *watched)
    }
    return [by_name[pair] for pair in pairs if pair in by_name]


def first_slot() -> str:
    """Return the slot to begin with: ours that was read last, else any; empty if none."""
    by_heartbeat = F("heartbeat_at").desc(nulls_last=True)
    own = Slot.objects.select_related("source").order_by(by_heartbeat, "id").first()
    watched = WatchedSlot.objects.filter(gone_at=None).select_related("source")
    return str(own or next(iter(watched[:1]), ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotChoice:
    """A slot in the menu of slots."""

    #: ``source/slot``, for the address.
    name: str
    word: str
    on: bool
    ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChoices:
    """The slots of one source in the menu."""

    source: str
    slots: tuple[SlotChoice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LagPage:
    """The page around the charts."""

    #: The query with the known slots only.
    query: LagQuery
    names: tuple[str, ...]
    #: Slots in the address that are unknown.
    missing: tuple[str, ...]
    sentence: Sentence
    #: Address of the slot that the sentence is about; empty if it has no page.
    slot_url: str
    #: (word, label, address, chosen).
    ranges: tuple[tuple[str, str, str, bool], ...]
    range_label: str
    #: (word, title, drawn).
    charts: tuple[tuple[str, str, bool], ...]
    choices: tuple[SourceChoices, ...]
    #: Ids of the sources whose new samples make the charts reload.
    sources: tuple[int, ...]
    #: The first slot that replview receives; empty if there is none.
    own: str
    data_query: str
    most_slots: int = MOST_SLOTS


def lag_page(query: LagQuery, slots: Sequence[LagSlot], fleet: Fleet) -> LagPage:
    """Build the page of these slots; its links leave out unknown slots."""
    names = tuple(slot.name for slot in slots)
    missing = tuple(name for name in query.slots if name not in names)
    query = replace(query, slots=names)
    sentence, slot_url = _sentence(slots, fleet)
    return LagPage(
        query=query,
        names=names,
        missing=missing,
        sentence=sentence,
        slot_url=slot_url,
        ranges=tuple(
            (range_name, label, query.url(range=range_name, **{"from": "", "to": ""}),
             query.range == range_name and not (query.since or query.until))
            for range_name, (label, _) in RANGES.items()
        ),
        range_label=RANGES[query.range][0],
        charts=tuple((key, title, key in query.charts) for key, title in CHARTS.items()),
        choices=tuple(_source_choices(fleet, names)),
        sources=tuple(sorted({slot.source.pk for slot in slots})),
        own=next((slot.name for slot in slots if slot.slot), ""),
        data_query=query.words(table=""),
    )  # fmt: skip


def _sentence(slots: Sequence[LagSlot], fleet: Fleet) -> tuple[Sentence, str]:
    """Return the health of the slot, or of the worst slot, and the address of its page."""
    views = [
        view
        for slot in slots
        if (view := fleet.find_slot(slot.name) or fleet.find_other(slot.name)) is not None
    ]
    if not views:
        name = slots[0].slot_name if len(slots) == 1 else plural(len(slots), "slot")
        title, cause = f"{name}: its present state is unknown.", "It is gone, or was never sampled."
        return Sentence(level="unknown", title=title, cause=cause), ""
    worst = min(views, key=lambda view: urgency(view.health))
    title = worst.health.title
    if len(slots) > 1:
        name = "" if worst.name in title else f"{worst.full_name}: "
        title = f"Worst of {len(slots)}: {name}{title}"
    sentence = Sentence(
        level=worst.level, title=title, cause=worst.health.cause, next=worst.health.next_step
    )
    return sentence, worst.url


def _source_choices(fleet: Fleet, names: Sequence[str]) -> Iterator[SourceChoices]:
    """Yield every slot by its source."""
    for source in sorted(fleet.sources, key=lambda view: view.source.name):
        slots = tuple(
            SlotChoice(
                name=view.full_name,
                word=view.name,
                on=view.full_name in names,
                ours=isinstance(view, SlotView),
            )
            for view in source.views
        )
        if slots:
            yield SourceChoices(source=source.source.name, slots=slots)

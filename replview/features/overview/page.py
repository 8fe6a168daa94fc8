"""The strip of figures on the overview."""

from dataclasses import dataclass
from datetime import timedelta

from replview.health.fleet import Fleet
from replview.health.states import Level
from replview.store.models import SlotEvent
from replview.text.formats import (
    age_words,
    bytes_words,
    count_words,
    plural,
    rate_words,
    short_words,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A label, the number (None: unknown), and what it is of."""

    label: str
    number: str | None
    rest: str = ""
    main: bool = False
    danger: bool = False


def figures(fleet: Fleet) -> list[Figure]:
    """Time to loss, retained WAL, rate, delay, what is stored."""
    return [_loss(fleet), _retained(fleet), _rate(fleet), _delay(fleet), _stored(fleet)]


def _loss(fleet: Fleet) -> Figure:
    losses = [
        view.health.loss_seconds
        for view in fleet.views
        if view.health.loss_seconds is not None and view.level in (Level.NOW, Level.LOOK)
    ]
    label = "Shortest time to loss"
    if losses:
        danger = any(view.level == Level.NOW for view in fleet.views)
        return Figure(label=label, number=age_words(min(losses)), main=True, danger=danger)
    lost = any(view.lost for view in fleet.views)
    if lost:
        return Figure(label=label, number="lost", main=True, danger=True)
    known = any(view.present_known for view in fleet.views)
    return Figure(label=label, number="none at risk" if known else None, main=True)


def _retained(fleet: Fleet) -> Figure:
    known = [
        source.retained_wal_bytes
        for source in fleet.sources
        if source.present_known and source.retained_wal_bytes is not None
    ]
    return Figure(
        label="Retained WAL",
        number=bytes_words(sum(known)) if known else None,
        rest=_of(len(known), len(fleet.sources)),
    )


def _rate(fleet: Fleet) -> Figure:
    rates = [source.transactions_per_second for source in fleet.sources]
    known = [rate for rate in rates if rate is not None]
    return Figure(
        label="Commits",
        number=rate_words(sum(known)) if known else None,
        rest=_of(len(known), len(fleet.sources)),
    )


def _delay(fleet: Fleet) -> Figure:
    """Of the slot that streams most: mixing slots would hide both."""
    streaming = [
        view
        for view in fleet.slots
        if view.level == Level.OK and view.reading.stored_after_p50_us is not None
    ]
    busiest = max(
        streaming, key=lambda view: view.reading.transactions_per_second or 0, default=None
    )
    label = "Commit to stored"
    if busiest is None or busiest.reading.stored_after_p50_us is None:
        return Figure(label=label, number=None)
    p99 = busiest.reading.stored_after_p99_us or busiest.reading.stored_after_p50_us
    return Figure(
        label=label,
        number=short_words(busiest.reading.stored_after_p50_us),
        rest=f"p99 {short_words(p99)}",
    )


def _stored(fleet: Fleet) -> Figure:
    changes = sum(view.slot.changes_stored for view in fleet.slots)
    slots = [view.slot.pk for view in fleet.slots]
    day = fleet.now - timedelta(days=1)
    gaps = SlotEvent.objects.filter(slot__in=slots, at__gt=day, kind="gap").count()
    return Figure(
        label="Stored",
        number=count_words(changes),
        rest=f"{'change' if changes == 1 else 'changes'}, {plural(gaps, 'gap')} in 24 h",
    )


def _of(known: int, total: int) -> str:
    return "" if known == total else f"{known} of {plural(total, 'source')}"

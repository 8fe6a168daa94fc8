"""Retained WAL against its limit: the number that says how long there is."""

from dataclasses import dataclass

from replview.web.fleet import SlotView
from replview.web.health import Level
from replview.web.words import age_words, bytes_words

#: The bar's own units; it is stretched to the width there is.
BAR_WIDTH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """A bar and its words; ``number`` None is unknown."""

    number: str | None
    #: Where it goes: ``growing 5.2 MB/s``.
    pace: str
    #: What is left, and until when.
    left: str
    limit: str
    #: None without a limit: there is nothing to draw a share of.
    width: int | None
    level: str


def retained_of(view: SlotView) -> Retained:
    """What the slot's last sample says."""
    retained, limit = view.retained_wal_bytes, view.slot.source.max_slot_wal_keep_bytes
    known = None if limit is None or limit < 0 else limit
    return Retained(
        number=None if retained is None else bytes_words(retained),
        pace=_pace(view) if retained is not None else "",
        left=_left(view, retained, known),
        limit=_limit(limit),
        width=None if known is None or retained is None else _width(retained, known),
        level=view.level,
    )


def _pace(view: SlotView) -> str:
    growth = view.reading.growth_bytes_per_second
    if growth is None:
        return "pace not known yet"
    if abs(growth) < 1024:
        return "steady"
    return f"{'growing' if growth > 0 else 'falling'} {bytes_words(abs(growth))}/s"


def _left(view: SlotView, retained: int | None, limit: int | None) -> str:
    """What is left; when it is lost only where that is to be minded."""
    if limit is None or retained is None:
        return ""
    left, loss = bytes_words(max(limit - retained, 0)), view.health.loss_seconds
    minded = loss is not None and view.level in (Level.NOW, Level.LOOK)
    return f"{left} left" + (f", lost in about {age_words(loss)}" if minded and loss else "")


def _limit(limit: int | None) -> str:
    if limit is None:
        return "limit unknown"
    if limit < 0:
        return "no limit: can fill the disk (max_slot_wal_keep_size)"
    return f"limit {bytes_words(limit)} (max_slot_wal_keep_size)"


def _width(retained: int, limit: int) -> int:
    share = retained / limit if limit else 1.0
    return min(max(round(share * BAR_WIDTH), 3 if retained else 0), BAR_WIDTH)

"""This module says what ends a slot once its receiver is stopped, and which limit comes first."""

import math
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from replview.health.conditions import (
    BY_SERVER,
    STEADY_BYTES_PER_SECOND,
    WalLimit,
    idle_timeout,
    left_bytes,
)
from replview.health.findings_limits import at_conflict_risk
from replview.health.queries import SlotRates, read_paces
from replview.health.server_slot import server_slot
from replview.health.source_state import stale_after
from replview.health.states import SlotReading
from replview.health.watched import reading_of
from replview.store.models import Slot, Source, WatchedSlot
from replview.text.formats import age_words, bytes_words

_GAP = "and history has a gap"


@dataclass(frozen=True, slots=True)
class End:
    """A limit that ends a stopped slot.

    ``seconds`` is infinite where the limit is not in sight, and None where it is unknown.
    """

    sentence: str
    seconds: float | None


def limits_once_stopped(slot: Slot, now: datetime | None = None) -> tuple[str, ...]:
    """Return a sentence for each limit of a slot that nobody will read, soonest first."""
    moment = now or timezone.now()
    reading = _reading(slot, moment)
    ends = [*_idle_ends(slot.source), *_wal_ends(slot, reading)]
    ends.sort(key=lambda end: math.inf if end.seconds is None else end.seconds)
    sentences = [end.sentence for end in ends]
    if len(ends) > 1 and any(end.seconds is None for end in ends):
        sentences.append("It is unknown which limit comes first, because the WAL rate is unknown.")
    elif len(ends) > 1 and ends[0].seconds != math.inf:
        sentences[0] = f"First: {sentences[0][:1].lower()}{sentences[0][1:]}"
    if at_conflict_risk(slot.source):
        sentences.append(
            "Its server is a standby with hot_standby_feedback = off: it invalidates the slot as "
            "soon as the primary removes rows that the slot needs."
        )
    return (*sentences, *_unlimited_sentences(slot))


def _reading(slot: Slot, now: datetime) -> SlotReading:
    """Return what is known of the slot, with growth as fast as its source writes WAL."""
    watched = WatchedSlot.objects.select_related("source").filter(slot=slot, gone_at=None).first()
    if watched is None:
        return SlotReading()
    pace = read_paces(now).get(watched.pk, SlotRates())
    return reading_of(server_slot(watched, stale_after()), SlotRates(growth=pace.wal), now)


def _idle_ends(source: Source) -> list[End]:
    timeout = idle_timeout(source)
    if timeout is None:
        return []
    allowed = f"{age_words(timeout)} without a consumer (idle_replication_slot_timeout)"
    sentence = f"The first checkpoint after {allowed} invalidates the slot, {_GAP}."
    return [End(sentence, float(timeout))]


def _wal_ends(slot: Slot, reading: SlotReading) -> list[End]:
    """Return the limits on retained WAL, with the time until each is reached."""
    ends = []
    size = slot.source.max_slot_wal_keep_bytes
    if size is not None and size >= 0:
        seconds = _seconds(reading, WalLimit(size_bytes=size, by="server"))
        sentence = (
            f"At {BY_SERVER} ({bytes_words(size)}){_time_left(seconds)} the server invalidates"
        )
        ends.append(End(f"{sentence} the slot, {_GAP}.", seconds))
    if slot.wal_budget_bytes is not None and slot.protect == Slot.Protect.DATABASE:
        budget = WalLimit(size_bytes=slot.wal_budget_bytes, by="budget")
        seconds = _seconds(reading, budget)
        sentence = f"At its WAL budget of {bytes_words(slot.wal_budget_bytes)}{_time_left(seconds)}"
        ends.append(End(f"{sentence} replview drops the slot, {_GAP}.", seconds))
    return ends


def _seconds(reading: SlotReading, limit: WalLimit) -> float | None:
    safe = reading.safe_wal_bytes if limit.by == "server" else None
    remaining = left_bytes(reading.retained_wal_bytes, safe, limit)
    pace = reading.growth_bytes_per_second
    if remaining is None or pace is None:
        return None
    return max(remaining, 0) / pace if pace >= STEADY_BYTES_PER_SECOND else math.inf


def _time_left(seconds: float | None) -> str:
    if seconds is None or seconds == math.inf:
        return ""
    return f", in about {age_words(seconds)} at the present WAL rate,"


def _unlimited_sentences(slot: Slot) -> tuple[str, ...]:
    """Return a sentence if nothing limits the slot, or if that is unknown."""
    size, budget = slot.source.max_slot_wal_keep_bytes, slot.wal_budget_bytes
    dropped = budget is not None and slot.protect == Slot.Protect.DATABASE
    if dropped or idle_timeout(slot.source) is not None:
        return ()
    if size is None:
        return ("It is unknown whether the server limits retained WAL.",)
    if size >= 0:
        return ()
    return ("No limit is set: a slot without a consumer can fill the disk of the source.",)

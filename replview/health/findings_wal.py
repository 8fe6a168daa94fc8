"""This module finds how much WAL a slot retains and how far behind its reader is.

The functions run no queries.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from replview.health.conditions import (
    BY_IDLE,
    STEADY_BYTES_PER_SECOND,
    LossEstimate,
    WalLimit,
    foreseen_loss,
    limit_of,
    loss_by_wal,
)
from replview.health.findings_limits import LOSS_SOON_SECONDS, later_words, loss_title, of_idle
from replview.health.holding import BEHIND_BYTES, SHARE, Cause
from replview.health.open_transactions import LONG
from replview.health.states import Health, Level, SlotReading, worst
from replview.store.models import Slot, Source
from replview.text.formats import age_words, bytes_words

LOSS_AHEAD_SECONDS = 24 * 3600
#: A reader that is further behind than this needs a look.
FAR_BEHIND_BYTES = 64 * BEHIND_BYTES
#: Retained WAL that needs a look where the source has no limit.
MUCH_WAL_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class InvalidationCause:
    """The explanation of one value of ``invalidation_reason``."""

    cause: str
    #: Advice that keeps the next slot from the same end.
    advice: str


#: Explanations by reason. Source: PostgreSQL 18, slot.c, ``SlotInvalidationCauses``. For 16 and
#: earlier see ``health.conditions.lost_reason``.
REASONS = {
    "wal_removed": InvalidationCause(
        "The source removed WAL which the slot still needed: it retained more than "
        "max_slot_wal_keep_size.",
        "Raise max_slot_wal_keep_size if the disk has room, or make sure that the slot is read.",
    ),
    "rows_removed": InvalidationCause(
        "This standby replayed that rows were removed which the slot still needed to decode.",
        "Set hot_standby_feedback = on on the standby, with a physical slot on its primary.",
    ),
    "wal_level_insufficient": InvalidationCause(
        "The primary's wal_level went below logical: its WAL can no longer be decoded here.",
        "Keep wal_level = logical on the primary.",
    ),
    "idle_timeout": InvalidationCause(
        "It had no consumer for longer than idle_replication_slot_timeout.",
        "Raise idle_replication_slot_timeout, or make sure that the slot is read more often.",
    ),
    "conflicting": InvalidationCause(
        "It conflicts with recovery on this standby: rows it needed were removed, or the "
        "primary's wal_level went below logical (16 does not say which).",
        "Set hot_standby_feedback = on on the standby, and keep wal_level = logical.",
    ),
    "lost": InvalidationCause(
        "The source no longer has what the slot needs.",
        "Make sure that the slot is read, and that max_slot_wal_keep_size is large enough.",
    ),
}


def lost_short(reason: str) -> str:
    """Return ``lost: wal_removed``, to be shown in the place of a number."""
    return "lost" if reason == "lost" else f"lost: {reason}"


def explain(reason: str) -> InvalidationCause:
    """Return the explanation of a reason; an unknown reason is quoted from the server."""
    return REASONS.get(reason) or InvalidationCause(
        f"The source invalidated it and names the reason {reason}.",
        "See invalidation_reason in the server's documentation of pg_replication_slots.",
    )


def lost(name: str, reading: SlotReading) -> Health | None:
    """Return the finding that the slot can never be read again, or None where it can."""
    if not reading.lost:
        return None
    return Health(
        level=Level.NOW,
        title=f"{name} is {lost_short(reading.lost)}.",
        cause=explain(reading.lost).cause,
        next_step="drop it and create it again; history will show a gap.",
    )


def of_wal(
    name: str,
    source: Source,
    reading: SlotReading,
    now: datetime,
    slot: Slot | None = None,
    cause: Cause | None = None,
) -> Iterator[Health]:
    """Yield the findings about retained WAL and time without a reader.

    A finding is that retained WAL is near a limit, that there is much of it and no limit, or that
    the idle timeout comes first. Where ``cause`` is known, its next step replaces that of the
    finding. Only the limit that is reached first says when the slot is lost.
    """
    next_step = cause.next_step if cause is not None else ""
    retained = reading.retained_wal_bytes
    if retained is None or not reading.fresh(now):
        return
    first = foreseen_loss(source, reading, now, slot)
    findings = [*_limit_findings(name, source, reading, first, retained, slot)]
    for health in findings:
        yield replace(health, next_step=next_step) if next_step else health
    if first is not None and first.by == BY_IDLE:
        idle = of_idle(name, source, reading, first, slot)
        yield replace(idle, level=worst([idle, *findings]).level)


def _limit_findings(
    name: str,
    source: Source,
    reading: SlotReading,
    first: LossEstimate | None,
    retained: int,
    slot: Slot | None,
) -> Iterator[Health]:
    """Yield a finding for each limit on retained WAL: one that ends the slot, one that alerts.

    ``first`` is the loss that comes first, by any limit.
    """
    limit = limit_of(source, slot, reading)
    if limit.size_bytes is None:
        if retained > MUCH_WAL_BYTES:
            no_limit = "The source sets no limit: it can fill the disk."
            yield Health(
                level=Level.LOOK,
                title=f"{name} retains {bytes_words(retained)} of WAL.",
                cause=no_limit if limit.by == "none" else "Its limit is unknown.",
                next_step="set max_slot_wal_keep_size.",
            )
        return
    ending = limit_of(source, slot, reading, losing=True)
    for wal_limit in [limit] if limit == ending or ending.size_bytes is None else [limit, ending]:
        wal_loss = loss_by_wal(source, reading, slot) if wal_limit.loses else None
        seconds = wal_loss.seconds if wal_loss is not None and wal_loss.in_sight else None
        level = _level(wal_limit, retained, reading, seconds)
        if level is not None:
            shown_loss = (
                first if wal_limit.loses and first is not None and first.by != BY_IDLE else None
            )
            finding = _near_limit(name, level, wal_limit, retained, reading, shown_loss)
            later = later_words(source, reading, shown_loss, slot) if shown_loss is not None else ""
            yield replace(finding, cause=f"{finding.cause}{later}")


def of_holder(
    name: str, reading: SlotReading, now: datetime, cause: Cause | None
) -> Iterator[Health]:
    """Yield a finding if a long open transaction holds back a slot that is read."""
    if cause is None or cause.holder is None or cause.held_for(now) <= LONG:
        return
    if (reading.retained_wal_bytes or 0) >= BEHIND_BYTES and reading.fresh(now):
        age = age_words(cause.held_for(now))
        title = f"{name} is held back by {cause.words}, open for {age}."
        yield Health(level=Level.LOOK, title=title, cause=cause.sentence,
                     next_step=cause.next_step)  # fmt: skip


def held_by_other(source: Source, reading: SlotReading, slot: Slot | None = None) -> bool:
    """Return whether something other than its reader may hold the WAL that a slot retains.

    True when the confirmed part of the retained WAL exceeds what the source writes in a minute, or
    a tenth of the limit.
    """
    retained, unread = reading.retained_wal_bytes, reading.unconfirmed_wal_bytes or 0
    size = limit_of(source, slot).size_bytes
    if retained is None or unread > retained * SHARE:
        return False
    written = BEHIND_BYTES + 60 * max(reading.wal_bytes_per_second or 0, 0)
    return retained - unread > min(written, size / 10 if size else written)


def _level(
    limit: WalLimit, retained: int, reading: SlotReading, loss: float | None
) -> Level | None:
    share = retained / limit.size_bytes if limit.size_bytes else 1.0
    if not limit.loses:
        # A budget that only alerts does so at half of it and when it is used up.
        return Level.NOW if share >= 1 else Level.LOOK if share >= 0.5 else None
    loss_soon = loss is not None and loss < LOSS_SOON_SECONDS
    loss_ahead = loss is not None and loss < LOSS_AHEAD_SECONDS
    if share >= 0.9 or (share >= 0.5 and loss_soon) or reading.wal_status == "unreserved":
        return Level.NOW
    return Level.LOOK if share >= 0.5 or (share >= 0.1 and loss_ahead) else None


def _near_limit(
    name: str,
    level: Level,
    limit: WalLimit,
    retained: int,
    reading: SlotReading,
    loss: LossEstimate | None,
) -> Health:
    size, growth = bytes_words(limit.size_bytes or 0), reading.growth_bytes_per_second or 0
    if reading.wal_status == "unreserved":
        return Health(
            level=level,
            title=f"{name} is lost at the source's next checkpoint.",
            cause=f"It retains {bytes_words(retained)}, more than max_slot_wal_keep_size allows.",
            next_step="let it be read at once, or raise max_slot_wal_keep_size.",
            loss_seconds=None if loss is None else loss.seconds,
        )
    limit_text = f"the limit of {size}" if limit.by == "server" else f"its budget of {size}"
    outcome = {
        "server": "At the limit the slot is lost.",
        "budget": "At the budget replview drops the slot, to protect the database.",
        "record": "At the budget replview only alerts, to protect the record: WAL keeps growing.",
    }[limit.by]
    cause = f"WAL grows {bytes_words(growth)}/s towards {limit_text}." if growth > 0 else outcome
    if growth > 0 and limit.by != "server":
        cause += f" {outcome}"
    return Health(
        level=level,
        title=loss_title(name, loss)
        if loss is not None
        else f"{name} retains {bytes_words(retained)} of {size}.",
        cause=cause,
        next_step="let it be read, raise max_slot_wal_keep_size, or drop it."
        if limit.by == "server"
        else "let it be read, or raise its budget.",
        loss_seconds=None if loss is None else loss.seconds,
    )


def behind_words(behind_bytes: int, growth: float | None) -> str:
    """Return how far behind a reader is, and how that changes where the rate is known.

    For example: ``Behind by 3.2 GB, catching up at 40 MB/s, about 80 s to go``.
    """
    text = f"Behind by {bytes_words(behind_bytes)}"
    if growth is None:
        return text
    if growth < -STEADY_BYTES_PER_SECOND:
        seconds = behind_bytes / -growth
        # Below two minutes, seconds alone are easier to read.
        time_left = f"{seconds:.0f}\u00a0s" if seconds < 120 else age_words(seconds)
        return f"{text}, catching up at {bytes_words(-growth)}/s, about {time_left} to go"
    if growth > STEADY_BYTES_PER_SECOND:
        return f"{text} and falling behind, by {bytes_words(growth)}/s"
    return f"{text}, neither catching up nor falling behind"


def behind(reading: SlotReading, behind_bytes: int) -> Health:
    """Return the finding about a reader that is behind.

    A reader that falls further behind needs a look sooner than one that catches up.
    """
    growth = reading.behind_growth_bytes_per_second
    falls_behind = growth is not None and growth > STEADY_BYTES_PER_SECOND
    is_far = behind_bytes > (4 * BEHIND_BYTES if falls_behind else FAR_BEHIND_BYTES)
    return Health(
        level=Level.LOOK if is_far else Level.OK,
        title=f"{behind_words(behind_bytes, growth)}.",
        cause="It is written faster than it is read." if falls_behind else "",
    )

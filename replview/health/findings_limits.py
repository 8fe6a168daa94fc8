"""This module finds the limits that are not sizes of WAL.

They are: time without a reader, XIDs, and conflicts on a standby. The functions run no queries.
"""

from collections.abc import Iterator
from dataclasses import replace

from replview.health.conditions import BY_IDLE, LossEstimate, idle_timeout, later_loss, loss_by_idle
from replview.health.states import Health, Level, SlotReading
from replview.store.models import Slot, Source
from replview.text.formats import age_words

LOSS_SOON_SECONDS = 6 * 3600
#: Age of the oldest XID at which a server takes no more writes. Source: PostgreSQL, varsup.c,
#: ``SetTransactionIdLimit()``.
XID_STOP = (1 << 31) - 3_000_000
#: The default of vacuum_failsafe_age, from which vacuum gives up its other work.
_URGENT_XIDS = 1_600_000_000
_MANY_XIDS = 1_000_000_000


def loss_title(name: str, loss: LossEstimate) -> str:
    """Return a title that says when the slot is lost: in how long, or at the next checkpoint."""
    if loss.at_checkpoint:
        return f"{name} is lost at the source's next checkpoint."
    return f"{name} will be lost in about {age_words(loss.seconds)}."


def with_loss(health: Health, loss: LossEstimate | None) -> Health:
    """Return the finding with the estimated loss, even if the finding is about something else."""
    if loss is None:
        return replace(health, loss_seconds=None)
    return replace(health, loss_seconds=loss.seconds, loss_span=loss.span, loss_by=loss.by)


def later_words(
    source: Source, reading: SlotReading, first: LossEstimate, slot: Slot | None = None
) -> str:
    """Return a sentence about the limit that comes next; empty where none is in sight."""
    later = later_loss(source, reading, first, slot)
    if later is None:
        return ""
    return f" That comes before {later.by}, which would end it in about {age_words(later.seconds)}."


def of_idle(
    name: str, source: Source, reading: SlotReading, loss: LossEstimate, slot: Slot | None = None
) -> Health:
    """Return the finding that the server will invalidate the slot because nobody reads it.

    ``loss`` is the loss that comes first, by ``idle_replication_slot_timeout``.
    """
    timeout = idle_timeout(source) or 0
    half_over = loss.seconds <= timeout / 2
    allowance = f"{BY_IDLE} allows a slot {age_words(timeout)} without a consumer"
    consequence = (
        "which is over" if loss.at_checkpoint else "and the next checkpoint then invalidates it"
    )
    return Health(
        level=Level.NOW if half_over and loss.seconds < LOSS_SOON_SECONDS else Level.LOOK,
        title=loss_title(name, loss),
        cause=f"{allowance}, {consequence}.{later_words(source, reading, loss, slot)}",
        next_step=f"let its consumer read it{' at once' if loss.at_checkpoint else ''}, or raise "
        f"{BY_IDLE}.",
        loss_seconds=loss.seconds,
    )


def idle_words(source: Source, reading: SlotReading) -> str:
    """Return when ``idle_replication_slot_timeout`` ends the slot; empty where it does not run."""
    loss = loss_by_idle(source, reading)
    if loss is None:
        return ""
    return f" {BY_IDLE} ends it in about {age_words(loss.seconds)}."


def of_xids(name: str, reading: SlotReading) -> Iterator[Health]:
    """Yield a finding if the rows that the slot keeps bring its server near the end of its XIDs."""
    age = reading.xmin_age
    if age is None or age < _MANY_XIDS or reading.lost:
        return
    yield Health(
        level=Level.NOW if age >= _URGENT_XIDS else Level.LOOK,
        title=f"{name} holds vacuum back by {_millions(age)} transactions.",
        cause=f"After about {_millions(max(XID_STOP - age, 0))} more the source takes no more "
        "writes: its XIDs would run out.",
        next_step="let its consumer read it, or drop it.",
    )


def _millions(number: int) -> str:
    """Return ``1,100 million``."""
    return f"{number / 1e6:,.0f} million"


def of_conflict(name: str, source: Source) -> Iterator[Health]:
    """Yield a finding if the primary of this standby may remove rows that the slot needs."""
    if not at_conflict_risk(source):
        return
    yield Health(
        level=Level.LOOK,
        title=f"{name} can be lost at any moment: rows_removed.",
        cause="Its server is a standby with hot_standby_feedback = off: it invalidates the slot as "
        "soon as the primary removes rows that the slot needs.",
        next_step="set hot_standby_feedback = on, with a physical slot on the primary.",
    )


def at_conflict_risk(source: Source) -> bool:
    """Return whether vacuum on the primary may invalidate logical slots of this standby."""
    return source.in_recovery is True and source.hot_standby_feedback is False

"""What is to be said of limits that are not sizes of WAL: time without a reader, XIDs, conflicts
on a standby. Pure; no queries.
"""

from collections.abc import Iterator

from replview.health.conditions import BY_IDLE, Loss, idle_timeout, later_loss, loss_by_idle
from replview.health.states import Health, Level, Reading
from replview.store.models import Slot, Source
from replview.text.formats import age_words

LOSS_SOON_SECONDS = 6 * 3600
#: A server takes no more writes when its oldest XID is so old. Source: PostgreSQL, varsup.c,
#: ``SetTransactionIdLimit()``.
XID_STOP = (1 << 31) - 3_000_000
#: From here on vacuum gives up its other work (vacuum_failsafe_age).
_XIDS_NOW = 1_600_000_000
_XIDS_LOOK = 1_000_000_000


def loss_title(name: str, loss: Loss) -> str:
    """Say when a slot is lost: ``s is lost at the source's next checkpoint.``"""
    if loss.at_checkpoint:
        return f"{name} is lost at the source's next checkpoint."
    return f"{name} will be lost in about {age_words(loss.seconds)}."


def later_words(source: Source, reading: Reading, first: Loss, slot: Slot | None = None) -> str:
    """Say which limit would come next; empty where none is in sight."""
    later = later_loss(source, reading, first, slot)
    if later is None:
        return ""
    return f" That comes before {later.by}, which would end it in about {age_words(later.seconds)}."


def of_idle(
    name: str, source: Source, reading: Reading, loss: Loss, slot: Slot | None = None
) -> Health:
    """A slot that its server invalidates because nobody reads it, before any other limit does."""
    timeout = idle_timeout(source) or 0
    late = loss.seconds <= timeout / 2
    allows = f"{BY_IDLE} allows a slot {age_words(timeout)} without a reader"
    then = "which is over" if loss.at_checkpoint else "and the next checkpoint then invalidates it"
    return Health(
        level=Level.NOW if late and loss.seconds < LOSS_SOON_SECONDS else Level.LOOK,
        title=loss_title(name, loss),
        cause=f"{allows}, {then}.{later_words(source, reading, loss, slot)}",
        next_step=f"let it be read{' at once' if loss.at_checkpoint else ''}, or raise {BY_IDLE}.",
        loss_seconds=loss.seconds,
    )


def idle_words(source: Source, reading: Reading) -> str:
    """Say when the timeout of a slot that nobody reads ends it; empty where none runs."""
    loss = loss_by_idle(source, reading)
    if loss is None:
        return ""
    return f" {BY_IDLE} ends it in about {age_words(loss.seconds)}."


def of_xids(name: str, reading: Reading) -> Iterator[Health]:
    """A slot whose old rows bring its server near the end of its XIDs; the slot itself stays."""
    age = reading.xmin_age
    if age is None or age < _XIDS_LOOK or reading.lost:
        return
    yield Health(
        level=Level.NOW if age >= _XIDS_NOW else Level.LOOK,
        title=f"{name} holds vacuum back by {_millions(age)} transactions.",
        cause=f"After about {_millions(max(XID_STOP - age, 0))} more the source takes no more "
        "writes: its XIDs would run out.",
        next_step="let it be read, or drop it.",
    )


def _millions(number: int) -> str:
    """``1,100 million``."""
    return f"{number / 1e6:,.0f} million"


def of_conflict(name: str, source: Source) -> Iterator[Health]:
    """A logical slot on a standby that does not keep its primary from removing rows."""
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

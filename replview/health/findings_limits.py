"""What is to be said of a limit that is not a size of WAL: time without a reader. Pure."""

from replview.health.conditions import BY_IDLE, Loss, idle_timeout, later_loss, loss_by_idle
from replview.health.states import Health, Level, Reading
from replview.store.models import Slot, Source
from replview.text.formats import age_words

LOSS_SOON_SECONDS = 6 * 3600


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

"""This module decides the health of slots that replview only watches: the worst of all findings.

The functions run no queries.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from replview.health.conditions import foreseen_loss
from replview.health.findings_limits import idle_words, of_conflict, of_xids, with_loss
from replview.health.findings_wal import behind, lost, of_holder, of_wal
from replview.health.holding import BEHIND_BYTES, Cause
from replview.health.server_slot import ServerSlot
from replview.health.states import Health, Level, SlotReading, worst
from replview.text.formats import age_words, bytes_words

#: A slot needs a look once it is unread for this long: a reader may take as long to reconnect.
UNREAD_AFTER = timedelta(minutes=5)
#: A slot that was not read for this long seems to be needed by nobody.
FORGOTTEN_AFTER = timedelta(days=1)
#: A source that writes less WAL than this is idle.
_QUIET_BYTES_PER_SECOND = 16


def watched_health(
    slot: ServerSlot, reading: SlotReading, now: datetime, cause: Cause | None = None
) -> Health:
    """Return the worst finding about a slot that replview only watches.

    ``cause`` is what holds the slot back, where the caller knows it.
    """
    loss = foreseen_loss(slot.source, reading, now)
    return with_loss(worst(_findings(slot, reading, now, cause)), loss)


def forgotten(slot: ServerSlot, now: datetime) -> bool:
    """Return whether nobody seems to need the slot: unread for a day, or lost and not read."""
    if slot.active is not False or slot.synced or slot.gone_at is not None or slot.temporary:
        return False
    since = slot.inactive_since
    return bool(slot.lost) or (since is not None and now - since > FORGOTTEN_AFTER)


def _findings(
    slot: ServerSlot, reading: SlotReading, now: datetime, cause: Cause | None
) -> Iterator[Health]:
    """Yield every finding about the slot."""
    if slot.gone_at is not None:
        yield Health(
            level=Level.IDLE,
            title=f"{slot.name} is gone from the server.",
            cause=f"It was last seen {_age(slot.seen_at, now)} ago.",
        )
        return
    # A lost slot stays lost, even while the source does not answer.
    if (lost_slot := lost(slot.name, reading)) is not None:
        yield lost_slot
        return
    if not slot.fresh(now):
        yield Health(
            level=Level.UNKNOWN,
            title=f"{slot.name}: unknown for {_age(slot.seen_at, now)}.",
            cause="The source has not reported it since.",
        )
        return
    for finding in of_wal(slot.name, slot.source, reading, now, cause=cause):
        yield replace(finding, cause=f"{_unread_words(slot, now)}{finding.cause}")
    yield from of_holder(slot.name, reading, now, cause)
    yield from of_xids(slot.name, reading)
    if not (slot.physical or slot.synced):
        yield from of_conflict(slot.name, slot.source)
    if slot.active is None:
        yield Health(level=Level.UNKNOWN, title=f"{slot.name}: unknown whether it has a consumer.")
    elif slot.active:
        yield _read(slot, reading)
    else:
        yield _unread(slot, reading, now)


def _read(slot: ServerSlot, reading: SlotReading) -> Health:
    """Return the finding about a slot with a consumer: behind, idle or caught up."""
    behind_bytes = slot.behind_bytes
    if behind_bytes is None:
        return Health(
            level=Level.UNKNOWN,
            title=f"{slot.name}: unknown position of its consumer.",
            cause="It has not confirmed a position yet.",
        )
    if behind_bytes > BEHIND_BYTES:
        health = behind(reading, behind_bytes)
        return replace(health, title=f"{slot.name}: {health.title[0].lower()}{health.title[1:]}")
    bytes_per_second = reading.wal_bytes_per_second
    if bytes_per_second is not None and bytes_per_second < _QUIET_BYTES_PER_SECOND:
        return Health(
            level=Level.IDLE,
            title=f"{slot.name} is idle.",
            cause="The source writes no WAL; its consumer has confirmed everything.",
        )
    return Health(
        level=Level.OK,
        title=f"{slot.name} is caught up.",
        cause=f"{bytes_words(behind_bytes)} to go, which is normal.",
    )


def _unread(slot: ServerSlot, reading: SlotReading, now: datetime) -> Health:
    """Return the finding about a slot without a consumer: since when, and whether that matters."""
    if slot.synced:
        return Health(
            level=Level.OK,
            title=f"{slot.name} is synchronized from the primary.",
            cause="It waits for a failover and has no consumer here.",
        )
    if slot.reserves_none:
        return Health(
            level=Level.IDLE,
            title=f"{slot.name} was never used.",
            cause="It retains no WAL until its first use.",
            next_step="drop it if nobody needs it.",
        )
    reader = "no standby has streamed" if slot.physical else "it has had no consumer"
    since, retained_bytes = slot.inactive_since, slot.retained_wal_bytes
    retained = "unknown" if retained_bytes is None else bytes_words(retained_bytes)
    age = None if since is None else now - since
    needs_look = age is None or age > UNREAD_AFTER or (retained_bytes or 0) > BEHIND_BYTES
    unneeded = age is not None and age > FORGOTTEN_AFTER
    duration = "since an unknown time" if age is None else f"for {age_words(age)}"
    return Health(
        level=Level.LOOK if needs_look else Level.IDLE,
        title=f"{slot.name}: {reader} {duration}.",
        cause=f"The source keeps {retained} of WAL for it.{idle_words(slot.source, reading)}",
        next_step="drop it if nobody needs it." if unneeded else "start its consumer, or drop it.",
    )


def _unread_words(slot: ServerSlot, now: datetime) -> str:
    """Return the sentence for how long nobody has read the slot, the reason why its WAL grows."""
    if slot.active is not False or slot.inactive_since is None or slot.synced:
        return ""
    reader = "No standby has streamed" if slot.physical else "It has had no consumer"
    return f"{reader} for {age_words(now - slot.inactive_since)}. "


def _age(moment: datetime | None, now: datetime) -> str:
    return "an unknown time" if moment is None else age_words(now - moment)

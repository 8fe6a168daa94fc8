"""What is to be said of a slot that replview only watches: the worst of the rules speaks. Pure."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from replview.health.conditions import loss_seconds
from replview.health.findings_wal import BEHIND_BYTES, behind, lost, of_wal
from replview.health.server_slot import ServerSlot
from replview.health.states import Health, Level, Reading, worst
from replview.text.formats import age_words, bytes_words

#: A reader that reconnects takes this long.
UNREAD_AFTER = timedelta(minutes=5)
#: Nobody seems to need a slot that was not read for this long.
FORGOTTEN_AFTER = timedelta(days=1)
#: WAL that changes less than this is that of a source with nothing to do.
_QUIET_BYTES_PER_SECOND = 16


def watched_health(slot: ServerSlot, reading: Reading, now: datetime) -> Health:
    """The worst that is to be said of it."""
    loss = loss_seconds(slot.source, reading, now)
    return replace(worst(_findings(slot, reading, now)), loss_seconds=loss)


def forgotten(slot: ServerSlot, now: datetime) -> bool:
    """Whether nobody seems to need it: unread for a day, or lost and not read."""
    if slot.active is not False or slot.synced or slot.gone_at is not None or slot.temporary:
        return False
    since = slot.inactive_since
    return bool(slot.lost) or (since is not None and now - since > FORGOTTEN_AFTER)


def _findings(slot: ServerSlot, reading: Reading, now: datetime) -> Iterator[Health]:
    if slot.gone_at is not None:
        yield Health(
            level=Level.IDLE,
            title=f"{slot.name} is gone from the server.",
            cause=f"It was last seen {_age(slot.seen_at, now)} ago.",
        )
        return
    # Lost is for good: it stays so while the source does not answer.
    if (gone := lost(slot.name, reading)) is not None:
        yield gone
        return
    if not slot.fresh(now):
        yield Health(
            level=Level.UNKNOWN,
            title=f"{slot.name}: unknown for {_age(slot.seen_at, now)}.",
            cause="The source did not tell since.",
        )
        return
    for finding in of_wal(slot.name, slot.source, reading, now):
        yield replace(finding, cause=f"{_unread_words(slot, now)}{finding.cause}")
    if slot.active is None:
        yield Health(level=Level.UNKNOWN, title=f"{slot.name}: unknown whether anybody reads it.")
    elif slot.active:
        yield _read(slot, reading)
    else:
        yield _unread(slot, now)


def _read(slot: ServerSlot, reading: Reading) -> Health:
    """Somebody reads it: how far behind that reader is."""
    behind_bytes = slot.behind_bytes
    if behind_bytes is None:
        return Health(
            level=Level.UNKNOWN,
            title=f"{slot.name}: unknown how far its reader is.",
            cause="It has not confirmed a position yet.",
        )
    if behind_bytes > BEHIND_BYTES:
        found = behind(reading, behind_bytes)
        return replace(found, title=f"{slot.name}: {found.title[0].lower()}{found.title[1:]}")
    pace = reading.wal_bytes_per_second
    if pace is not None and pace < _QUIET_BYTES_PER_SECOND:
        return Health(
            level=Level.IDLE,
            title=f"{slot.name} is idle.",
            cause="The source writes no WAL; its reader has confirmed all of it.",
        )
    return Health(
        level=Level.OK,
        title=f"{slot.name} is caught up.",
        cause=f"{bytes_words(behind_bytes)} to go, which is less than any reader is behind.",
    )


def _unread(slot: ServerSlot, now: datetime) -> Health:
    """Nobody reads it: since when, and whether that is to be minded."""
    if slot.synced:
        return Health(
            level=Level.OK,
            title=f"{slot.name} is kept in step with the primary's.",
            cause="It waits for a failover: nobody reads it here.",
        )
    if slot.reserves_none:
        return Health(
            level=Level.IDLE,
            title=f"{slot.name} was never used.",
            cause="It retains no WAL until its first reader comes.",
            next_step="drop it if nobody needs it.",
        )
    reader = "no standby has streamed" if slot.physical else "nobody has read it"
    since = slot.inactive_since
    held = (
        bytes_words(slot.retained_wal_bytes) if slot.retained_wal_bytes is not None else "unknown"
    )
    cause = f"The source keeps {held} of WAL for it."
    if since is None:
        return Health(
            level=Level.LOOK,
            title=f"{slot.name}: {reader} since an unknown time.",
            cause=cause,
            next_step="start its reader, or drop it.",
        )
    age = now - since
    minded = age > UNREAD_AFTER or (slot.retained_wal_bytes or 0) > BEHIND_BYTES
    return Health(
        level=Level.LOOK if minded else Level.IDLE,
        title=f"{slot.name}: {reader} for {age_words(age)}.",
        cause=cause,
        next_step="drop it if nobody needs it."
        if age > FORGOTTEN_AFTER
        else "start its reader, or drop it.",
    )


def _unread_words(slot: ServerSlot, now: datetime) -> str:
    """Why the WAL grows, before how: nobody reads the slot."""
    if slot.active is not False or slot.inactive_since is None or slot.synced:
        return ""
    reader = "No standby has streamed" if slot.physical else "Nobody has read it"
    return f"{reader} for {age_words(now - slot.inactive_since)}. "


def _age(moment: datetime | None, now: datetime) -> str:
    return "an unknown time" if moment is None else age_words(now - moment)

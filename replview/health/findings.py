"""This module decides the health of a slot and of a source: the worst finding of all rules.

For example, a slot that is silent *and* about to be lost is reported as about to be lost. The
functions run no queries.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from replview.health.conditions import LossEstimate, foreseen_loss
from replview.health.findings_limits import idle_words, of_conflict, of_xids
from replview.health.findings_wal import behind, lost, of_holder, of_wal
from replview.health.holding import BEHIND_BYTES, Cause, Holder
from replview.health.server_slot import ServerSlot
from replview.health.states import Health, Level, OldestPrepared, SlotReading, worst
from replview.store.models import Slot, Source
from replview.store.receiver_workers import SLOTS_PER_WORKER
from replview.store.retention.size import STOPPED as STORE_FULL
from replview.store.slot_budget import DROPPED
from replview.store.slot_control import GIVEN_UP
from replview.text.formats import age_words, bytes_words, plural, short_words

#: A receiver writes its heartbeat about once a second: after this long we know nothing of it.
SILENT_AFTER = timedelta(seconds=15)
IDLE_AFTER = timedelta(minutes=1)
PREPARED_LONG = timedelta(minutes=5)
#: Problems that cut replview off from the server, so that the state of the slot is unknown.
CUT_OFF = {"unreachable", "unknown_host", "starting_up", "restarting", "cut_off"}
#: The problem code of a change that could not be stored: the slot waits for a decision.
QUARANTINED = "quarantined"
#: A slot needs a look once it is unread for this long: a reader may take as long to reconnect.
UNREAD_AFTER = timedelta(minutes=5)
#: A slot that was not read for this long seems to be needed by nobody.
FORGOTTEN_AFTER = timedelta(days=1)
#: A lapse of publication is reported for this long after it was noticed.
LAPSE_SHOWN_FOR = timedelta(minutes=10)
#: A source that writes less WAL than this is idle.
_QUIET_BYTES_PER_SECOND = 16


def slot_health(
    slot: Slot,
    reading: SlotReading,
    prepared: OldestPrepared | None,
    now: datetime,
    cause: Cause | None = None,
    full_workers: int = 0,
) -> Health:
    """Return the worst finding about a slot.

    ``cause`` is what holds the slot back, where the caller knows it. ``full_workers`` is the number
    of running workers if all of them are full, and 0 if one has room for the slot.
    """
    loss = foreseen_loss(slot.source, reading, now, slot)
    waits = full_workers > 0 and waits_for_worker(slot, now)
    room = _without_room(slot, full_workers) if waits else None
    return _with_loss(worst(_findings(slot, reading, prepared, now, cause, room)), loss)


def waits_for_worker(slot: Slot, now: datetime) -> bool:
    """Return whether the slot should be received and no worker has it."""
    wanted = slot.desired == Slot.Desired.RUNNING and not slot.temporary
    return wanted and (slot.heartbeat_at is None or now - slot.heartbeat_at > SILENT_AFTER)


def _without_room(slot: Slot, full_workers: int) -> Health:
    """Return the finding that the slot waits because every worker is full."""
    most, run = SLOTS_PER_WORKER, plural(full_workers, "worker")
    return Health(
        level=Level.LOOK,
        title=f"{slot.name} is not received: every worker has its {most} slots.",
        cause=f"{run} for slots {'runs' if full_workers == 1 else 'run'}, and one takes {most} at "
        "most. The source keeps WAL for the slot meanwhile.",
        next_step=f"add a worker: replview up --receivers {full_workers + 1}, or where processes "
        "are started one by one, another replview up --only receivers --name NAME.",
    )


def _not_taken(slot: Slot, now: datetime) -> Health:
    """Return the finding that no worker has had the slot yet, or that the last one gave it back."""
    late = now - slot.state_since > SILENT_AFTER
    return Health(
        level=Level.UNKNOWN,
        title=f"{slot.name} has no receiver yet.",
        cause=f"It waits for a worker to take it; one takes {SLOTS_PER_WORKER} slots at most.",
        next_step="check that a worker for slots runs: replview up." if late else "",
    )


def _with_loss(health: Health, loss: LossEstimate | None) -> Health:
    """Return the finding with the estimated loss, even if the finding is about something else."""
    if loss is None:
        return replace(health, loss_seconds=None)
    return replace(health, loss_seconds=loss.seconds, loss_span=loss.span, loss_by=loss.by)


def source_health(source: Source, slots: Iterable[Health], now: datetime) -> Health:
    """Return the worst finding about a source and its slots."""
    if source.removing_at is not None:
        return Health(
            level=Level.IDLE,
            title=f"{source.name} is being removed.",
            cause="It is removed when the history of its slots is deleted.",
        )
    findings = list(slots)
    if source.problem_code:
        findings.append(
            Health(
                level=Level.LOOK if findings else Level.UNKNOWN,
                title=f"Cannot read the catalog: {_clause(source.problem_cause)}.",
                next_step=_step(source.problem_remedy),
            )
        )
    if not findings:
        return Health(
            level=Level.IDLE,
            title="No slots yet.",
            cause="This source is not recorded.",
            next_step="add a slot.",
        )
    return worst(findings)


def _findings(
    slot: Slot,
    reading: SlotReading,
    prepared: OldestPrepared | None,
    now: datetime,
    cause: Cause | None,
    room: Health | None,
) -> Iterator[Health]:
    """Yield every finding; ``room`` is the finding that no worker has room for the slot, if so."""
    if slot.desired == Slot.Desired.REMOVING:
        yield Health(level=Level.IDLE, title=f"{slot.name} is being removed.")
        return
    long = prepared if prepared and now - prepared.prepared_at > PREPARED_LONG else None
    gone = lost(slot.name, reading) or _gone(slot, reading)
    if gone is not None:
        yield gone
    else:
        for finding in of_wal(slot.name, slot.source, reading, now, slot, cause):
            # The slot is read again only when it gets a worker.
            yield finding if room is None else replace(finding, next_step=room.next_step)
        yield from of_holder(slot.name, reading, now, cause)
        yield from of_xids(slot.name, reading)
        yield from of_conflict(slot.name, slot.source)
    yield from _of_receiver(slot, reading, now)
    if room is not None:
        yield room
    yield from _of_publications(slot, now)
    if long is not None:
        age = age_words(now - long.prepared_at)
        yield Health(
            level=Level.LOOK,
            title=f"A prepared transaction has been open for {age}.",
            cause=f"{long.gid} holds WAL and blocks vacuum.",
            next_step=Holder(kind="prepared", name=long.gid).next_step,
        )


def lapse_of_late(slot: Slot, now: datetime) -> str:
    """Return the text of the last lapse of publication if it was noticed lately, else empty."""
    noted_at = slot.lapse_noted_at
    return slot.lapse_text if noted_at is not None and now - noted_at < LAPSE_SHOWN_FOR else ""


def _of_publications(slot: Slot, now: datetime) -> Iterator[Health]:
    """Yield findings about the publications: no table is sent, or the sent tables changed."""
    if slot.published_tables == 0 and slot.plugin == "pgoutput":
        yield Health(
            level=Level.LOOK,
            title=f"{slot.name} receives no table.",
            cause=f"Nothing is published by {' or '.join(slot.publications) or 'no publication'}.",
            next_step="publish tables on the source (ALTER PUBLICATION … ADD TABLE …).",
        )
    if lapse := lapse_of_late(slot, now):
        yield Health(
            level=Level.LOOK,
            title=f"The published tables of {slot.name} have changed.",
            cause=lapse,
            next_step="take a baseline of the table, so that its rows are known again.",
        )


def _gone(slot: Slot, reading: SlotReading) -> Health | None:
    """Return the finding that the server no longer has the slot, or None.

    A temporary slot ends with its connection. A slot that replview dropped at its budget has a
    finding from ``_of_receiver``.
    """
    if reading.gone_at is None or slot.temporary or slot.problem_code in (DROPPED, GIVEN_UP):
        return None
    return Health(
        level=Level.NOW,
        title=f"{slot.name} is gone from the server.",
        cause="It was dropped, or the address leads to another server.",
        next_step="create it again; history will show a gap.",
    )


def _stopped(slot: Slot, reading: SlotReading) -> Health:
    """Return the finding that the slot is stopped, with the reason."""
    problem = _clause(slot.problem_cause)
    problem = problem[:1].upper() + problem[1:]
    if slot.problem_code in (DROPPED, STORE_FULL):
        dropped = slot.problem_code == DROPPED
        what = "was dropped at its WAL" if dropped else "is stopped: the store reached its"
        return Health(
            level=Level.NOW,
            title=f"{slot.name} {what} budget.",
            cause=f"{problem}." if problem else "",
            next_step=_step(slot.problem_remedy),
        )
    if slot.problem_code == GIVEN_UP:
        return Health(
            level=Level.IDLE,
            title=f"{slot.name} was dropped on its source; its history is kept.",
            cause=f"{problem}. The source retains no WAL for it.",
            next_step="start it to create it again, or remove it with its history.",
        )
    return Health(
        level=Level.LOOK,
        title=f"{slot.name} is stopped.",
        cause="It has no consumer, and the source retains WAL for it."
        + idle_words(slot.source, reading),
        next_step="start it or remove it.",
    )


def _of_receiver(slot: Slot, reading: SlotReading, now: datetime) -> Iterator[Health]:
    problem = _clause(slot.problem_cause)
    if slot.desired == Slot.Desired.STOPPED:
        yield _stopped(slot, reading)
    elif slot.problem_code and slot.problem_code not in CUT_OFF and not _streams(slot):
        yield _held_up(slot, problem, now)
    elif slot.heartbeat_at is None:
        yield _not_taken(slot, now)
    elif (silent := now - slot.heartbeat_at > SILENT_AFTER) or not _streams(slot):
        since, why = slot.state_since, str(slot.state)
        if silent:
            since, why = slot.heartbeat_at, "no heartbeat from the receiver"
        last = slot.last_stored_at
        stored = f"Last commit stored {age_words(now - last)} ago. " if last else ""
        yield Health(
            level=Level.UNKNOWN,
            title=f"Unknown for {age_words(now - since)}: {problem or why}.",
            cause=f"{stored}{_retry(slot, now)}".strip(),
            next_step="" if silent else _step(slot.problem_remedy),
        )
    else:
        yield _streaming(slot, reading, now)


def _held_up(slot: Slot, problem: str, now: datetime) -> Health:
    """Return the finding that the slot is not received, with the reason from server or store."""
    if slot.problem_code == QUARANTINED:
        why = f"{problem[:1].upper()}{problem[1:]}. " if problem else ""
        return Health(
            level=Level.NOW,
            title=f"{slot.name} is stopped by a change that could not be stored.",
            cause=f"{why}Nothing after it is received.",
            next_step="on the slot's page, try again once that is fixed, or skip the transaction.",
        )
    failed = slot.state == Slot.State.FAILED
    return Health(
        level=Level.NOW if failed else Level.LOOK,
        title=f"{slot.name} does not receive: {problem or slot.problem_code}.",
        cause=_retry(slot, now) or "It is not retried automatically.",
        next_step=_step(slot.problem_remedy),
    )


def _streams(slot: Slot) -> bool:
    return slot.state == Slot.State.STREAMING


def _streaming(slot: Slot, reading: SlotReading, now: datetime) -> Health:
    if slot.server_lsn is not None and slot.checkpoint_lsn is not None:
        behind_bytes = int(slot.server_lsn) - int(slot.checkpoint_lsn)
        if behind_bytes > BEHIND_BYTES:
            return behind(reading, behind_bytes)
    last = slot.last_stored_at
    if last is None or now - last > IDLE_AFTER:
        since = f"for {age_words(now - last)}" if last else "since it was connected"
        return Health(
            level=Level.IDLE,
            title=f"Idle {since}.",
            cause="No commits on its published tables; the position is confirmed.",
        )
    cause = f"Last commit stored {age_words(now - last)} ago"
    if reading.stored_after_p50_us is not None and reading.stored_after_p99_us is not None:
        p50, p99 = reading.stored_after_p50_us, reading.stored_after_p99_us
        cause += f", after {short_words(p50)} (p99 {short_words(p99)})"
    return Health(level=Level.OK, title="Caught up.", cause=f"{cause}.")


def _retry(slot: Slot, now: datetime) -> str:
    if slot.retry_at is None:
        return ""
    if slot.retry_at <= now:
        return "Trying again now."
    return f"Next attempt in {age_words(slot.retry_at - now)}."


def _clause(sentence: str) -> str:
    return sentence.strip().rstrip(".")


def _step(remedy: str) -> str:
    """Return a remedy as the end of a sentence; empty for SQL of several lines.

    The slot's page shows such SQL in a block of its own.
    """
    remedy = remedy.strip()
    return "" if not remedy or "\n" in remedy else remedy


def watched_health(
    slot: ServerSlot, reading: SlotReading, now: datetime, cause: Cause | None = None
) -> Health:
    """Return the worst finding about a slot that replview only watches.

    ``cause`` is what holds the slot back, where the caller knows it.
    """
    loss = foreseen_loss(slot.source, reading, now)
    return _with_loss(worst(_watched_findings(slot, reading, now, cause)), loss)


def forgotten(slot: ServerSlot, now: datetime) -> bool:
    """Return whether nobody seems to need the slot: unread for a day, or lost and not read."""
    if slot.active is not False or slot.synced or slot.gone_at is not None or slot.temporary:
        return False
    since = slot.inactive_since
    return bool(slot.lost) or (since is not None and now - since > FORGOTTEN_AFTER)


def _watched_findings(
    slot: ServerSlot, reading: SlotReading, now: datetime, cause: Cause | None
) -> Iterator[Health]:
    if slot.gone_at is not None:
        yield Health(
            level=Level.IDLE,
            title=f"{slot.name} is gone from the server.",
            cause=f"It was last seen {_age(slot.seen_at, now)} ago.",
        )
        return
    # A lost slot stays lost, even while the source does not answer.
    if (gone := lost(slot.name, reading)) is not None:
        yield gone
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
    """Return how far behind the reader of a slot is that somebody reads."""
    behind_bytes = slot.behind_bytes
    if behind_bytes is None:
        return Health(
            level=Level.UNKNOWN,
            title=f"{slot.name}: unknown position of its consumer.",
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
            cause="The source writes no WAL; its consumer has confirmed everything.",
        )
    return Health(
        level=Level.OK,
        title=f"{slot.name} is caught up.",
        cause=f"{bytes_words(behind_bytes)} to go, which is normal.",
    )


def _unread(slot: ServerSlot, reading: SlotReading, now: datetime) -> Health:
    """Return since when nobody reads the slot, and whether that needs a look."""
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
    since = slot.inactive_since
    retained = slot.retained_wal_bytes
    held = "unknown" if retained is None else bytes_words(retained)
    age = None if since is None else now - since
    minded = age is None or age > UNREAD_AFTER or (retained or 0) > BEHIND_BYTES
    unneeded = age is not None and age > FORGOTTEN_AFTER
    step = "drop it if nobody needs it." if unneeded else "start its consumer, or drop it."
    when = "since an unknown time" if age is None else f"for {age_words(age)}"
    return Health(
        level=Level.LOOK if minded else Level.IDLE,
        title=f"{slot.name}: {reader} {when}.",
        cause=f"The source keeps {held} of WAL for it.{idle_words(slot.source, reading)}",
        next_step=step,
    )


def _unread_words(slot: ServerSlot, now: datetime) -> str:
    """Return for how long nobody has read the slot, as the reason why its WAL grows."""
    if slot.active is not False or slot.inactive_since is None or slot.synced:
        return ""
    reader = "No standby has streamed" if slot.physical else "It has had no consumer"
    return f"{reader} for {age_words(now - slot.inactive_since)}. "


def _age(moment: datetime | None, now: datetime) -> str:
    return "an unknown time" if moment is None else age_words(now - moment)

"""This module decides the health of the slots that replview receives, and of their sources.

Health is the worst finding of all rules: a slot that is silent *and* about to be lost is reported
as about to be lost. ``findings_watched`` does the same for slots that replview only watches. The
functions run no queries.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from django.utils.text import capfirst

from replview.health.conditions import foreseen_loss
from replview.health.findings_limits import idle_words, of_conflict, of_xids, with_loss
from replview.health.findings_wal import behind, lost, of_holder, of_wal
from replview.health.holding import BEHIND_BYTES, Cause, Holder
from replview.health.states import Health, Level, OldestPrepared, SlotReading, worst
from replview.store.models import Slot, Source
from replview.store.receiver_workers import SLOTS_PER_WORKER
from replview.store.retention.size import STOPPED as STORE_FULL
from replview.store.slot_budget import DROPPED
from replview.store.slot_control import GIVEN_UP
from replview.text.formats import age_words, plural, short_words

#: A receiver writes its heartbeat about once a second: after this long we know nothing of it.
SILENT_AFTER = timedelta(seconds=15)
IDLE_AFTER = timedelta(minutes=1)
PREPARED_LONG = timedelta(minutes=5)
#: Problems that cut replview off from the server, so that the state of the slot is unknown.
CUT_OFF = {"unreachable", "unknown_host", "starting_up", "restarting", "cut_off"}
#: The problem code of a change that could not be stored: the slot waits for a decision.
QUARANTINED = "quarantined"
#: A lapse of publication is reported for this long after it was noticed.
LAPSE_SHOWN_FOR = timedelta(minutes=10)


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
    no_room = _without_room(slot, full_workers) if waits else None
    return with_loss(worst(_findings(slot, reading, prepared, now, cause, no_room)), loss)


def waits_for_worker(slot: Slot, now: datetime) -> bool:
    """Return whether the slot should be received and no worker has it."""
    should_run = slot.desired == Slot.Desired.RUNNING and not slot.temporary
    return should_run and (slot.heartbeat_at is None or now - slot.heartbeat_at > SILENT_AFTER)


def _without_room(slot: Slot, full_workers: int) -> Health:
    """Return the finding that the slot waits because every worker is full."""
    workers, verb = plural(full_workers, "worker"), "runs" if full_workers == 1 else "run"
    return Health(
        level=Level.LOOK,
        title=f"{slot.name} is not received: every worker has its {SLOTS_PER_WORKER} slots.",
        cause=f"{workers} for slots {verb}, and one takes {SLOTS_PER_WORKER} at most. The source "
        "keeps WAL for the slot meanwhile.",
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
    no_room: Health | None,
) -> Iterator[Health]:
    """Yield every finding; ``no_room`` is the one that every worker is full, or None."""
    if slot.desired == Slot.Desired.REMOVING:
        yield Health(level=Level.IDLE, title=f"{slot.name} is being removed.")
        return
    unusable = lost(slot.name, reading) or _gone(slot, reading)
    if unusable is not None:
        yield unusable
    else:
        for finding in of_wal(slot.name, slot.source, reading, now, slot, cause):
            # The slot is read again only when it gets a worker.
            yield finding if no_room is None else replace(finding, next_step=no_room.next_step)
        yield from of_holder(slot.name, reading, now, cause)
        yield from of_xids(slot.name, reading)
        yield from of_conflict(slot.name, slot.source)
    yield from _of_receiver(slot, reading, now)
    if no_room is not None:
        yield no_room
    yield from _of_publications(slot, now)
    if prepared is not None and now - prepared.prepared_at > PREPARED_LONG:
        age = age_words(now - prepared.prepared_at)
        yield Health(
            level=Level.LOOK,
            title=f"A prepared transaction has been open for {age}.",
            cause=f"{prepared.gid} holds WAL and blocks vacuum.",
            next_step=Holder(kind="prepared", name=prepared.gid).next_step,
        )


def recent_lapse(slot: Slot, now: datetime) -> str:
    """Return the text of the last lapse of publication while it is recent, else empty."""
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
    if lapse := recent_lapse(slot, now):
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
    problem = capfirst(_clause(slot.problem_cause))
    if slot.problem_code in (DROPPED, STORE_FULL):
        dropped = slot.problem_code == DROPPED
        event = "was dropped at its WAL" if dropped else "is stopped: the store reached its"
        return Health(
            level=Level.NOW,
            title=f"{slot.name} {event} budget.",
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
    """Yield the finding about the slot's receiver: stopped, held up, silent or at work."""
    problem = _clause(slot.problem_cause)
    if slot.desired == Slot.Desired.STOPPED:
        yield _stopped(slot, reading)
    elif slot.problem_code and slot.problem_code not in CUT_OFF and not _streams(slot):
        yield _held_up(slot, problem, now)
    elif slot.heartbeat_at is None:
        yield _not_taken(slot, now)
    elif (silent := now - slot.heartbeat_at > SILENT_AFTER) or not _streams(slot):
        since, reason = slot.state_since, str(slot.state)
        if silent:
            since, reason = slot.heartbeat_at, "no heartbeat from the receiver"
        stored_at = slot.last_stored_at
        stored = f"Last commit stored {age_words(now - stored_at)} ago. " if stored_at else ""
        yield Health(
            level=Level.UNKNOWN,
            title=f"Unknown for {age_words(now - since)}: {problem or reason}.",
            cause=f"{stored}{_retry(slot, now)}".strip(),
            next_step="" if silent else _step(slot.problem_remedy),
        )
    else:
        yield _streaming(slot, reading, now)


def _held_up(slot: Slot, problem: str, now: datetime) -> Health:
    """Return the finding that the slot is not received, with the reason from server or store."""
    if slot.problem_code == QUARANTINED:
        reason = f"{capfirst(problem)}. " if problem else ""
        return Health(
            level=Level.NOW,
            title=f"{slot.name} is stopped by a change that could not be stored.",
            cause=f"{reason}Nothing after it is received.",
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
    """Return the finding about a slot that streams: behind, idle or caught up."""
    if slot.server_lsn is not None and slot.checkpoint_lsn is not None:
        behind_bytes = int(slot.server_lsn) - int(slot.checkpoint_lsn)
        if behind_bytes > BEHIND_BYTES:
            return behind(reading, behind_bytes)
    stored_at = slot.last_stored_at
    if stored_at is None or now - stored_at > IDLE_AFTER:
        since = f"for {age_words(now - stored_at)}" if stored_at else "since it was connected"
        return Health(
            level=Level.IDLE,
            title=f"Idle {since}.",
            cause="No commits on its published tables; the position is confirmed.",
        )
    cause = f"Last commit stored {age_words(now - stored_at)} ago"
    if reading.stored_after_p50_us is not None and reading.stored_after_p99_us is not None:
        p50, p99 = reading.stored_after_p50_us, reading.stored_after_p99_us
        cause += f", after {short_words(p50)} (p99 {short_words(p99)})"
    return Health(level=Level.OK, title="Caught up.", cause=f"{cause}.")


def _retry(slot: Slot, now: datetime) -> str:
    """Return the sentence about the next attempt; empty where none is planned."""
    if slot.retry_at is None:
        return ""
    if slot.retry_at <= now:
        return "Trying again now."
    return f"Next attempt in {age_words(slot.retry_at - now)}."


def _clause(sentence: str) -> str:
    """Return a sentence without its full stop."""
    return sentence.strip().rstrip(".")


def _step(remedy: str) -> str:
    """Return a remedy as the end of a sentence; empty for SQL of several lines.

    The slot's page shows such SQL in a block of its own.
    """
    remedy = remedy.strip()
    return "" if not remedy or "\n" in remedy else remedy

"""What is to be said of a slot and of a source: each rule a finding, and the worst speaks.

So a slot which is silent *and* about to be lost says the second. Pure; no queries.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from replview.store.models import Slot, Source
from replview.web.health import Health, Level, Prepared, Reading, worst
from replview.web.words import age_words, bytes_words, short_words

#: A receiver writes its heartbeat about once a second: after this long we know nothing of it.
SILENT_AFTER = timedelta(seconds=15)
IDLE_AFTER = timedelta(minutes=1)
PREPARED_LONG = timedelta(minutes=5)
LOSS_SOON_SECONDS = 6 * 3600
LOSS_AHEAD_SECONDS = 24 * 3600
#: Troubles after which we do not know how the slot is; of any other the server told us.
CUT_OFF = {"unreachable", "unknown_host", "starting_up", "restarting", "cut_off"}
#: A change could not be stored: the slot waits for somebody's decision.
QUARANTINED = "quarantined"
BEHIND_BYTES = 16 << 20
#: Without a limit on the source, retained WAL worth a look.
MUCH_WAL_BYTES = 8 << 30


def slot_health(slot: Slot, reading: Reading, prepared: Prepared | None, now: datetime) -> Health:
    """The worst that is to be said of a slot."""
    loss = loss_seconds(slot.source, reading, now)
    return replace(worst(_findings(slot, reading, prepared, now)), loss_seconds=loss)


def source_health(source: Source, slots: Iterable[Health], now: datetime) -> Health:
    """The worst of a source and its slots."""
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
            title="No slot yet.",
            cause="Nothing of this source is recorded.",
            next_step="add a slot.",
        )
    return worst(findings)


def loss_seconds(source: Source, reading: Reading, now: datetime) -> float | None:
    """Until the slot is lost, at the pace of the last minutes; None: not foreseeable."""
    left, growth = _left_bytes(source, reading), reading.growth_bytes_per_second
    if left is None or not growth or growth <= 0 or not reading.fresh(now):
        return None
    return max(left, 0) / growth


def _left_bytes(source: Source, reading: Reading) -> int | None:
    limit = source.max_slot_wal_keep_bytes
    if reading.safe_wal_bytes is not None:
        return reading.safe_wal_bytes
    if limit is None or limit < 0 or reading.retained_wal_bytes is None:
        return None
    return limit - reading.retained_wal_bytes


def _findings(
    slot: Slot, reading: Reading, prepared: Prepared | None, now: datetime
) -> Iterator[Health]:
    if slot.desired == Slot.Desired.REMOVING:
        yield Health(level=Level.IDLE, title=f"{slot.name} is being removed.")
        return
    yield from _of_wal(slot, reading, now)
    yield from _of_receiver(slot, reading, now)
    if prepared and now - prepared.prepared_at > PREPARED_LONG:
        age = age_words(now - prepared.prepared_at)
        yield Health(
            level=Level.LOOK,
            title=f"A prepared transaction has been open for {age}.",
            cause=f"{prepared.gid} holds WAL and blocks vacuum.",
            next_step="commit it or roll it back.",
        )


def _of_wal(slot: Slot, reading: Reading, now: datetime) -> Iterator[Health]:
    if reading.wal_status == "lost":
        yield Health(
            level=Level.NOW,
            title=f"{slot.name} is lost.",
            cause="The source removed WAL which the slot still needed.",
            next_step="drop it and create it anew; history will show a gap.",
        )
        return
    retained, limit = reading.retained_wal_bytes, slot.source.max_slot_wal_keep_bytes
    if retained is None or not reading.fresh(now):
        return
    if limit is None or limit < 0:
        if retained > MUCH_WAL_BYTES:
            yield Health(
                level=Level.LOOK,
                title=f"{slot.name} retains {bytes_words(retained)} of WAL.",
                cause="The source sets no limit: it can fill the disk.",
                next_step="set max_slot_wal_keep_size.",
            )
        return
    loss = loss_seconds(slot.source, reading, now)
    share = retained / limit if limit else 1.0
    soon = loss is not None and loss < LOSS_SOON_SECONDS
    ahead = loss is not None and loss < LOSS_AHEAD_SECONDS
    if share >= 0.9 or (share >= 0.5 and soon) or reading.wal_status == "unreserved":
        level = Level.NOW
    elif share >= 0.5 or (share >= 0.1 and ahead):
        level = Level.LOOK
    else:
        return
    growing = reading.growth_bytes_per_second or 0
    yield Health(
        level=level,
        title=f"{slot.name} will be lost in about {age_words(loss)}."
        if loss is not None
        else f"{slot.name} retains {bytes_words(retained)} of {bytes_words(limit)}.",
        cause=f"WAL grows {bytes_words(growing)}/s towards the limit of {bytes_words(limit)}."
        if growing > 0
        else "At the limit the slot is lost.",
        next_step="let it be read, raise the limit, or drop it.",
        loss_seconds=loss,
    )


def _of_receiver(slot: Slot, reading: Reading, now: datetime) -> Iterator[Health]:
    problem = _clause(slot.problem_cause)
    if slot.desired == Slot.Desired.STOPPED:
        yield Health(
            level=Level.LOOK,
            title=f"{slot.name} is stopped.",
            cause="Nobody reads it, and the source keeps WAL for it.",
            next_step="start it or remove it.",
        )
    elif slot.problem_code == QUARANTINED and not _streams(slot):
        yield Health(
            level=Level.NOW,
            title=f"{slot.name} is stopped by a change that could not be stored.",
            cause=f"{problem[:1].upper()}{problem[1:]}. Nothing after it is received."
            if problem
            else "Nothing after it is received.",
            next_step="on the slot's page, try again once that is mended, or skip the transaction.",
        )
    elif slot.problem_code and slot.problem_code not in CUT_OFF and not _streams(slot):
        failed = slot.state == Slot.State.FAILED
        yield Health(
            level=Level.NOW if failed else Level.LOOK,
            title=f"{slot.name} does not receive: {problem or slot.problem_code}.",
            cause=_retry(slot, now) or "It is not tried again by itself.",
            next_step=_step(slot.problem_remedy),
        )
    elif slot.heartbeat_at is None:
        yield Health(
            level=Level.UNKNOWN,
            title=f"{slot.name} has not been heard of yet.",
            cause="It waits for a worker to take it.",
        )
    elif now - slot.heartbeat_at > SILENT_AFTER:
        yield Health(
            level=Level.UNKNOWN,
            title=f"Unknown for {age_words(now - slot.heartbeat_at)}: "
            f"{problem or 'no sign of life from the receiver'}.",
            cause=f"{_last_seen(slot, now)} {_retry(slot, now)}".strip(),
        )
    elif not _streams(slot):
        yield Health(
            level=Level.UNKNOWN,
            title=f"Unknown for {age_words(now - slot.state_since)}: {problem or slot.state}.",
            cause=f"{_last_seen(slot, now)} {_retry(slot, now)}".strip(),
            next_step=_step(slot.problem_remedy),
        )
    else:
        yield _streaming(slot, reading, now)


def _streams(slot: Slot) -> bool:
    return slot.state == Slot.State.STREAMING


def _streaming(slot: Slot, reading: Reading, now: datetime) -> Health:
    behind = (
        int(slot.server_lsn) - int(slot.checkpoint_lsn)
        if slot.server_lsn is not None and slot.checkpoint_lsn is not None
        else None
    )
    last = slot.last_stored_at
    if behind is not None and behind > BEHIND_BYTES:
        return Health(
            level=Level.LOOK if behind > 64 * BEHIND_BYTES else Level.OK,
            title=f"Catching up: {bytes_words(behind)} to go.",
        )
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


def _last_seen(slot: Slot, now: datetime) -> str:
    last = slot.last_stored_at
    return f"Last commit stored {age_words(now - last)} ago." if last else ""


def _retry(slot: Slot, now: datetime) -> str:
    if slot.retry_at is None:
        return ""
    if slot.retry_at <= now:
        return "Trying again now."
    return f"Next try in {age_words(slot.retry_at - now)}."


def _clause(sentence: str) -> str:
    return sentence.strip().rstrip(".")


def _step(remedy: str) -> str:
    """A remedy as the end of a sentence; SQL of several lines stays on the slot's own block."""
    remedy = remedy.strip()
    return "" if not remedy or "\n" in remedy else remedy

"""This module lists what to do about a slot now: steps, each with SQL or a command to copy.

replview runs none of them. Names that come from a server are quoted before they enter SQL. The
functions run no queries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

from replview.health.conditions import BY_IDLE, WalLimit, foreseen_loss, limit_of
from replview.health.findings_wal import explain
from replview.health.findings_watched import forgotten
from replview.health.holding import BEHIND_BYTES, Cause
from replview.health.open_transactions import LONG
from replview.health.server_slot import ServerSlot
from replview.health.states import SlotReading
from replview.store.models import Slot
from replview.store.read.sql_text import string
from replview.text.sizes import exact_size

_GB = 1 << 30
RELOAD = "SELECT pg_reload_conf();"
_CREATE_AGAIN = "Create it again: a new incarnation begins, and history shows the gap"


@dataclass(frozen=True, slots=True)
class RemedyStep:
    """A step: words, then the SQL or command to run (may be empty), then a note about it."""

    words: str
    run: str
    note: str = ""


def steps_of(
    server: ServerSlot, slot: Slot | None, reading: SlotReading, cause: Cause, now: datetime
) -> list[RemedyStep]:
    """Return the steps in the order in which to try them; empty: there is nothing to do.

    ``cause`` is what holds the slot back.
    """
    if server.gone_at is not None:
        return list(_gone_steps(server, slot))
    if server.lost:
        return list(_lost_steps(server, slot))
    if server.synced or not server.fresh(now):
        return []
    limit, near_limit = limit_of(server.source, slot, reading), _near_limit(server, slot, reading)
    steps = list(_holder_steps(server, cause, now, near_limit=near_limit))
    unread = server.active is False and cause.kind in ("nobody", "nothing")
    stuck = unread and (server.retained_wal_bytes is not None or server.text("restart_lsn") != "")
    if stuck and (slot is None or slot.desired == Slot.Desired.STOPPED):
        steps.append(_restart(server, slot))
    loss = foreseen_loss(server.source, reading, now, slot)
    if loss is not None and loss.by == BY_IDLE:
        steps.append(_let_idle())
    elif (stuck or steps) and near_limit:
        steps.append(_raise_limit(server, limit))
    if near_limit and limit.by == "none":
        steps.append(_set_limit(server))
    if unread and (slot is None or slot.desired == Slot.Desired.STOPPED):
        steps.append(_give_up(server, slot, now))
    return [step for step in steps if step.words]


def _near_limit(server: ServerSlot, slot: Slot | None, reading: SlotReading) -> bool:
    """Return whether the slot retains over a tenth of its limit, or over 1 GB without a limit."""
    retained = reading.retained_wal_bytes
    size = limit_of(server.source, slot, reading).size_bytes
    return retained is not None and retained > (size / 10 if size is not None else _GB)


def _gone_steps(server: ServerSlot, slot: Slot | None) -> Iterator[RemedyStep]:
    if slot is not None and slot.plugin == "pgoutput":
        yield RemedyStep(
            _CREATE_AGAIN, _command("start", server), "It shows its statements and asks."
        )
    elif slot is not None:
        yield _create(server, slot)


def _lost_steps(server: ServerSlot, slot: Slot | None) -> Iterator[RemedyStep]:
    yield RemedyStep("Drop it: it cannot be read any more", drop_statement(server))
    if not server.physical:
        yield _create(server, slot)
    yield RemedyStep(explain(server.lost).advice, "")


def _create(server: ServerSlot, slot: Slot | None) -> RemedyStep:
    """Return the step that creates the slot again with the options that it had."""
    options = [server.facts.get("two_phase") is True, server.facts.get("failover") is True]
    arguments = [_name(server), string(server.plugin or "pgoutput")]
    if any(options):
        arguments += ["false", *("true" if option else "false" for option in options)]
        arguments = arguments[: 5 if options[1] else 4]
    run = f"SELECT\n  pg_create_logical_replication_slot(\n    {', '.join(arguments)});"
    if slot is None:
        return RemedyStep("Create it again; its consumer must copy the tables again", run)
    note = f"If replview does not continue automatically: {_command('start', server)}"
    return RemedyStep(_CREATE_AGAIN, run, note)


def _holder_steps(
    server: ServerSlot, cause: Cause, now: datetime, *, near_limit: bool
) -> Iterator[RemedyStep]:
    """Yield how to end the transaction that holds the slot, if it is long open or WAL is short."""
    holder = cause.holder
    long_held = (server.retained_wal_bytes or 0) >= BEHIND_BYTES and cause.held_for(now) > LONG
    if holder is None or not (long_held or near_limit) or not holder.ends:
        return
    if holder.kind == "prepared":
        keep, discard = holder.ends
        where = f"In database {holder.database}. " if holder.database else ""
        yield RemedyStep(
            "End the prepared transaction that holds it: keep its changes",
            keep.sql,
            f"{where}Ask the application's owner whether to commit or roll back.",
        )
        yield RemedyStep("Or discard them", discard.sql)
    else:
        [end] = holder.ends
        yield RemedyStep(
            f"End {holder.words}, which discards it",
            end.sql,
            "It ends that session only while it still runs this transaction.",
        )


def _restart(server: ServerSlot, slot: Slot | None) -> RemedyStep:
    if slot is not None:
        return RemedyStep("Start it", _command("start", server))
    columns = "active_pid, safe_wal_size"
    check = f"SELECT {columns}\n  FROM pg_replication_slots\n WHERE slot_name = {_name(server)};"  # noqa: S608 (to be copied)
    reader = "its standby" if server.physical else "its consumer"
    return RemedyStep(f"Restart {reader}, then check", check)


def _raise_limit(server: ServerSlot, limit: WalLimit) -> RemedyStep:
    """Return the step that raises the limit that is reached first: the server's or our budget."""
    if limit.size_bytes is None:
        return RemedyStep("", "")
    size = exact_size(2 * limit.size_bytes)
    if limit.by == "server":
        run = f"ALTER SYSTEM SET\n  max_slot_wal_keep_size = '{size}';\n{RELOAD}"
    else:
        run = f"{_command('set', server)} --wal-budget {size}"
    return RemedyStep("Or raise the limit, if the disk has room", run)


def _let_idle() -> RemedyStep:
    run = f"ALTER SYSTEM SET\n  idle_replication_slot_timeout = '0';\n{RELOAD}"
    note = "0 is no timeout, for no slot: reset it once the slot is read."
    return RemedyStep("Or raise the limit", run, note)


def _set_limit(server: ServerSlot) -> RemedyStep:
    retained = server.retained_wal_bytes or 0
    size = 8 * _GB
    while size < 2 * retained:
        size *= 2
    return RemedyStep(
        "Set a limit, so that no slot can fill the disk",
        f"ALTER SYSTEM SET\n  max_slot_wal_keep_size = '{exact_size(size)}';\n{RELOAD}",
        "At the limit a slot is lost, and the database keeps running.",
    )


def _give_up(server: ServerSlot, slot: Slot | None, now: datetime) -> RemedyStep:
    if slot is not None:
        return RemedyStep("Or remove it, with its history", _command("remove", server))
    title = "Drop it, if nobody needs it" if forgotten(server, now) else "Or drop it"
    return RemedyStep(f"{title}; its consumer must then start again", drop_statement(server))


def _command(verb: str, server: ServerSlot) -> str:
    return f"replview slot {verb} {quote(server.source.name)} {quote(server.name)}"


def drop_statement(server: ServerSlot) -> str:
    """Return the SQL that drops the slot."""
    return f"SELECT pg_drop_replication_slot(\n  {_name(server)});"


def _name(server: ServerSlot) -> str:
    return string(server.name)

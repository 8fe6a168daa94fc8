"""What to do now about a slot: numbered steps, each with SQL or a command to copy.

replview runs none of them. Names come from a server: they stand in constants, quoted. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import quote

from replview.health.conditions import limit_of
from replview.health.findings_others import forgotten
from replview.health.findings_wal import BEHIND_BYTES, explain
from replview.health.holding import Holder, open_on_source
from replview.health.open_transactions import ends_of_prepared, next_step_of_prepared
from replview.health.server_slot import ServerSlot
from replview.health.source_state import SourceState
from replview.health.states import Reading
from replview.store.models import Slot
from replview.store.read.sql_text import string

#: What is open for longer may be what holds a slot.
OPEN_LONG = timedelta(minutes=5)
_GB = 1 << 30
_RELOAD = "SELECT pg_reload_conf();"


@dataclass(frozen=True, slots=True)
class Step:
    """Words, then what is to be run (may be empty), then what is to be known of it."""

    words: str
    run: str
    note: str = ""
    #: Of a step that ends a prepared transaction: the whole of it, as the end of a sentence.
    next_step: str = ""


def steps_of(
    server: ServerSlot, slot: Slot | None, reading: Reading, state: SourceState, now: datetime
) -> list[Step]:
    """In the order in which they are to be tried; empty: nothing is to be done."""
    if server.gone_at is not None:
        return list(_of_gone(server, slot))
    if server.lost:
        return list(_of_lost(server, slot))
    if server.synced or not server.fresh(now):
        return []
    steps = list(_of_holders(server, state, now))
    unread = server.active is False
    stuck = unread and (server.retained_wal_bytes is not None or server.text("restart_lsn") != "")
    pressed = _pressed(server, slot, reading)
    if stuck and (slot is None or slot.desired == Slot.Desired.STOPPED):
        steps.append(_restart(server, slot))
    if (stuck or steps) and pressed:
        steps.append(_win_time(server))
    if pressed and server.source.max_slot_wal_keep_bytes == -1:
        steps.append(_set_limit(server))
    if unread and (slot is None or slot.desired == Slot.Desired.STOPPED):
        steps.append(_give_up(server, slot, now))
    return [step for step in steps if step.words]


def _pressed(server: ServerSlot, slot: Slot | None, reading: Reading) -> bool:
    """Whether its retained WAL is worth a thought: a tenth of its limit, or much without one."""
    retained = reading.retained_wal_bytes
    size = limit_of(server.source, slot).size_bytes
    if retained is None:
        return False
    return retained > (size / 10 if size is not None else _GB)


def _of_gone(server: ServerSlot, slot: Slot | None) -> Iterator[Step]:
    if slot is None:
        return
    if slot.plugin != "pgoutput":
        yield _create(server, slot)
        return
    yield Step(
        "Create it again: a new incarnation begins, and history shows the gap",
        f"replview slot start {quote(server.source.name)} {quote(server.name)}",
        "It shows its statements, and asks.",
    )


def _of_lost(server: ServerSlot, slot: Slot | None) -> Iterator[Step]:
    yield Step("Drop it: it can never be read again", drop_statement(server))
    if not server.physical:
        yield _create(server, slot)
    yield Step(explain(server.lost).advice, "")


def _create(server: ServerSlot, slot: Slot | None) -> Step:
    """With the options it had."""
    options = [server.facts.get("two_phase") is True, server.facts.get("failover") is True]
    given = [_name(server), string(server.plugin or "pgoutput").lstrip()]
    if any(options):
        given += ["false", *("true" if option else "false" for option in options)]
        given = given[: 5 if options[1] else 4]
    run = f"SELECT\n  pg_create_logical_replication_slot(\n    {', '.join(given)});"
    if slot is None:
        return Step("Create it anew; its reader must copy the tables afresh", run)
    command = f"replview slot start {quote(server.source.name)} {quote(server.name)}"
    return Step(
        "Create it again: a new incarnation begins, and history shows the gap",
        run,
        f"If replview does not go on by itself: {command}",
    )


def _of_holders(server: ServerSlot, state: SourceState, now: datetime) -> Iterator[Step]:
    """The oldest transaction that is open, where it is old: nothing moves past it."""
    if server.physical or (server.retained_wal_bytes or 0) < BEHIND_BYTES:
        return
    old = [one for one in open_on_source(state) if one.since and now - one.since > OPEN_LONG]
    with_xid = [one for one in old if one.xid_age is not None]
    if not with_xid or not state.fresh:
        return
    oldest = max(with_xid, key=lambda one: one.xid_age or 0)
    yield from _end(oldest)


def _end(holder: Holder) -> Iterator[Step]:
    if holder.kind == "prepared":
        keep, discard = ends_of_prepared(holder.name, "changes")
        where = f"In database {holder.detail}. " if holder.detail else ""
        yield Step("End the prepared transaction that holds it: keep its changes", keep.sql,
                   f"{where}Ask whoever prepared it which end is right.",
                   next_step_of_prepared(holder.name))  # fmt: skip
        yield Step("Or discard them", discard.sql)
    else:
        pid = holder.name.removeprefix("pid ")
        yield Step(
            f"End the long transaction of {holder.name}, which discards it",
            f"SELECT pg_terminate_backend({int(pid)});",
            "Only if it still runs: see pg_stat_activity.",
        )


def _restart(server: ServerSlot, slot: Slot | None) -> Step:
    columns = "active_pid, safe_wal_size"
    check = f"SELECT {columns}\n  FROM pg_replication_slots\n WHERE slot_name = {_name(server)};"  # noqa: S608 (to be copied)
    if slot is not None:
        return Step(
            "Start it", f"replview slot start {quote(server.source.name)} {quote(server.name)}"
        )
    who = "its standby" if server.physical else "its consumer"
    return Step(f"Restart {who}, then check", check)


def _win_time(server: ServerSlot) -> Step:
    limit = server.source.max_slot_wal_keep_bytes
    if limit is None or limit < 0:
        return Step("", "")
    return Step(
        "Or win time, if the disk has room",
        f"ALTER SYSTEM SET\n  max_slot_wal_keep_size = '{_gigabytes(2 * limit)}';\n{_RELOAD}",
    )


def _set_limit(server: ServerSlot) -> Step:
    retained = server.retained_wal_bytes or 0
    size = 8 * _GB
    while size < 2 * retained:
        size *= 2
    return Step(
        "Set a limit, so that no slot can fill the disk",
        f"ALTER SYSTEM SET\n  max_slot_wal_keep_size = '{_gigabytes(size)}';\n{_RELOAD}",
        "At the limit a slot is lost, and the database goes on.",
    )


def _give_up(server: ServerSlot, slot: Slot | None, now: datetime) -> Step:
    if slot is not None:
        return Step(
            "Or give it up, with its record",
            f"replview slot remove {quote(server.source.name)} {quote(server.name)}",
        )
    words = "Drop it, if nobody needs it" if forgotten(server, now) else "Or give it up"
    return Step(f"{words}; its reader must then start anew", drop_statement(server))


def drop_statement(server: ServerSlot) -> str:
    """To be copied."""
    return f"SELECT pg_drop_replication_slot(\n  {_name(server)});"


def _name(server: ServerSlot) -> str:
    return string(server.name).lstrip()


def _gigabytes(size: int) -> str:
    """As the setting takes it: ``128GB``, ``512MB``."""
    return f"{size // _GB}GB" if size >= _GB and size % _GB == 0 else f"{max(size >> 20, 1)}MB"

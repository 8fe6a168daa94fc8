"""What to do now about a slot: numbered steps, each with SQL or a command to copy; and whether it
is ready for a failover, a line a standby.

replview runs none of them. Names come from a server: they stand in constants, quoted. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from shlex import quote

from replview.health.conditions import WalLimit, limit_of
from replview.health.findings import forgotten
from replview.health.findings_wal import explain
from replview.health.holding import BEHIND_BYTES, Cause
from replview.health.open_transactions import LONG
from replview.health.server_slot import ServerSlot
from replview.health.states import Reading
from replview.store.failover_readiness import FIRST_VERSION, OnStandby, Standbys
from replview.store.models import Slot
from replview.store.read.sql_text import identifier, string

_GB = 1 << 30
_RELOAD = "SELECT pg_reload_conf();"
_CREATE_AGAIN = "Create it again: a new incarnation begins, and history shows the gap"
#: What to set on a standby, by what it lacks.
_MENDS = {
    "sync_replication_slots": f"ALTER SYSTEM SET sync_replication_slots = on;\n{_RELOAD}",
    "hot_standby_feedback": f"ALTER SYSTEM SET hot_standby_feedback = on;\n{_RELOAD}",
    "primary_slot_name": f"ALTER SYSTEM SET primary_slot_name = 'NAME';\n{_RELOAD}",
}
#: A record could hold what the promoted server never had.
WAITS_FOR_NONE = (
    "synchronized_standby_slots is empty: readers of failover slots may be ahead of every standby. "
    "After a failover a record can then hold transactions the promoted server never had."
)


@dataclass(frozen=True, slots=True)
class Step:
    """Words, then what is to be run (may be empty), then what is to be known of it."""

    words: str
    run: str
    note: str = ""


def steps_of(
    server: ServerSlot, slot: Slot | None, reading: Reading, cause: Cause, now: datetime
) -> list[Step]:
    """Return the steps in the order in which they are to be tried; empty: nothing is to be done.
    ``cause``: what holds the slot.
    """
    if server.gone_at is not None:
        return list(_of_gone(server, slot))
    if server.lost:
        return list(_of_lost(server, slot))
    if server.synced or not server.fresh(now):
        return []
    limit, pressed = limit_of(server.source, slot, reading), _pressed(server, slot, reading)
    steps = list(_of_holder(server, cause, now, pressed=pressed))
    unread = server.active is False and cause.kind in ("nobody", "nothing")
    stuck = unread and (server.retained_wal_bytes is not None or server.text("restart_lsn") != "")
    if stuck and (slot is None or slot.desired == Slot.Desired.STOPPED):
        steps.append(_restart(server, slot))
    if (stuck or steps) and pressed:
        steps.append(_win_time(server, limit))
    if pressed and limit.by == "none":
        steps.append(_set_limit(server))
    if unread and (slot is None or slot.desired == Slot.Desired.STOPPED):
        steps.append(_give_up(server, slot, now))
    return [step for step in steps if step.words]


def _pressed(server: ServerSlot, slot: Slot | None, reading: Reading) -> bool:
    """Whether its retained WAL is worth a thought: a tenth of its limit, or much without one."""
    retained = reading.retained_wal_bytes
    size = limit_of(server.source, slot, reading).size_bytes
    return retained is not None and retained > (size / 10 if size is not None else _GB)


def _of_gone(server: ServerSlot, slot: Slot | None) -> Iterator[Step]:
    if slot is not None and slot.plugin == "pgoutput":
        yield Step(_CREATE_AGAIN, _command("start", server), "It shows its statements, and asks.")
    elif slot is not None:
        yield _create(server, slot)


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
    note = f"If replview does not go on by itself: {_command('start', server)}"
    return Step(_CREATE_AGAIN, run, note)


def _of_holder(server: ServerSlot, cause: Cause, now: datetime, *, pressed: bool) -> Iterator[Step]:
    """End the transaction that holds it, where it has been open for long or WAL is short."""
    holder = cause.holder
    much = (server.retained_wal_bytes or 0) >= BEHIND_BYTES and cause.held_for(now) > LONG
    if holder is None or not (much or pressed) or not holder.ends:
        return
    if holder.kind == "prepared":
        keep, discard = holder.ends
        where = f"In database {holder.database}. " if holder.database else ""
        yield Step("End the prepared transaction that holds it: keep its changes", keep.sql,
                   f"{where}Ask whoever prepared it which end is right.")  # fmt: skip
        yield Step("Or discard them", discard.sql)
    else:
        [end] = holder.ends
        yield Step(f"End {holder.words}, which discards it", end.sql,
                   "It ends that session only while it still runs this transaction.")  # fmt: skip


def _restart(server: ServerSlot, slot: Slot | None) -> Step:
    if slot is not None:
        return Step("Start it", _command("start", server))
    columns = "active_pid, safe_wal_size"
    check = f"SELECT {columns}\n  FROM pg_replication_slots\n WHERE slot_name = {_name(server)};"  # noqa: S608 (to be copied)
    who = "its standby" if server.physical else "its consumer"
    return Step(f"Restart {who}, then check", check)


def _win_time(server: ServerSlot, limit: WalLimit) -> Step:
    """Raise the limit that is reached first: the server's, or that of our own slot."""
    if limit.size_bytes is None:
        return Step("", "")
    size = _gigabytes(2 * limit.size_bytes)
    if limit.by == "server":
        run = f"ALTER SYSTEM SET\n  max_slot_wal_keep_size = '{size}';\n{_RELOAD}"
    else:
        run = f"{_command('set', server)} --wal-budget {size}"
    return Step("Or win time, if the disk has room", run)


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
        return Step("Or give it up, with its record", _command("remove", server))
    words = "Drop it, if nobody needs it" if forgotten(server, now) else "Or give it up"
    return Step(f"{words}; its reader must then start anew", drop_statement(server))


def _command(verb: str, server: ServerSlot) -> str:
    return f"replview slot {verb} {quote(server.source.name)} {quote(server.name)}"


def drop_statement(server: ServerSlot) -> str:
    return f"SELECT pg_drop_replication_slot(\n  {_name(server)});"


def _name(server: ServerSlot) -> str:
    return string(server.name).lstrip()


def _gigabytes(size: int) -> str:
    """As the setting takes it: ``128GB``, ``512MB``."""
    return f"{size // _GB}GB" if size >= _GB and size % _GB == 0 else f"{max(size >> 20, 1)}MB"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyLine:
    """One standby: its name, a level's name for the symbol, and a sentence."""

    standby: str
    level: str
    words: str


@dataclass(slots=True, kw_only=True)
class Failover:
    """What there is to say; ``words`` is the short answer for the list of facts."""

    words: str = ""
    #: Why it is unknown; then there is no answer.
    unknown: str = ""
    lines: list[StandbyLine] = field(default_factory=list)
    warning: str = ""
    steps: list[Step] = field(default_factory=list)


def failover_of(server: ServerSlot, standbys: Standbys) -> Failover:
    """Return whether a slot of a primary, or a standby's own copy, is ready for a failover."""
    if server.physical:
        return Failover(words="not a logical slot: it stays with its server")
    if server.source.server_version is None:
        return Failover(unknown="the version is unknown")
    if server.source.server_version < FIRST_VERSION:
        return Failover(unknown="needs 17")
    if server.source.in_recovery:
        return _of_copy(server)
    option = server.facts.get("failover")
    if not isinstance(option, bool):
        return Failover(unknown="the server did not tell")
    made = Failover()
    if option and standbys.waits_for_none:
        made.warning = WAITS_FOR_NONE
        made.steps.append(_WAIT_FOR_A_STANDBY)
    if not option:
        made.words = "no: its failover option is off"
        made.steps.append(_switch_on(server))
        return made
    return _of_primary(made, standbys.of(server.name))


def _of_primary(made: Failover, found: list[OnStandby]) -> Failover:
    made.lines = [_line(one) for one in found]
    made.steps += _mends(found)
    if not found:
        made.unknown = "no standby is known: add it as a source"
    elif ready := [one.standby for one in found if one.ready]:
        made.words = f"yes, on {', '.join(ready)}"
    elif all(one.ready is None for one in found):
        made.unknown = f"{', '.join(one.standby for one in found)} did not tell"
    else:
        made.words = "no: no standby has it ready"
    return made


def _of_copy(server: ServerSlot) -> Failover:
    """On a standby: what this very slot is."""
    if server.lost:
        return Failover(words=f"no: {server.lost}")
    if server.facts.get("synced") is not True:
        return Failover(words="no: it is this standby's own, not a primary's copy")
    if server.temporary:
        return Failover(words="not yet: still temporary until it is consistent")
    return Failover(words="yes: synced, not temporary, not invalidated")


def _line(one: OnStandby) -> StandbyLine:
    if one.ready:
        words = "ready: synced, permanent, valid"
        if not one.lacking:
            return StandbyLine(standby=one.standby, level="ok", words=words)
        words += f"; but it lacks {', '.join(one.lacking)}: it does not follow any more"
        return StandbyLine(standby=one.standby, level="look", words=words)
    level = "unknown" if one.ready is None else "look"
    words = {
        "missing": "not there",
        "not_synced": "a slot of its own stands in the way: not synced from this primary",
        "temporary": "still temporary: it is kept once its position is consistent there",
        "invalidated": f"invalidated there: {one.reason}",
        "unknown": "unknown: the standby did not tell, or is older than 17",
    }[one.why]
    if one.lacking:
        words += f"; lacks {', '.join(one.lacking)}"
    return StandbyLine(standby=one.standby, level=level, words=words)


def _switch_on(server: ServerSlot) -> Step:
    """There is no SQL function for it: it is a command of the replication protocol."""
    name = identifier(server.name)
    return Step(
        "To have it survive a failover, over a replication connection",
        f"ALTER_REPLICATION_SLOT {name} (FAILOVER true);",
        "While nobody reads the slot; of a subscription: ALTER SUBSCRIPTION … SET (failover = "
        "true).",
    )


_WAIT_FOR_A_STANDBY = Step(
    "Have readers wait for the standby, on the primary",
    f"ALTER SYSTEM SET synchronized_standby_slots = 'STANDBY_SLOT';\n{_RELOAD}",
    "With the name of the standby's physical slot. While that standby is away, logical readers "
    "wait.",
)


def _mends(found: list[OnStandby]) -> list[Step]:
    steps = []
    for one in found:
        for name in one.lacking:
            words, note = name, ""
            if name not in _MENDS:
                words = "add dbname to primary_conninfo"
                note = "Slots are synced over a connection to a database."
            steps.append(Step(f"On {one.standby}: {words}", _MENDS.get(name, ""), note))
    return steps

"""This module says whether a slot is ready for a failover, for each standby, and what to do if not.

Names that come from a server are quoted before they enter SQL. The functions run no queries.
"""

from dataclasses import dataclass, field

from replview.health.server_slot import ServerSlot
from replview.health.slot_steps import RELOAD, RemedyStep
from replview.store.failover_readiness import FIRST_VERSION, OnStandby, Standbys
from replview.store.read.sql_text import identifier

#: The SQL to run on a standby, by the setting that it lacks.
_SETTING_SQL = {
    "sync_replication_slots": f"ALTER SYSTEM SET sync_replication_slots = on;\n{RELOAD}",
    "hot_standby_feedback": f"ALTER SYSTEM SET hot_standby_feedback = on;\n{RELOAD}",
    "primary_slot_name": f"ALTER SYSTEM SET primary_slot_name = 'NAME';\n{RELOAD}",
}
#: The warning for a primary on which readers wait for no standby.
WAITS_FOR_NONE = (
    "synchronized_standby_slots is empty: readers of failover slots may be ahead of every standby. "
    "After a failover a record can then hold transactions the promoted server never had."
)

_WAIT_FOR_A_STANDBY = RemedyStep(
    "Let consumers wait for the standby, on the primary",
    f"ALTER SYSTEM SET synchronized_standby_slots = 'STANDBY_SLOT';\n{RELOAD}",
    "With the name of the standby's physical slot. While that standby is away, logical readers "
    "wait.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyLine:
    """The readiness of one standby: its name, the level that picks the symbol, and a sentence."""

    standby: str
    level: str
    words: str


@dataclass(slots=True, kw_only=True)
class Failover:
    """The answer whether a slot is ready; ``words`` is the short form for the list of facts."""

    words: str = ""
    #: Why the answer is unknown; ``words`` is then empty.
    unknown: str = ""
    lines: list[StandbyLine] = field(default_factory=list)
    warning: str = ""
    steps: list[RemedyStep] = field(default_factory=list)


def failover_of(server: ServerSlot, standbys: Standbys) -> Failover:
    """Return whether a slot of a primary, or a standby's own copy, is ready for a failover."""
    if server.physical:
        return Failover(words="not a logical slot: it stays with its server")
    if server.source.server_version is None:
        return Failover(unknown="the version is unknown")
    if server.source.server_version < FIRST_VERSION:
        return Failover(unknown="needs 17")
    if server.source.in_recovery:
        return _copy_failover(server)
    option = server.facts.get("failover")
    if not isinstance(option, bool):
        return Failover(unknown="the server did not report it")
    failover = Failover()
    if option and standbys.waits_for_none:
        failover.warning = WAITS_FOR_NONE
        failover.steps.append(_WAIT_FOR_A_STANDBY)
    if not option:
        failover.words = "no: its failover option is off"
        failover.steps.append(_switch_on(server))
        return failover
    return _primary_failover(failover, standbys.of(server.name))


def _primary_failover(failover: Failover, standbys: list[OnStandby]) -> Failover:
    failover.lines = [_line(standby) for standby in standbys]
    failover.steps += _setting_steps(standbys)
    if not standbys:
        failover.unknown = "no standby is known: add it as a source"
    elif ready := [standby.standby for standby in standbys if standby.ready]:
        failover.words = f"yes, on {', '.join(ready)}"
    elif all(standby.ready is None for standby in standbys):
        failover.unknown = f"{', '.join(standby.standby for standby in standbys)} did not report it"
    else:
        failover.words = "no: no standby has it ready"
    return failover


def _copy_failover(server: ServerSlot) -> Failover:
    """Return whether a standby's copy of the slot survives a promotion of that standby."""
    if server.lost:
        return Failover(words=f"no: {server.lost}")
    if server.facts.get("synced") is not True:
        return Failover(words="no: it is this standby's own, not a primary's copy")
    if server.temporary:
        return Failover(words="not yet: still temporary until it is consistent")
    return Failover(words="yes: synced, not temporary, not invalidated")


def _line(standby: OnStandby) -> StandbyLine:
    if standby.ready:
        text = "ready: synced, permanent, valid"
        if not standby.lacking:
            return StandbyLine(standby=standby.standby, level="ok", words=text)
        text += f"; but it lacks {', '.join(standby.lacking)}: it has stopped following"
        return StandbyLine(standby=standby.standby, level="look", words=text)
    level = "unknown" if standby.ready is None else "look"
    text = {
        "missing": "not there",
        "not_synced": "a slot with this name exists there: not synced from this primary",
        "temporary": "still temporary: it is kept once its position is consistent there",
        "invalidated": f"invalidated there: {standby.reason}",
        "unknown": "unknown: the standby did not report it, or is older than 17",
    }[standby.why]
    if standby.lacking:
        text += f"; lacks {', '.join(standby.lacking)}"
    return StandbyLine(standby=standby.standby, level=level, words=text)


def _switch_on(server: ServerSlot) -> RemedyStep:
    """Return the step that sets ``failover``, for which there is only a replication command."""
    name = identifier(server.name)
    return RemedyStep(
        "Enable failover, over a replication connection",
        f"ALTER_REPLICATION_SLOT {name} (FAILOVER true);",
        "While the slot has no consumer; of a subscription: ALTER SUBSCRIPTION … SET (failover = "
        "true).",
    )


def _setting_steps(standbys: list[OnStandby]) -> list[RemedyStep]:
    steps = []
    for standby in standbys:
        for name in standby.lacking:
            title, note = name, ""
            if name not in _SETTING_SQL:
                title = "add dbname to primary_conninfo"
                note = "Slots are synced over a connection to a database."
            steps.append(
                RemedyStep(f"On {standby.standby}: {title}", _SETTING_SQL.get(name, ""), note)
            )
    return steps

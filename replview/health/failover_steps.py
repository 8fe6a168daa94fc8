"""This module says whether a slot is ready for a failover, for each standby, and what to do if not.

Names that come from a server are quoted before they enter SQL. The functions run no queries.
"""

from dataclasses import dataclass, field

from replview.health.server_slot import ServerSlot
from replview.health.slot_steps import RELOAD, RemedyStep
from replview.store.failover_readiness import FIRST_VERSION, OnStandby, Standbys
from replview.store.read.sql_text import identifier

#: The SQL to run on a standby, by the setting that it lacks.
_MENDS = {
    "sync_replication_slots": f"ALTER SYSTEM SET sync_replication_slots = on;\n{RELOAD}",
    "hot_standby_feedback": f"ALTER SYSTEM SET hot_standby_feedback = on;\n{RELOAD}",
    "primary_slot_name": f"ALTER SYSTEM SET primary_slot_name = 'NAME';\n{RELOAD}",
}
#: The warning for a primary on which readers wait for no standby.
WAITS_FOR_NONE = (
    "synchronized_standby_slots is empty: readers of failover slots may be ahead of every standby. "
    "After a failover a record can then hold transactions the promoted server never had."
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
        return _of_copy(server)
    option = server.facts.get("failover")
    if not isinstance(option, bool):
        return Failover(unknown="the server did not report it")
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
        made.unknown = f"{', '.join(one.standby for one in found)} did not report it"
    else:
        made.words = "no: no standby has it ready"
    return made


def _of_copy(server: ServerSlot) -> Failover:
    """Return whether a standby's copy of the slot survives a promotion of that standby."""
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
        words += f"; but it lacks {', '.join(one.lacking)}: it has stopped following"
        return StandbyLine(standby=one.standby, level="look", words=words)
    level = "unknown" if one.ready is None else "look"
    words = {
        "missing": "not there",
        "not_synced": "a slot with this name exists there: not synced from this primary",
        "temporary": "still temporary: it is kept once its position is consistent there",
        "invalidated": f"invalidated there: {one.reason}",
        "unknown": "unknown: the standby did not report it, or is older than 17",
    }[one.why]
    if one.lacking:
        words += f"; lacks {', '.join(one.lacking)}"
    return StandbyLine(standby=one.standby, level=level, words=words)


def _switch_on(server: ServerSlot) -> RemedyStep:
    """Return the step that sets ``failover``, for which there is only a replication command."""
    name = identifier(server.name)
    return RemedyStep(
        "Enable failover, over a replication connection",
        f"ALTER_REPLICATION_SLOT {name} (FAILOVER true);",
        "While the slot has no consumer; of a subscription: ALTER SUBSCRIPTION … SET (failover = "
        "true).",
    )


_WAIT_FOR_A_STANDBY = RemedyStep(
    "Let consumers wait for the standby, on the primary",
    f"ALTER SYSTEM SET synchronized_standby_slots = 'STANDBY_SLOT';\n{RELOAD}",
    "With the name of the standby's physical slot. While that standby is away, logical readers "
    "wait.",
)


def _mends(found: list[OnStandby]) -> list[RemedyStep]:
    steps = []
    for one in found:
        for name in one.lacking:
            words, note = name, ""
            if name not in _MENDS:
                words = "add dbname to primary_conninfo"
                note = "Slots are synced over a connection to a database."
            steps.append(RemedyStep(f"On {one.standby}: {words}", _MENDS.get(name, ""), note))
    return steps

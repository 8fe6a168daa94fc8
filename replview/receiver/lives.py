"""Which life of the slot a session records into: LSNs compare only within one."""

from typing import Any

import psycopg

from decoder.scalars import LSN
from replview.catalog.slots import SlotFacts
from replview.receiver.session import SystemIdentity
from replview.store.incarnations import Incarnation, SlotRow, begin, log_event, resume
from replview.store.lease import Lease


def temporary_life(
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: SlotRow,
    identity: SystemIdentity,
    started: LSN,
) -> Incarnation:
    """Each connection of a temporary slot is a life of its own; the time between is a gap."""
    return _begin(store, lease, slot, identity, started, "temporary")


def life_of(
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: SlotRow,
    identity: SystemIdentity,
    facts: SlotFacts,
    *,
    in_recovery: bool,
) -> Incarnation:
    """The current life, or a new one where LSNs no longer compare or history was skipped."""
    confirmed = facts.confirmed_flush_lsn or LSN(0)
    reason = _reason_for_new_life(slot, identity, confirmed, in_recovery=in_recovery)
    if reason is None:
        return resume(store, lease, slot)
    return _begin(store, lease, slot, identity, confirmed, reason)


def _begin(
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: SlotRow,
    identity: SystemIdentity,
    started: LSN,
    reason: str,
) -> Incarnation:
    """A new life, and the gap before it: a life that goes on elsewhere is never a silent hole."""
    with store.transaction():
        incarnation = begin(
            store,
            lease,
            slot,
            system_identifier=identity.system_identifier,
            timeline=identity.timeline,
            started_lsn=started,
            reason=reason,
        )
        if slot.incarnation_id is not None:
            log_event(
                store,
                slot.id,
                "gap",
                _GAPS[reason],
                incarnation_id=incarnation.id,
                lsn=started,
                detail={"from_lsn": str(slot.checkpoint_lsn or ""), "to_lsn": str(started)},
            )
    return incarnation


_GAPS = {
    "temporary": "The connection was lost and with it the temporary slot: what was committed until "
    "the new one began was not seen.",
    "re-pointed": "The source is another cluster now: a new record begins here.",
    "timeline": "The source went to another timeline (a failover or a restore): a new record "
    "begins here.",
    "advanced": "The slot stands beyond our record (advanced by somebody else, or created anew): "
    "what was committed in between was not seen.",
    "rewound": "The server's WAL ends before our record does (it was restored from an older copy): "
    "a new record begins where the slot stands now.",
}


def _reason_for_new_life(
    slot: SlotRow, identity: SystemIdentity, confirmed: LSN, *, in_recovery: bool
) -> str | None:
    """Why the current life cannot go on; None if it can."""
    if slot.incarnation_id is None:
        return "created" if slot.owned else "adopted"
    if slot.system_identifier != identity.system_identifier:
        return "re-pointed"
    if slot.timeline != identity.timeline:
        return "timeline"
    if slot.checkpoint_lsn is None:
        return None
    if confirmed > slot.checkpoint_lsn:
        return "advanced"
    # The server would silently skip all up to our position. A standby may only be behind for now.
    if identity.xlog_position < slot.checkpoint_lsn and not in_recovery:
        return "rewound"
    return None

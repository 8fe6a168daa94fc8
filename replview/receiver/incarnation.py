"""This module decides which incarnation of a slot a session records into.

LSNs compare only within one incarnation.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from decoder.scalars import LSN
from replview.catalog.slots import SlotFacts
from replview.store.write import incarnations
from replview.store.write.lease import Lease

#: Reason of a new incarnation → sentence about what is missing between it and the former one.
GAPS = {
    "temporary": "The temporary slot was dropped when its connection was lost: transactions that "
    "committed before the new slot was created are not in the record.",
    "re-pointed": "The source is now another cluster: a new record begins here.",
    "timeline": "The source switched to another timeline (a failover or a restore), and it is "
    "unknown at which LSN: a new record begins here.",
    "failover": "The slot on the promoted server is ahead of the record: transactions that "
    "committed in between are not in the record.",
    "advanced": "The slot is ahead of the record, because another consumer advanced it, it was "
    "dropped and created again, or the store was restored from an older backup: transactions that "
    "committed in between are not in the record.",
    "recreated": "replview had dropped the slot at its WAL budget, to protect the source's disk: "
    "transactions that committed before it was created again are not in the record.",
    "rewound": "The server's WAL ends before the record does, because the server was restored from "
    "an older backup: a new record begins at the slot's present position.",
}
#: Returns where the server's current timeline forked off an earlier one; None where it is unknown.
ForkReader = Callable[[int], LSN | None]


@dataclass(frozen=True, slots=True)
class SystemIdentity:
    """The cluster and position of a server, as IDENTIFY_SYSTEM reports them."""

    #: Empty where the server does not report it (SQL on some services).
    system_identifier: str
    timeline: int
    xlog_position: LSN


@dataclass(frozen=True, slots=True)
class NewIncarnation:
    """The reason why the current incarnation cannot go on, and where the next one begins."""

    reason: str
    started: LSN
    #: Position up to which the former and the new incarnation share their history; None: unknown.
    shared_until: LSN | None = None


def temporary_incarnation(
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: incarnations.SlotRow,
    identity: SystemIdentity,
    started: LSN,
) -> incarnations.SessionIncarnation:
    """Begin a new incarnation for a temporary slot.

    Such a slot exists for one connection only: each connection has its own incarnation, with a gap
    in between.
    """
    same_cluster = slot.system_identifier == identity.system_identifier
    new = NewIncarnation("temporary", started, started if same_cluster else None)
    return _begin(store, lease, slot, identity, new)


def incarnation_of(
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: incarnations.SlotRow,
    identity: SystemIdentity,
    facts: SlotFacts,
    *,
    in_recovery: bool,
    fork_of: ForkReader = lambda timeline: None,
) -> incarnations.SessionIncarnation:
    """Return the slot's current incarnation, or begin a new one. Raises ``Fenced``.

    A new one begins where LSNs no longer compare, or where the source skipped history.
    """
    confirmed = facts.confirmed_flush_lsn or LSN(0)
    new = new_incarnation(slot, identity, confirmed, in_recovery=in_recovery, fork_of=fork_of)
    if new is None:
        return incarnations.resume(store, lease, slot)
    if new.reason == "advanced" and incarnations.dropped_at_budget(store, slot.incarnation_id or 0):
        new = replace(new, reason="recreated")
    return _begin(store, lease, slot, identity, new)


def _begin(
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: incarnations.SlotRow,
    identity: SystemIdentity,
    new: NewIncarnation,
) -> incarnations.SessionIncarnation:
    """Begin a new incarnation, and log the gap between it and the former one."""
    with store.transaction():
        incarnation = incarnations.begin(
            store,
            lease,
            slot,
            system_identifier=identity.system_identifier,
            timeline=identity.timeline,
            started_lsn=new.started,
            reason=new.reason,
            # Transactions prepared in the same cluster may still end: the new incarnation receives
            # that.
            keep_prepared_until=new.shared_until,
        )
        if slot.incarnation_id is not None:
            _log_gap(store, slot, identity, incarnation, new)
    return incarnation


def _log_gap(
    store: psycopg.Connection[Any],
    slot: incarnations.SlotRow,
    identity: SystemIdentity,
    incarnation: incarnations.SessionIncarnation,
    new: NewIncarnation,
) -> None:
    """Log the events of a new incarnation: a failover without loss, a fork, a gap."""
    detail = {"from_lsn": str(slot.checkpoint_lsn or ""), "to_lsn": str(new.started)}
    if new.reason == "failover":
        assert slot.incarnation_id is not None
        assert new.shared_until is not None
        last = incarnations.last_seq_until(store, slot.incarnation_id, new.shared_until)
        missing_count = slot.commit_seq - last
        switch = f"The source failed over (timeline {slot.timeline} to {identity.timeline})"
        if missing_count:
            text = (
                f"{switch}, and the promoted server had WAL only up to {new.shared_until}: the "
                f"record before it holds {missing_count:,} transactions that this server never had."
            )
        else:
            text = f"{switch}. The record continues where it ended: nothing is missing."
        counts = {"beyond": missing_count, "last_shared_commit_seq": last}
        incarnations.log_event(
            store, slot.id, "failover", text, incarnation_id=incarnation.id, lsn=new.started,
            detail={**detail, **counts},
        )  # fmt: skip
        if new.shared_until >= new.started:
            return
        detail["from_lsn"] = str(new.shared_until)
    incarnations.log_event(
        store, slot.id, "gap", GAPS[new.reason], incarnation_id=incarnation.id, lsn=new.started,
        detail=detail,
    )  # fmt: skip


def new_incarnation(
    slot: incarnations.SlotRow,
    identity: SystemIdentity,
    confirmed: LSN,
    *,
    in_recovery: bool,
    fork_of: ForkReader,
) -> NewIncarnation | None:
    """Return why the current incarnation cannot go on; None if it can. Changes nothing."""
    if slot.incarnation_id is None:
        return NewIncarnation("created" if slot.owned else "adopted", confirmed)
    if slot.system_identifier != identity.system_identifier:
        return NewIncarnation("re-pointed", confirmed)
    checkpoint = slot.checkpoint_lsn
    if slot.timeline != identity.timeline:
        fork = None if slot.timeline is None else fork_of(slot.timeline)
        if fork is None or checkpoint is None:
            return NewIncarnation("timeline", confirmed)
        shared = min(fork, checkpoint)
        return NewIncarnation("failover", max(shared, confirmed), shared)
    if checkpoint is None:
        return None
    if confirmed > checkpoint:
        return NewIncarnation("advanced", confirmed, checkpoint)
    # The server would silently skip everything up to the checkpoint. A standby may just be behind.
    if identity.xlog_position < checkpoint and not in_recovery:
        return NewIncarnation("rewound", confirmed)
    return None

"""What becomes of a slot at another address, as ``receiver.incarnation`` will decide it there."""

from dataclasses import dataclass

from decoder.scalars import LSN
from replview.acts.addresses import Tried
from replview.receiver.incarnation import GAPS, new_life
from replview.receiver.sessions.interface import SystemIdentity
from replview.store.models import Slot
from replview.store.write.incarnations import SlotRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What becomes of one slot."""

    name: str
    #: ``goes on``, ``gap``, ``missing``, ``lost`` or ``other database``.
    word: str
    #: A whole sentence.
    sentence: str


def row_of(slot: Slot) -> SlotRow:
    """What a receiver would know of it."""
    life = slot.incarnation
    return SlotRow(
        id=slot.pk,
        source_id=slot.source_id,
        name=slot.name,
        plugin=slot.plugin,
        interface=slot.interface,
        publications=slot.publications,
        options=slot.options,
        owned=slot.owned,
        temporary=slot.temporary,
        column_rules=slot.column_rules,
        keep_aborted=slot.keep_aborted,
        checkpoint_lsn=slot.checkpoint_lsn,
        incarnation_id=slot.incarnation_id,
        number=None if life is None else life.number,
        system_identifier=None if life is None else life.system_identifier,
        timeline=None if life is None else life.timeline,
        commit_seq=0 if life is None else life.commit_seq,
    )


def identity_of(tried: Tried) -> SystemIdentity:
    """As a walsender's session told, else as SQL did."""
    if tried.identity is not None:
        return tried.identity
    server = tried.server
    return SystemIdentity(server.system_identifier or "", server.timeline or 0, LSN(0))


def fate_of(row: SlotRow, tried: Tried) -> Fate:
    """As ``receiver.incarnation`` will decide, if nothing changes until it connects."""
    name = row.name
    facts = tried.slots.get(name)
    if facts is None:
        return Fate(
            name=name,
            word="missing",
            sentence=f"There is no slot {name} there: nothing is received until it is started "
            "again, which creates it anew and leaves a gap.",
        )
    if facts.database != tried.server.database:
        return Fate(
            name=name,
            word="other database",
            sentence=f"The slot {name} there is of database {facts.database or 'unknown'}: it "
            "cannot be received from this address.",
        )
    if facts.wal_status == "lost" or facts.invalidation_reason:
        return Fate(
            name=name,
            word="lost",
            sentence=f"The slot {name} there is lost: it can never be read again.",
        )
    identity = identity_of(tried)
    if not identity.system_identifier:
        identity = SystemIdentity(
            row.system_identifier or "unknown", identity.timeline, identity.xlog_position
        )
    if not identity.timeline:
        identity = SystemIdentity(
            identity.system_identifier, row.timeline or 0, identity.xlog_position
        )

    def fork_of(timeline: int) -> LSN | None:
        fork = tried.forks.get(timeline)
        return None if fork is None else LSN(fork)

    # What SQL alone tells has no position: never taken for WAL that ends before our record.
    in_recovery = tried.server.in_recovery or tried.identity is None
    life = new_life(
        row, identity, facts.confirmed_flush_lsn or LSN(0), in_recovery=in_recovery, fork_of=fork_of
    )
    if life is None or life.reason in ("created", "adopted"):
        return Fate(name=name, word="goes on", sentence=f"Slot {name} goes on where its record "
                    "ends.")  # fmt: skip
    if life.shared_until is not None and life.shared_until >= life.started:
        return Fate(
            name=name,
            word="goes on",
            sentence=f"Slot {name} goes on in a new life: both share their history up to "
            f"{life.shared_until}.",
        )
    return Fate(name=name, word="gap", sentence=f"Slot {name} begins a new life at {life.started}. "
                f"{GAPS[life.reason]}")  # fmt: skip

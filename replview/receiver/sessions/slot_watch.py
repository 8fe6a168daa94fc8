"""Whether a slot that is read by polling is still as we left it."""

from replview.catalog.problems import SourceTrouble
from replview.receiver.problems import consumed, lost, missing, other_server
from replview.receiver.sessions.slot_functions import Look


def check_left_alone(look: Look, slot: str, *, timeline: int, stored_lsn: int) -> None:
    """Raise ``SourceTrouble`` where the slot is gone or moved, or this is another server."""
    facts = look.slot
    if look.timeline != timeline:
        raise SourceTrouble(other_server())
    if facts is None:
        raise SourceTrouble(missing(slot))
    if facts.get("wal_status") == "lost" or facts.get("invalidation_reason"):
        raise SourceTrouble(lost(slot, facts.get("invalidation_reason")))
    if look.slot_lsn("confirmed_flush_lsn") > stored_lsn:
        raise SourceTrouble(consumed(slot))

"""What the page of one slot says of its server's side: facts, failover, what is to be done."""

from datetime import datetime
from typing import Any

from replview.features.slots.facts import facts_of
from replview.features.slots.same_slot import same_slot
from replview.health.failover_words import Failover, failover_of
from replview.health.server_slot import ServerSlot
from replview.health.slot_steps import steps_of
from replview.health.source_looks import Look
from replview.health.states import Reading
from replview.store.failover_readiness import read_standbys
from replview.store.models import Slot, SourceLook


def server_side(
    server: ServerSlot | None, slot: Slot | None, reading: Reading, now: datetime
) -> dict[str, Any]:
    """For the templates; nothing is known of a slot that no look has found yet."""
    if server is None:
        return {"server": None, "server_facts": [], "failover": Failover(), "steps": [], "held": "",
                "same": None}  # fmt: skip
    look = Look(SourceLook.objects.filter(source=server.source).first(), now)
    failover = failover_of(server, read_standbys(server.source))
    steps = steps_of(server, slot, reading, look, now)
    return {
        "server": server,
        "server_fresh": server.fresh(now),
        "server_facts": facts_of(server, slot, look, failover, now),
        "failover": failover,
        "same": same_slot(server.source, server.name),
        "steps": steps,
        # What holds it comes before whatever else its health advises.
        "held": next((step.next_step for step in steps if step.next_step), ""),
    }

"""A slot that its source no longer has, created there anew: its record goes on after a gap."""

from django.core.management.base import CommandError

from replview.catalog.carry_out import carry_out
from replview.catalog.connections import reading
from replview.catalog.plan import make_plan
from replview.catalog.problems import SourceTrouble
from replview.catalog.wishes import Wish
from replview.management.instance import PlainCommand
from replview.management.slot_changes import lines_of_plan, record_made
from replview.store.dsn import full_conninfo
from replview.store.models import Slot, SlotEvent
from replview.store.slot_budgets import DROPPED, forget_problem

#: Problems after which the source has no such slot.
CODES = (DROPPED, "slot_missing")
_DEADLINE_SECONDS = 60.0


def create_anew(command: PlainCommand, slot: Slot, *, yes: bool) -> None:
    """Show the statement, ask, and create the slot as it was made; nothing where it is there
    again. Raises ``CommandError`` or ``SourceTrouble``.
    """
    if slot.plugin != "pgoutput":
        # It was adopted as it was: replview makes slots of pgoutput alone.
        return
    conninfo = full_conninfo(slot.source)
    made = _as_made(slot)
    wish = Wish(
        slot_name=slot.name,
        publications=tuple(slot.publications),
        two_phase=bool(made.get("two_phase")),
        failover=bool(made.get("failover")),
        wal_budget_bytes=slot.wal_budget_bytes,
        protect=slot.protect,
        heartbeat_seconds=slot.heartbeat_seconds,
    )
    try:
        with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            plan = make_plan(connection, wish)
    except SourceTrouble as trouble:
        if trouble.trouble.code != "slot_exists":
            raise
        # Not dropped after all, or created by hand: the receiver tells whether history has a gap.
        forget_problem(slot)
        return
    command.say(f"{slot.source} has no slot {slot.name} any more; this will run there:")
    for line in lines_of_plan(plan):
        command.say(line)
    command.say("  what was committed since the record ended is not to be had: the gap is noted")
    if not command.confirm("Run this?", yes):
        raise CommandError("nothing was done")
    carry_out(conninfo, plan, command.say)
    record_made(slot, plan)
    Slot.objects.filter(pk=slot.pk).update(owned=True)
    forget_problem(slot)


def _as_made(slot: Slot) -> dict[str, object]:
    """What the log says of how it was made."""
    found = SlotEvent.objects.filter(slot=slot, kind__in=["created", "adopted"]).order_by("-pk")
    event = found.first()
    return {} if event is None else event.detail

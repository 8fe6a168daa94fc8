"""Making a slot, on the source and in the store together: for commands, pages and ``apply``."""

import threading
from typing import Any

from django.db import transaction

from replview.catalog.carry_out import OnStep, Say, carry_out, undo
from replview.catalog.plan import Plan
from replview.sampling.publications import look_at_publications
from replview.store.models import Slot, SlotEvent, Source


def make_slot(
    source: Source,
    conninfo: str,
    plan: Plan,
    say: Say,
    *,
    stopped: bool,
    options: dict[str, Any],
    interface: str = "walsender",
    keep_aborted: bool = False,
    stop: threading.Event | None = None,
    on_step: OnStep = lambda step, state: None,
) -> Slot:
    """Carry the plan out, then make the slot known; if the latter fails, take the former back.

    A source that is not in the store yet comes into it with its slot, or not at all.
    """
    done = carry_out(conninfo, plan, say, stop=stop, on_step=on_step)
    try:
        with transaction.atomic():
            if source.pk is None:
                source.save()
            slot = Slot.objects.create(
                source=source,
                name=plan.slot_name,
                plugin=plan.plugin,
                interface=interface,
                publications=list(plan.publications),
                options=options,
                owned=plan.owned,
                column_rules=plan.column_rules,
                keep_aborted=keep_aborted,
                wal_budget_bytes=plan.wal_budget_bytes,
                protect=plan.protect,
                heartbeat_seconds=plan.heartbeat_seconds,
                desired=Slot.Desired.STOPPED if stopped else Slot.Desired.RUNNING,
            )
            record_made(slot, plan)
    except BaseException:
        undo(conninfo, done, say, on_step)
        raise
    # At once: what is published from the beginning on is part of what the record can vouch for.
    look_at_publications(source)
    return slot


def record_made(slot: Slot, plan: Plan) -> None:
    """Write into the slot's log what replview made on the source: only that is ever dropped."""
    SlotEvent.objects.create(
        slot=slot,
        kind="created" if plan.owned else "adopted",
        message="The slot was created." if plan.owned else "The slot was adopted as it is.",
        detail={
            "statements": [str(step) for step in plan.steps],
            "made_publications": list(plan.made_publications),
            "two_phase": plan.two_phase,
            "failover": plan.failover,
        },
    )

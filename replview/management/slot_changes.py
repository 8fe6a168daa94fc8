"""Making and removing a slot, on the source and in the store together."""

import time
from typing import Any

import psycopg
from django.core.management.base import CommandError
from django.db import transaction
from psycopg import sql

from replview.catalog.carry_out import Say, carry_out, drop, undo
from replview.catalog.connections import connected
from replview.catalog.plan import Plan
from replview.catalog.problems import explain
from replview.catalog.slots import read_slots
from replview.sampling.publications import look_at_publications
from replview.store.models import Slot, SlotEvent, Source

#: A receiver confirms and lets its slot go within five seconds.
_RELEASE_SECONDS = 15.0


def lines_of_plan(plan: Plan) -> list[str]:
    """Every statement with its rights and cost, then what else there is to know."""
    lines = []
    for step in plan.steps:
        lines += [f"  {step};", f"      needs: {step.needs}", f"      costs: {step.costs}"]
    lines += [f"  note: {note}" for note in plan.notes]
    lines += [f"  the slot would now wait for {item}" for item in plan.waits_for]
    return lines


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
) -> Slot:
    """Carry the plan out, then make the slot known; if the latter fails, take the former back."""
    done = carry_out(conninfo, plan, say)
    try:
        with transaction.atomic():
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
        undo(conninfo, done, say)
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


def statements_to_drop(slot: Slot) -> list[sql.Composed]:
    """What taking the slot off its source means: our own slot, our own publications."""
    statements = []
    if slot.owned and not slot.temporary:
        statements.append(
            sql.SQL("SELECT pg_drop_replication_slot({})").format(sql.Literal(slot.name))
        )
    for event in SlotEvent.objects.filter(slot=slot, kind__in=["created", "adopted"]):
        for name in event.detail.get("made_publications", []):
            statements.append(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))
    return statements


def drop_on_source(slot: Slot, conninfo: str, statements: list[sql.Composed], say: Say) -> None:
    """Wait until nobody reads the slot, then drop. Raises ``CommandError`` with what to do."""
    try:
        exists = _wait_for_release(slot, conninfo, say)
        drop(conninfo, statements if exists or not slot.owned else statements[1:])
    except psycopg.Error as error:
        if error.sqlstate:
            cause = (error.diag.message_primary or "the server refused").splitlines()[0]
        else:
            cause = explain(error, conninfo).cause
        left = "; ".join(statement.as_string(None) for statement in statements)
        raise CommandError(
            f"{cause}. The slot is stopped, nothing else was changed here. Try again, or forget it "
            f"with --leave-on-source and run on the source yourself: {left}"
        ) from None


def _wait_for_release(slot: Slot, conninfo: str, say: Say) -> bool:
    """Until no reader holds it; False if it is not there any more."""
    until = time.monotonic() + _RELEASE_SECONDS
    told = False
    with connected(conninfo, deadline_seconds=_RELEASE_SECONDS + 10) as connection:
        while True:
            found = next((s for s in read_slots(connection) if s.slot_name == slot.name), None)
            if found is None or not found.active:
                return found is not None
            if time.monotonic() > until:
                raise CommandError(
                    f"process {found.active_pid} on the source still reads slot {slot.name}: end "
                    f"it with SELECT pg_terminate_backend({found.active_pid}) and try again"
                )
            if not told:
                say("waiting until the receiver lets the slot go")
                told = True
            time.sleep(0.2)

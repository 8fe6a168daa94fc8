"""Drop a slot on its source with the publications replview made, and keep or delete its record.

Slots and publications that replview did not make are never dropped.
"""

import time
from dataclasses import dataclass

import psycopg
from psycopg import sql

from replview.acts.noting import note_slot
from replview.acts.publications import made_by_us, read_definitions, remaining_slots
from replview.acts.receiving import silent
from replview.catalog.connections import connected
from replview.catalog.plan.carrying_out import Say, drop
from replview.catalog.plan.plan import Plan, Statement
from replview.catalog.problems import SourceProblem, explain, first_line
from replview.catalog.slots import read_slots
from replview.store.dsn import full_conninfo
from replview.store.models import Slot
from replview.store.slot_control import give_up

#: A receiver confirms and releases its slot within five seconds.
_RELEASE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Drops:
    """The slot and publications to drop on the source."""

    #: True when replview made the slot, so that it is dropped.
    slot: bool
    #: Publications that replview made and no other slot of ours reads.
    publications: tuple[str, ...]
    #: Publications that replview made, which another slot of ours reads.
    shared: tuple[str, ...]

    def statements(self, slot: Slot, *, there: bool = True) -> list[sql.Composed]:
        """Return the statements in order; ``there``: the slot still exists on the source."""
        statements = []
        if self.slot and there:
            statements.append(
                sql.SQL("SELECT pg_drop_replication_slot({})").format(sql.Literal(slot.name))
            )
        for name in self.publications:
            statements.append(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))
        return statements


def drops_of(slot: Slot) -> Drops:
    """Return what is to be dropped, as far as the store knows."""
    other_slots = remaining_slots(slot.source).exclude(pk=slot.pk)
    read_names = {
        name for names in other_slots.values_list("publications", flat=True) for name in names
    }
    made = made_by_us(slot)
    return Drops(
        slot=slot.owned and not slot.temporary,
        publications=tuple(name for name in made if name not in read_names),
        shared=tuple(name for name in made if name in read_names),
    )


def plan_drop(slot: Slot, *, keep_record: bool = False, leave_on_source: bool = False) -> Plan:
    """Plan the statements and the record's future, without reading the source."""
    drops = drops_of(slot)
    statements = [] if leave_on_source else drops.statements(slot)
    record = f"Drop {slot} and keep its" if keep_record else f"Remove {slot} with its"
    return Plan(
        title=f"{record} record",
        on=slot.source.name,
        statements=tuple(_as_shown(statement) for statement in statements),
        consequences=tuple(
            _consequences(slot, drops, keep_record=keep_record, leave_on_source=leave_on_source)
        ),
        typed=slot.name,
        refusal=_refusal(slot, keep_record=keep_record),
    )


def drop_slot(
    slot: Slot,
    *,
    by: str,
    keep_record: bool = False,
    leave_on_source: bool = False,
    say: Say = silent,
) -> None:
    """Stop the slot, wait until nobody reads it, drop it, then keep or delete its record.

    Raises ``SourceProblem``, and before any change ``DSNError`` and ``SecretKeyChanged``. Where
    the source cannot be reached, nothing was changed either; where it refuses, the slot is stopped.
    """
    plan_drop(slot, keep_record=keep_record, leave_on_source=leave_on_source).check()
    drops = drops_of(slot)
    statements = [statement.as_string(None) for statement in drops.statements(slot)]
    definitions: list[dict[str, str]] = []
    if statements and not leave_on_source:
        definitions = _drop_on_source(slot, drops, say)
    detail = {"statements": [] if leave_on_source else statements}
    if keep_record:
        give_up(slot, by)
        message = "The slot was dropped on the source; its record is kept and ends here."
        note_slot(slot, "drop", message, by=by, **detail, dropped_publications=definitions)
        return
    Slot.objects.filter(pk=slot.pk).update(desired=Slot.Desired.REMOVING)
    message = "The slot was removed; its record is being deleted."
    note_slot(slot, "drop", message, by=by, **detail, record="deleted")


def _drop_on_source(slot: Slot, drops: Drops, say: Say) -> list[dict[str, str]]:
    """Stop the slot and drop it there; return the definitions of the dropped publications."""
    conninfo = full_conninfo(slot.source)
    progress = "Nothing was changed"
    try:
        # Connect before any change, to find out whether the source can be reached.
        with connected(conninfo) as connection:
            definitions = read_definitions(connection, drops.publications)
        Slot.objects.filter(pk=slot.pk).update(desired=Slot.Desired.STOPPED)
        progress = "The slot is stopped; nothing else was changed"
        exists = _wait_for_release(slot, conninfo, say) if drops.slot else False
        drop(conninfo, drops.statements(slot, there=exists))
        return definitions
    except psycopg.Error as error:
        cause = first_line(error) if error.sqlstate else explain(error, conninfo).cause
        remaining = "; ".join(statement.as_string(None) for statement in drops.statements(slot))
        raise SourceProblem(
            "not_dropped",
            f"{cause}. {progress}",
            f"Try again, or remove it only here and run this on the source yourself: {remaining}",
            "leave_on_source",
        ) from None


def _wait_for_release(slot: Slot, conninfo: str, say: Say) -> bool:
    """Wait until no reader holds the slot; return False if it no longer exists."""
    deadline = time.monotonic() + _RELEASE_SECONDS
    announced = False
    with connected(conninfo, deadline_seconds=_RELEASE_SECONDS + 10) as connection:
        while True:
            existing = next(
                (row for row in read_slots(connection) if row.slot_name == slot.name), None
            )
            if existing is None or not existing.active:
                return existing is not None
            if time.monotonic() > deadline:
                raise SourceProblem(
                    "slot_in_use",
                    f"process {existing.active_pid} on the source still reads slot {slot.name}",
                    f"End it with SELECT pg_terminate_backend({existing.active_pid}) and try again",
                )
            if not announced:
                say("waiting until the receiver releases the slot")
                announced = True
            time.sleep(0.2)


def _consequences(
    slot: Slot, drops: Drops, *, keep_record: bool, leave_on_source: bool
) -> list[str]:
    sentences = []
    statements_text = "; ".join(statement.as_string(None) for statement in drops.statements(slot))
    if leave_on_source and statements_text:
        sentences.append(
            f"Nothing is dropped on {slot.source}. Run this there yourself: {statements_text}. "
            "Until you do, these objects stay there, and a slot retains WAL."
        )
    elif drops.slot:
        sentences.append(
            f"{slot.source} no longer retains WAL for the slot: it can remove the WAL that the "
            "slot retained."
        )
    elif statements_text:
        sentences.append(
            f"replview did not create this slot: it stays on {slot.source} and retains WAL there."
        )
    else:
        sentences.append(
            f"Nothing is dropped on {slot.source}, because replview created nothing there: the "
            "slot stays and retains WAL."
        )
    if drops.shared:
        names = ", ".join(drops.shared)
        sentences.append(f"Not dropped, because another slot of replview reads it: {names}.")
    stored = f"{slot.transactions_stored:,} transactions"
    if keep_record:
        sentences.append(
            f"The record ({stored} of its current incarnation) is kept and can be browsed. "
            "Transactions that commit from now on are not recorded. Starting the slot again "
            "creates a new slot, and history shows the gap."
        )
    else:
        sentences.append(
            f"The record ({stored} of its current incarnation) is deleted in the background. It "
            "cannot be restored, except from exports and the archive."
        )
    return sentences


def _refusal(slot: Slot, *, keep_record: bool) -> SourceProblem | None:
    if slot.temporary:
        return SourceProblem(
            "temporary",
            f"slot {slot} is temporary: the server drops it when its connection ends",
            "End the watch that reads it",
        )
    if keep_record and slot.desired == Slot.Desired.REMOVING:
        return SourceProblem("removing", f"the record of {slot} is being deleted", "Nothing to do")
    if keep_record and not slot.owned:
        return SourceProblem(
            "not_ours",
            f"replview did not create slot {slot.name}, so it never drops it",
            "Stop receiving it, or remove it with its record",
        )
    return None


def _as_shown(statement: sql.Composed) -> Statement:
    text = statement.as_string(None)
    if "pg_drop_replication_slot" in text:
        needs = "REPLICATION (or a role that grants it)"
        costs = "nothing: the server can remove the WAL and the dead rows that the slot retained"
    else:
        needs = "ownership of the publication"
        costs = "a brief exclusive lock on the publication; subscriptions to it fail from then on"
    return Statement(sql=text, needs=needs, costs=costs)

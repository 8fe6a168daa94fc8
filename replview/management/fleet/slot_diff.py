"""Compare a declared slot with the slot that replview already has.

The result says what differs, how it is changed, and what cannot be changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from replview.acts.columns import change_columns, plan_columns
from replview.acts.noting import note_slot
from replview.acts.publications import made_by_us
from replview.acts.receiving import plan_start, plan_stop, start, stop
from replview.acts.tables import change_tables, plan_tables
from replview.catalog.connections import Connection
from replview.catalog.plan.columns import check_columns, rules_for_slot
from replview.catalog.plan.new_slot import two_phase_of
from replview.catalog.plan.slot_request import SlotRequest, chosen_tables, fully_usable
from replview.catalog.problems import SourceProblem
from replview.catalog.publications import Publication, read_members, read_publications
from replview.catalog.server import ServerFacts, read_server_facts
from replview.catalog.slots import SlotFacts, read_slots
from replview.catalog.tables import TableFacts
from replview.management.fleet.declared_slot import DeclaredSlot
from replview.management.fleet.matching import chosen_names, columns_matching
from replview.management.fleet.plans import BY, Item
from replview.store.models import Slot
from replview.store.retention.forecast import loss_of
from replview.store.retention.policy import Keeping, change_keeping
from replview.store.slot_budget import change_budget
from replview.store.slot_control import reopen
from replview.text.formats import bytes_words, some_of
from replview.text.parsing import table_text
from replview.text.sizes import limit_text

#: Columns of the slot's row that take effect at the next connection; file keys are the same.
_ROW_KEYS = ("publications", "options", "interface", "keep_aborted")
_BUDGET_COLUMNS = {
    "wal_budget": "wal_budget_bytes",
    "protect": "protect",
    "heartbeat": "heartbeat_seconds",
}


def plan_kept(
    connection: Connection, slot: Slot, declared: DeclaredSlot, tables: list[TableFacts]
) -> Item:
    """Return the slot's item with all differences. Raises ``SourceProblem``."""
    item = Item(kind="slot", name=str(slot))
    if slot.desired == Slot.Desired.REMOVING:
        item.refuse(SourceProblem("removing", "it is being removed", "Apply again when it is gone"))
        return item
    facts = next((row for row in read_slots(connection) if row.slot_name == slot.name), None)
    if slot.owned:  # an adopted slot is accepted as it is
        _check_fixed(item, facts, declared, read_server_facts(connection))
    _compare_tables(connection, item, slot, declared, tables)
    compare_columns(connection, item, slot, declared, tables)
    _compare_row(item, slot, declared)
    _compare_budget(item, slot, declared)
    compare_keeping(item, slot, declared)
    _compare_running(item, slot, declared)
    if facts is None:
        item.notes.append(
            f"The source has no slot {slot.name} any more: 'replview slot start {slot.source} "
            f"{slot.name}' creates it again, with a gap."
        )
    return item


def _check_fixed(
    item: Item, facts: SlotFacts | None, declared: DeclaredSlot, server: ServerFacts
) -> None:
    """Refuse the item if the file changes what is fixed when a slot is created."""
    if facts is None:
        return
    remedy = (
        f"Remove it ('replview slot remove {item.name.replace('/', ' ')}', which deletes its "
        "record) and apply again, or write in the file what it is"
    )
    if declared.says("failover") and bool(facts.failover) != declared.failover:
        if facts.failover is None and not declared.failover:
            return
        verb = "is" if facts.failover else "is not"
        cause = f"the slot {verb} one that survives a failover, and that is not changed in place"
        item.refuse(SourceProblem("fixed", cause, remedy))
    if declared.says("two_phase") and facts.two_phase is not None:
        request = SlotRequest(slot_name=declared.name, two_phase=declared.two_phase)
        expected, _ = two_phase_of(request, server, failover=bool(facts.failover))
        if expected != facts.two_phase:
            verb = "is" if facts.two_phase else "is not"
            cause = f"the slot {verb} a two-phase one, and that is not changed in place"
            item.refuse(SourceProblem("fixed", cause, remedy))


def _compare_tables(
    connection: Connection, item: Item, slot: Slot, declared: DeclaredSlot, tables: list[TableFacts]
) -> None:
    if not declared.says("tables", "except_tables", "all_tables"):
        return
    made_names = made_by_us(slot)
    own_publications = [
        publication
        for publication in read_publications(connection)
        if publication.name in made_names
    ]
    is_all_tables = any(publication.all_tables for publication in own_publications)
    if is_all_tables and (declared.all_tables or chosen_names(declared, tables) == ()):
        return
    if declared.all_tables and not is_all_tables:
        remedy = 'Write tables = ["*"]: new tables join when the file is applied again'
        cause = "its publication is not FOR ALL TABLES, and is not made so in place"
        item.refuse(SourceProblem("fixed", cause, remedy))
        return
    members = {
        member.key: publication
        for publication in own_publications
        for member in read_members(connection, publication.name)
    }
    request = SlotRequest(slot_name=slot.name, tables=chosen_names(declared, tables))
    chosen = chosen_tables(request, tables, connection.info.server_version)
    add, remove = _membership_changes(chosen, members, tables)
    if not add and not remove:
        return
    parts = [f"+{name}" for name in add] + [f"-{name}" for name in remove]
    item.change("tables", f"{len(members)} published", some_of(parts, 12))
    changed = {"add": add, "remove": remove}
    item.take(plan_tables(slot, **changed), lambda say: change_tables(slot, **changed, by=BY))


def _membership_changes(
    chosen: Sequence[TableFacts],
    members: Mapping[tuple[str, str], Publication],
    tables: list[TableFacts],
) -> tuple[list[str], list[str]]:
    """Return the tables to add to the slot's publications, and those to remove."""
    chosen_keys = {table.key for table in chosen}
    # Tables that have a usable replica identity by now also join the publication of updates.
    add = [
        table.text
        for table in chosen
        if (publication := members.get(table.key)) is None
        or (not publication.needs_identity and fully_usable(table, tables))
    ]
    remove = [table_text(*key) for key in members if key not in chosen_keys]
    return add, remove


def _compare_row(item: Item, slot: Slot, declared: DeclaredSlot) -> None:
    """Note differing columns of the slot's row; the receiver reconnects to read them."""
    new_values: dict[str, Any] = {}
    for key in filter(declared.says, _ROW_KEYS):
        former, now = getattr(slot, key), declared.get(key)
        if key == "publications":
            now = former if sorted(former) == sorted(now) else list(now)
        if former != now:
            new_values[key] = now
            item.change(key.replace("_", " "), former, now)
    if new_values and item.trouble is None:
        item.notes.append("The receiver reconnects within two seconds; no change is lost.")
        item.will(_change_row, slot, new_values)


def _change_row(slot: Slot, new_values: dict[str, Any]) -> None:
    Slot.objects.filter(pk=slot.pk).update(**new_values)
    reopen(slot)
    changed_names = ", ".join(sorted(name.replace("_", " ") for name in new_values))
    note_slot(slot, "settings", f"Changed: {changed_names}.", by=BY, settings=sorted(new_values))


def _compare_budget(item: Item, slot: Slot, declared: DeclaredSlot) -> None:
    new_values = {}
    for key, column in _BUDGET_COLUMNS.items():
        if not declared.says(key) or (former := getattr(slot, column)) == declared.get(key):
            continue
        new_values[column] = now = declared.get(key)
        if key == "wal_budget":
            former, now = limit_text(former), limit_text(now)
        item.change(key.replace("_", " "), former, now)
    if new_values.get("heartbeat_seconds") and slot.source.in_recovery:
        cause = f"{slot.source} is a standby: no heartbeat can be written there"
        item.refuse(SourceProblem("standby", cause, "Leave it out, or write heartbeat = false"))
    if new_values and item.trouble is None:
        item.will(change_budget, slot, new_values, by=BY)


def _compare_running(item: Item, slot: Slot, declared: DeclaredSlot) -> None:
    if not declared.says("running"):
        return
    desired = Slot.Desired.RUNNING if declared.running else Slot.Desired.STOPPED
    if slot.desired == desired:
        return
    item.change("receiving", slot.desired, desired)
    if desired == Slot.Desired.RUNNING:
        item.take(plan_start(slot), lambda say: start(slot, by=BY, say=say))
    else:
        item.take(plan_stop(slot), lambda say: stop(slot, by=BY))


def compare_columns(
    connection: Connection, item: Item, slot: Slot, declared: DeclaredSlot, tables: list[TableFacts]
) -> None:
    """Note differing column rules and how they change. Raises ``SourceProblem``."""
    if not declared.says("exclude_columns", "mask_columns"):
        return
    exclude = columns_matching(declared.exclude_columns, tables)
    mask = columns_matching(declared.mask_columns, tables)
    request = SlotRequest(slot_name=slot.name, exclude=exclude, mask=mask)
    # An excluded column would also be missing from the keys that contain it.
    check_columns(request, tables, _updated_tables(connection, slot, tables))
    declared_rules = rules_for_slot(request)
    # Keep the existing rules of a kind (excluded or masked) that the file does not declare.
    for key, rule in (("exclude_columns", "drop"), ("mask_columns", "mask")):
        if not declared.says(key):
            for table, columns in slot.column_rules.items():
                for column, former in columns.items():
                    if former == rule:
                        declared_rules.setdefault(table, {}).setdefault(column, former)
    if declared_rules == slot.column_rules:
        return
    former, now = _rule_by_column(slot.column_rules), _rule_by_column(declared_rules)
    for name in sorted(former.keys() | now.keys()):
        if former.get(name) != now.get(name):
            item.change(f"column {name}", former.get(name, "kept"), now.get(name, "kept"))
    texts = {str(table): table.text for table in tables}
    changed = {
        texts.get(table, table): declared_rules.get(table, {})
        for table in declared_rules.keys() | slot.column_rules.keys()
        if declared_rules.get(table) != slot.column_rules.get(table)
    }
    item.take(plan_columns(slot, changed), lambda say: change_columns(slot, changed, by=BY))


def _updated_tables(
    connection: Connection, slot: Slot, tables: list[TableFacts]
) -> list[TableFacts] | None:
    """Return the tables whose updates our publications publish.

    None means that replview made none of the slot's publications, so any table may be in them.
    """
    made_names = made_by_us(slot)
    if not made_names:
        return None
    published = {
        table.key
        for publication in read_publications(connection)
        if publication.name in made_names and publication.needs_identity
        for table in publication.tables
    }
    return [table for table in tables if table.key in published]


def _rule_by_column(rules: dict[str, dict[str, str]]) -> dict[str, str]:
    rule_texts = {"drop": "left out", "mask": "masked"}
    return {
        f"{table}.{column}": rule_texts.get(rule, rule)
        for table, columns in rules.items()
        for column, rule in columns.items()
    }


def wanted_keeping(slot: Slot, declared: DeclaredSlot) -> Keeping | None:
    """Return the declared retention, or None if the slot has it already."""
    declared_keeping = Keeping(
        declared.get("keep_for", slot.keep_for_days),
        declared.get("keep_at_most", slot.keep_at_most_bytes),
    )
    return None if declared_keeping == Keeping.of(slot) else declared_keeping


def compare_keeping(item: Item, slot: Slot, declared: DeclaredSlot) -> None:
    """Note a different retention, what it would delete, and how it is changed."""
    declared_keeping = wanted_keeping(slot, declared)
    if declared_keeping is None:
        return
    if declared_keeping.for_days != slot.keep_for_days:
        days = (slot.keep_for_days, declared_keeping.for_days)
        item.change("keep for", *(None if count is None else f"{count} days" for count in days))
    if declared_keeping.at_most_bytes != slot.keep_at_most_bytes:
        item.change(
            "keep at most",
            limit_text(slot.keep_at_most_bytes),
            limit_text(declared_keeping.at_most_bytes),
        )
    loss = loss_of(slot, declared_keeping)
    if not loss.nothing:
        item.notes.append(
            f"This deletes what is recorded from {loss.first} to {loss.last}: "
            f"{loss.transactions:,} transactions with {loss.changes:,} changes, "
            f"{bytes_words(loss.store_bytes)}."
        )
    if item.trouble is None:
        item.will(change_keeping, slot, declared_keeping, by=BY)

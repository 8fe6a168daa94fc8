"""The columns a slot leaves out or masks, compared with what the file declares of them."""

from replview.acts.columns import change_columns, plan_columns
from replview.acts.publications import made_by_us
from replview.catalog.connections import Connection
from replview.catalog.plan.column_rules import check_columns, rules_for_slot
from replview.catalog.plan.slot_request import Wish
from replview.catalog.publications import read_publications
from replview.catalog.tables import TableFacts
from replview.management.fleet.declared import DeclaredSlot
from replview.management.fleet.matching import columns_matching
from replview.management.fleet.plans import BY, Item
from replview.store.models import Slot

Rules = dict[str, dict[str, str]]


def compare_columns(
    connection: Connection,
    item: Item,
    slot: Slot,
    declared: DeclaredSlot,
    tables: list[TableFacts],
) -> None:
    """Note what differs, and how it is changed. Raises ``SourceTrouble`` for no column."""
    if not declared.says("exclude_columns", "mask_columns"):
        return
    exclude = columns_matching(declared.get("exclude_columns", ()), tables)
    mask = columns_matching(declared.get("mask_columns", ()), tables)
    wish = Wish(slot_name=slot.name, exclude=exclude, mask=mask)
    # Whatever is left out here is missing from a row's key, too, where it is part of it.
    check_columns(wish, tables, _known_by_key(connection, slot, tables))
    wanted = rules_for_slot(wish)
    # Of what the file does not speak of, what there is stays.
    for key, rule in (("exclude_columns", "drop"), ("mask_columns", "mask")):
        if not declared.says(key):
            for table, columns in slot.column_rules.items():
                for column, was in columns.items():
                    if was == rule:
                        wanted.setdefault(table, {}).setdefault(column, was)
    if wanted == slot.column_rules:
        return
    was, now = _flat(slot.column_rules), _flat(wanted)
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            item.change(f"column {name}", was.get(name, "kept"), now.get(name, "kept"))
    texts = {str(table): table.text for table in tables}
    changed = {
        texts.get(table, table): wanted.get(table, {})
        for table in wanted.keys() | slot.column_rules.keys()
        if wanted.get(table) != slot.column_rules.get(table)
    }
    item.take(plan_columns(slot, changed), lambda say: change_columns(slot, changed, by=BY))


def _known_by_key(
    connection: Connection, slot: Slot, tables: list[TableFacts]
) -> list[TableFacts] | None:
    """The tables whose updates our publications publish, as when the slot was made; None: its
    publications are others', and any table may be in them.
    """
    made = made_by_us(slot)
    if not made:
        return None
    published = {
        (table.schema, table.name)
        for publication in read_publications(connection)
        if publication.name in made and publication.needs_identity
        for table in publication.tables
    }
    return [table for table in tables if (table.schema, table.name) in published]


def _flat(rules: Rules) -> dict[str, str]:
    words = {"drop": "left out", "mask": "masked"}
    return {
        f"{table}.{column}": words.get(rule, rule)
        for table, columns in rules.items()
        for column, rule in columns.items()
    }

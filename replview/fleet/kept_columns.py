"""The columns a slot leaves out or masks, compared with what the file declares of them."""

from replview.catalog.column_rules import check_columns, rules_for_slot
from replview.catalog.connections import Connection
from replview.catalog.findings import some_of
from replview.catalog.problems import Trouble
from replview.catalog.publication_members import read_members
from replview.catalog.tables import TableFacts
from replview.catalog.wishes import Wish
from replview.fleet.declared import DeclaredSlot
from replview.fleet.matching import columns_matching
from replview.fleet.plans import Item
from replview.managing.definitions import made_by_us
from replview.store.models import Slot

Rules = dict[str, dict[str, str]]


def compare_columns(
    connection: Connection,
    item: Item,
    slot: Slot,
    declared: DeclaredSlot,
    tables: list[TableFacts],
) -> Rules | None:
    """The rules as they will be; None: as they are. Raises ``SourceTrouble`` for no column."""
    if not declared.says("exclude_columns", "mask_columns"):
        return None
    exclude = columns_matching(declared.get("exclude_columns", ()), tables)
    mask = columns_matching(declared.get("mask_columns", ()), tables)
    wish = Wish(slot_name=slot.name, exclude=exclude, mask=mask)
    # Whatever is left out here is missing from a row's key, too, where it is part of it.
    check_columns(wish, tables, None)
    wanted = rules_for_slot(wish)
    # Of what the file does not speak of, what there is stays.
    for key, rule in (("exclude_columns", "drop"), ("mask_columns", "mask")):
        if not declared.says(key):
            for table, columns in slot.column_rules.items():
                for column, was in columns.items():
                    if was == rule:
                        wanted.setdefault(table, {}).setdefault(column, was)
    if wanted == slot.column_rules:
        return None
    was, now = _flat(slot.column_rules), _flat(wanted)
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            item.change(f"column {name}", was.get(name, "kept"), now.get(name, "kept"))
    _check_unsent(connection, item, slot, wanted)
    item.notes.append(
        "Columns are left out or masked from now on; what is stored of them stays until it is "
        "erased or out of its time. The source goes on sending what its publication has."
    )
    return wanted


def _check_unsent(connection: Connection, item: Item, slot: Slot, wanted: Rules) -> None:
    """A column that the publication leaves out is not to be had by changing a rule here."""
    kept_now = {
        f"{table}.{column}"
        for table, columns in slot.column_rules.items()
        for column, rule in columns.items()
        if rule == "drop" and wanted.get(table, {}).get(column) != "drop"
    }
    if not kept_now:
        return
    unsent = []
    for publication in made_by_us(slot):
        for member in read_members(connection, publication):
            if member.columns is None:
                continue
            unsent += [
                name
                for name in kept_now
                if name.rpartition(".")[0] == str(member)
                and name.rpartition(".")[2] not in member.columns
            ]
    if unsent:
        item.refuse(
            Trouble(
                "not_sent",
                f"the publication does not send {some_of(sorted(unsent))}",
                "Its owner changes the column list first: ALTER PUBLICATION … SET TABLE …",
            )
        )


def _flat(rules: Rules) -> dict[str, str]:
    words = {"drop": "left out", "mask": "masked"}
    return {
        f"{table}.{column}": words.get(rule, rule)
        for table, columns in rules.items()
        for column, rule in columns.items()
    }

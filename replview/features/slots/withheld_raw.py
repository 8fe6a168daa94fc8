"""Whether the bytes of a message that could not be stored may be shown: they hold values as they
came, before any mask.
"""

from replview.store.globs import table_readings
from replview.store.masks import current_rules, masked_by, named_columns
from replview.store.models import Quarantine, RelationVersion, Slot
from replview.store.read.visibility import NO_RIGHT, current_sight

#: Tags of messages that carry values of rows; all else but ``M`` carries none.
_OF_ROWS = "IUD"


def why_withheld(row: Quarantine, slot: Slot) -> str:
    """Why the message's bytes are shown to nobody, or not to whoever asks; empty: they may be."""
    sight = current_sight()
    if row.tag == "M":
        return f"you have {NO_RIGHT}" if sight.hides_messages(slot.source_id) else ""
    if row.tag not in _OF_ROWS and row.tag:
        return ""
    called = table_readings(row.relation)
    if not called:
        closed = sight.restricted or current_rules() or slot.column_rules
        return "it names no table, and some are not to be seen" if closed else ""
    if any(sight.hides_table(slot.source_id, schema, table) for schema, table in called):
        return f"you have {NO_RIGHT} of {row.relation}"
    if any(_is_masked(slot, schema, table) for schema, table in called):
        return f"columns of {row.relation} are masked, and these bytes are as they came"
    return ""


def _is_masked(slot: Slot, schema: str, table: str) -> bool:
    """Any column, by the slot's own rules or the instance's, under any name that the table had; of
    one that is not recorded any rule counts.
    """
    so_called = RelationVersion.objects.filter(relation__slot=slot, schema=schema, table=table)
    shapes = RelationVersion.objects.filter(relation__in=so_called.values("relation"))
    told = list(shapes.values_list("schema", "table", "columns"))
    columns = [column for *_, shape in told for column in named_columns(shape)]
    rules = current_rules()
    for of_schema, of_table in {(schema, table), *((one, other) for one, other, _ in told)}:
        if (slot.column_rules or {}).get(f"{of_schema}.{of_table}"):
            return True
        mine = [r for r in rules if r.matches_table(slot.source_id, of_schema, of_table)]
        if mine and (not columns or masked_by(mine, slot.source_id, of_schema, of_table, columns)):
            return True
    return False

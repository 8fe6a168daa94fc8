"""Whether the bytes of a message that could not be stored may be shown: they hold values as they
came, before any mask.
"""

from replview.store.masks import current_rules, masked_by, named_columns
from replview.store.models import Quarantine, RelationVersion, Slot
from replview.store.sight import NO_RIGHT, current_sight

#: Tags of messages that carry values of rows; all else but ``M`` carries none.
_OF_ROWS = "IUD"


def why_withheld(row: Quarantine, slot: Slot) -> str:
    """Why the message's bytes are shown to nobody, or not to whoever asks; empty: they may be."""
    sight = current_sight()
    if row.tag == "M":
        return f"you have {NO_RIGHT}" if sight.hides_messages(slot.source_id) else ""
    if row.tag not in _OF_ROWS and row.tag:
        return ""
    schema, _, table = row.relation.partition(".")
    if not table:
        closed = sight.restricted or current_rules() or slot.column_rules
        return "it names no table, and some are not to be seen" if closed else ""
    if sight.hides_table(slot.source_id, schema, table):
        return f"you have {NO_RIGHT} of {row.relation}"
    if _is_masked(slot, schema, table):
        return f"columns of {row.relation} are masked, and these bytes are as they came"
    return ""


def _is_masked(slot: Slot, schema: str, table: str) -> bool:
    """Any column, by the slot's own rules or the instance's; of a table that is not recorded any
    rule counts.
    """
    if (slot.column_rules or {}).get(f"{schema}.{table}"):
        return True
    rules = [r for r in current_rules() if r.matches_table(slot.source_id, schema, table)]
    if not rules:
        return False
    shapes = list(
        RelationVersion.objects.filter(
            relation__slot=slot, relation__schema=schema, relation__table=table
        ).values_list("columns", flat=True)
    )
    columns = [column for shape in shapes for column in named_columns(shape)]
    return not columns or bool(masked_by(rules, slot.source_id, schema, table, columns))

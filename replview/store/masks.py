"""The mask rules as they are now, for whoever acts on them without asking for a row."""

from collections.abc import Sequence

from django.db import connection

from replview.store.read.mask_rules import (
    RULES_SQL,
    ColumnShape,
    Rule,
    When,
    masked_by,
    rules_of_rows,
)


def current_rules() -> tuple[Rule, ...]:
    """All rules as they are now; one small read."""
    with connection.cursor() as cursor:
        cursor.execute(RULES_SQL)
        return rules_of_rows(cursor.fetchall())


def masked_columns(
    source_id: int, schema: str, table: str, columns: Sequence[ColumnShape]
) -> dict[str, When]:
    """``{column: where it is masked}`` of a table, by the rules as they are now."""
    return masked_by(current_rules(), source_id, schema, table, columns)

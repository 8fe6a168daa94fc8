"""Template tags for the cells of lists.

The list of transactions has its own columns. Shorter lists of transactions, on the overview and on
an actor's page, name the cells that they show.
"""

from typing import Any

from django import template
from django.template.loader import render_to_string

from replview.ui.changes import transaction_cells
from replview.ui.columns import Column

register = template.Library()

register.simple_tag(transaction_cells.time_link, name="transaction_link")
register.simple_tag(transaction_cells.name_to_copy, name="transaction_name")
register.simple_tag(transaction_cells.tables, name="touched_tables")
register.simple_tag(transaction_cells.actor, name="transaction_actor")
register.simple_tag(transaction_cells.also)


@register.simple_tag
def cell(column: Column[Any], line: Any) -> str:
    """Return the content of a line's cell; text of a source is escaped."""
    if column.cell is None:
        return render_to_string(column.template, {"line": line})
    return column.cell(line)

"""Template tags for the cells of lists.

The list of transactions has its own columns. Shorter lists of transactions, on the overview and on
an actor's page, name the cells that they show.
"""

from django import template

from replview.ui.changes import transaction_cells
from replview.ui.columns import cells_html

register = template.Library()

register.simple_tag(transaction_cells.time_link, name="transaction_link")
register.simple_tag(transaction_cells.name_to_copy, name="transaction_name")
register.simple_tag(transaction_cells.tables, name="touched_tables")
register.simple_tag(transaction_cells.actor, name="transaction_actor")
register.simple_tag(transaction_cells.also)
register.simple_tag(cells_html, name="cells")

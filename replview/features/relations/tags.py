"""Template tags and filters of the relations pages."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from replview.features.relations.history_page import SchemaPage
from replview.store.models import Relation, Slot
from replview.store.sums.relation_sums import RelationSum
from replview.text.addresses import find_url, row_url, transactions_url
from replview.text.parsing import table_text
from replview.ui.component_html import op_html

register = template.Library()


@register.simple_tag
def op_counts(counts: RelationSum) -> SafeString:
    """Render a mark for each kind of operation that occurred, with its count."""
    c = counts
    numbers = zip("IUDTS", (c.inserts, c.updates, c.deletes, c.truncates, c.snapshots), strict=True)
    return format_html_join(
        "", "{}", ((op_html(letter, number),) for letter, number in numbers if number)
    )


@register.filter
def in_sql(relation: Relation) -> str:
    """Return the table's name as filters of addresses spell it."""
    return table_text(relation.schema, relation.table)


@register.simple_tag
def find_changes(slot: Slot, relation: Relation) -> str:
    """Return the address that searches the table's changes."""
    return find_url(slot, table=in_sql(relation))


@register.simple_tag
def transactions_touching(slot: Slot, relation: Relation) -> str:
    """Return the address of the transactions that changed the table."""
    return transactions_url(slot, tables=in_sql(relation))


@register.simple_tag
def history_of_rows(slot: Slot, relation: Relation) -> str:
    """Return the address of the form that asks for a row of the table."""
    return row_url(slot, relation.schema, relation.table, {})


@register.simple_tag
def baselines_of(slot: Slot, relation: Relation) -> str:
    """Return the address of the table's baselines."""
    address = reverse("baselines", args=[slot.source.name, slot.name])
    return f"{address}?{urlencode({'table': str(relation)})}"


@register.simple_tag
def here(page: SchemaPage) -> str:
    """Return the comparison as a query string that can be extended: ``from=4&to=5&``."""
    versions = {"from": page.before, "to": page.to}
    query = urlencode(
        {name: version.version.number for name, version in versions.items() if version is not None}
    )
    return f"{query}&" if query else ""


@register.simple_tag
def published_columns(page: SchemaPage) -> SafeString:
    """Render the published columns: ``13 of 14 columns, card_token excluded``."""
    published = page.published
    if published is None:
        return SafeString("not published now")
    left_out = published.unpublished_columns
    sent_count = len(published.columns) if published.columns is not None else None
    if sent_count is None and page.history.current is not None:
        sent_count = len(page.history.current.version.columns)
    if not left_out:
        return SafeString("all columns")
    names = format_html_join(", ", "<code>{}</code>", ((name,) for name in left_out[:6]))
    more = format_html(" and {} more", len(left_out) - 6) if len(left_out) > 6 else ""
    part = (
        f"{sent_count} of {sent_count + len(left_out)} columns"
        if sent_count is not None
        else "some columns"
    )
    return format_html("{}, {}{} excluded", part, names, more)


@register.simple_tag
def now_list(words: str, constraints: Iterable[Any]) -> SafeString:
    """Render the constraints as a summary that opens the full list."""
    shown = [constraint for constraint in constraints if constraint.kind != "not null"]
    if not shown:
        return format_html("{}", words)
    items = format_html_join(
        "",
        "<li><code>{}</code> {}{}</li>",
        (
            (constraint.name, constraint.definition, "" if constraint.valid else " (not valid)")
            for constraint in shown
        ),
    )
    return format_html(
        '<details class="now-list"><summary>{}</summary><ul>{}</ul></details>', words, items
    )

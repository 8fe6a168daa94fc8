"""Tags of lists of transactions: their lines, and addresses with one filter changed."""

from django import template
from django.utils.safestring import SafeString, mark_safe

from replview.features.transactions.list_page import list_url as url_of
from replview.store.read.transactions.listing import TransactionFilter
from replview.ui.changes.transaction_line_html import name_html, tables_html, transaction_line_html
from replview.ui.changes.transaction_lines import TransactionLine

register = template.Library()


@register.simple_tag
def list_url(wanted: TransactionFilter, **changes: str) -> str:
    """``{% list_url wanted actor="?" %}``: the list with this word changed, at the newest."""
    return url_of(wanted, **{name: str(word) for name, word in changes.items()})


@register.simple_tag
def transaction_line(line: TransactionLine, several: bool) -> SafeString:
    """``{% transaction_line line page.several %}``: a transaction in its line of the list."""
    return mark_safe(transaction_line_html(line, several=several))


@register.simple_tag
def transaction_name(line: TransactionLine) -> SafeString:
    """Its gid or xid, to copy."""
    return mark_safe(name_html(line))


@register.simple_tag
def touched_tables(line: TransactionLine) -> SafeString:
    """The tables that it touched, with their counts, and its messages."""
    return mark_safe(tables_html(line))

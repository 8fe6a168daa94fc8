"""Template tag of lists of transactions: addresses with one filter changed."""

from django import template

from replview.features.transactions.list_page import list_url as url_of
from replview.store.read.transactions.transaction_filter import TransactionFilter

register = template.Library()


@register.simple_tag
def list_url(filter_: TransactionFilter, **changes: str) -> str:
    """Return the address of the list's newest page with one filter changed."""
    return url_of(filter_, **{name: str(value) for name, value in changes.items()})

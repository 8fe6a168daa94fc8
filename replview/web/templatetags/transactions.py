"""Tags of the transactions page: addresses with one filter changed."""

from django import template

from replview.store.browsing import TransactionFilter
from replview.web.transactions_page import list_url as url_of

register = template.Library()


@register.simple_tag
def list_url(wanted: TransactionFilter, **changes: str) -> str:
    """``{% list_url wanted actor="?" %}``: the list with this word changed, at the newest."""
    return url_of(wanted, **{name: str(word) for name, word in changes.items()})

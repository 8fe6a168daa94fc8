"""Template tags of the in-flight page: addresses, ages, bars and lifecycles."""

from datetime import datetime
from functools import lru_cache
from typing import Any

from django import template
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from replview.access.visibility import current_visibility
from replview.features.in_flight.filters import InFlightQuery
from replview.features.in_flight.rows import InFlightRow
from replview.store.models import Transaction
from replview.store.read.seen import withholds_size
from replview.text import formats
from replview.ui.changes.stages import LifecycleDrawing
from replview.ui.component_html import time_html

register = template.Library()


@register.simple_tag
def on_source_word(row: InFlightRow) -> SafeString:
    """Return the symbol that says whether the transaction is still open on its source."""
    on_source = row.on_source
    receiving = row.transaction.state == "receiving"
    open_state = "prepared" if row.row.prepared or "gid" in (on_source.found or {}) else "running"
    return _on_source(on_source.word, on_source.reason, open_state, receiving)


@lru_cache(64)
def _on_source(word: str, reason: str, open_state: str, receiving: bool) -> SafeString:
    values = {"word": word, "reason": reason, "there": open_state, "receiving": receiving}
    return mark_safe(render_to_string("in_flight/_on_source_word.html", values).strip())


@register.simple_tag
def received_bytes(transaction: Transaction) -> str:
    """Return the received size, unless it would reveal the size of hidden values."""
    if withholds_size(transaction, current_visibility()):
        return "size withheld,"
    return formats.bytes_words(transaction.size_bytes)


@register.simple_tag
def flight_url(filters: InFlightQuery, **changes: Any) -> str:
    """Return the address with some filters changed: ``{% flight_url filters tx='' %}``."""
    return filters.url(**changes)


@register.simple_tag
def row_url(filters: InFlightQuery, identifier: int) -> str:
    """Return the address that opens the transaction in the drawer."""
    return f"{_row_url(filters)}{identifier}"


@lru_cache(64)
def _row_url(filters: InFlightQuery) -> str:
    url = filters.url(tx="")
    return f"{url}{'&' if '?' in url else '?'}tx="


@register.simple_tag
def age_of(moment: datetime) -> SafeString:
    """Return the age, such as ``9 h 12 min``, which the browser updates; UTC on hover."""
    return time_html(moment, "age", formats.age_words(timezone.now() - moment))


@register.inclusion_tag("ui/components/lifecycle.html")
def lifecycle(drawn: LifecycleDrawing | None) -> dict[str, object]:
    """Render the lifecycle of a transaction."""
    return {"lifecycle": drawn}


@register.simple_tag
def age_bar(length: float, long: bool) -> SafeString:
    """Return a bar whose length is the square root of the age; amber if the age is long."""
    return format_html(
        '<svg class="age-bar{}" width="48" height="6" aria-hidden="true">'
        '<rect width="{}" height="6" rx="2"/></svg>',
        " long" if long else "",
        length,
    )


@register.filter
def per_second(rate: float | None) -> str:
    """Format a rate such as ``1,730 changes/s``; below 1 with a decimal."""
    return "unknown" if rate is None else formats.rate_words(rate, "changes")


@register.filter
def lasted(seconds: float | None) -> str:
    """Format a duration such as ``1 min 42 s``; None as ``unknown``."""
    return "unknown" if seconds is None else formats.age_words(seconds)

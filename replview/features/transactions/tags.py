"""Template tags of lists of transactions: rows, and addresses with one filter changed.

Rows are written in Python for speed, as a page has fifty of them. Every value and name passes
through ``escape`` or ``format_html``.
"""

import datetime as dt
from collections.abc import Sequence
from html import escape

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from replview.features.transactions.list_page import list_url as url_of
from replview.health.open_transactions import Touched
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.text.formats import bytes_words, count_words
from replview.ui.changes.transaction_lines import TransactionLine
from replview.ui.component_html import chip_html, copy_html, op_html, state_html

register = template.Library()

_UNKNOWN = '<i class="unknown">unknown</i>'


def transaction_line_html(line: TransactionLine, *, several: bool) -> str:
    """Render a transaction as a table row; ``several`` adds the slot's name."""
    row = line.row
    changes = f"<s>{count_words(row.changes)}</s>" if line.lost else count_words(row.changes)
    rolled_back = ""
    if row.aborted_changes:
        rolled_back = (
            f'<span class="quiet"><s>{count_words(row.aborted_changes)}</s> rolled back</span>'
        )
    size = "withheld" if row.shown_size_bytes is None else bytes_words(row.shown_size_bytes)
    slot = f'<td class="col-slot second">{escape(line.slot)}</td>' if several else ""
    return (
        f'<tr{_class_attribute(line)} data-tx="{row.id}">'
        f'<td class="col-time">{_time_link(line)}</td>'
        f'<td class="col-name">{transaction_name(line)}</td>'
        f'<td class="col-state">{state_html(row.state, wordless=line.wordless)}</td>'
        f'<td class="col-tables">{touched_tables(line)}{rolled_back}</td>'
        f'<td class="col-actor">{_actor_html(line)}</td>'
        f'<td class="col-origin">{escape(row.origin or "")}</td>{slot}'
        f'<td class="col-changes num">{changes}</td>'
        f'<td class="col-size num">{size}</td></tr>'
    )


@register.simple_tag
def transaction_name(line: TransactionLine) -> str:
    """Render the gid or xid with a copy button; empty if the transaction has neither."""
    return copy_html(line.name, "xid or gid", plain=True, cut=True) if line.name else ""


@register.simple_tag
def touched_tables(line: TransactionLine) -> SafeString:
    """Render the tables with most changes, the number of other tables, and messages."""
    tables_html = "".join(map(_touched_table_html, line.tables))
    if line.more_tables:
        more = escape(line.more_words)
        tables_html += (
            f'<span class="quiet more-tables" data-tip="{more}">+{len(line.more_tables)}'
            f'<span class="visually-hidden"> more: {more}</span></span>'
        )
    if line.row.messages:
        tables_html += op_html("M")
        if not line.tables:
            if line.prefix:
                tables_html += f'<code class="prefix cut">{escape(line.prefix)}</code>'
            tables_html += '<span class="quiet tail">message only</span>'
    elif not line.tables:
        skipped = line.row.state == "skipped"
        words = "left out by decision" if skipped else "no published change"
        tables_html += f'<span class="quiet">{words}</span>'
    return mark_safe(f'<span class="touched-tables">{tables_html}</span>')


def _touched_table_html(table: Touched) -> str:
    counts = "".join(op_html(letter, number) for letter, number in table.operations)
    return f'<span class="touched"><code class="cut">{escape(table.name)}</code>{counts}</span>'


def _class_attribute(line: TransactionLine) -> str:
    names = "no-longer" if line.lost else "open-row" if line.open else ""
    names += " selected" if line.chosen else ""
    return f' class="{names.strip()}"' if names else ""


@register.simple_tag
def transaction_link(line: TransactionLine) -> SafeString:
    """Render the transaction's time as the link to its page."""
    return mark_safe(_time_link(line))


@register.simple_tag
def transaction_actor(line: TransactionLine) -> SafeString:
    """Render who made the transaction, and how well that is known."""
    return mark_safe(_actor_html(line))


def _time_link(line: TransactionLine) -> str:
    current = ' aria-current="true"' if line.chosen else ""
    return (
        f'<a class="plain-link" data-row href="{reverse("transaction", args=[line.row.id])}"'
        f"{current}>{_time_html(line.time)}</a>"
    )


def _time_html(moment: dt.datetime | None) -> str:
    """Render a time without tab stop, unlike other times, since a link surrounds it."""
    if moment is None:
        return '<span class="unknown">unknown</span>'
    shown = f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}"
    return f'<time datetime="{moment.isoformat()}" data-time="clock">{shown}</time>'


def _actor_html(line: TransactionLine) -> str:
    row = line.row
    if row.actor is None:
        return _UNKNOWN
    actor = escape(row.actor)
    grade = chip_html(row.actor_grade, line.grade_kind) if row.actor_grade else ""
    return f'<span class="cut" title="{actor}">{actor}</span>{also(row.others(row.actor))}{grade}'


@register.simple_tag
def also(names: Sequence[str]) -> SafeString:
    """Render the number of further names as ``+2``, with the names as a tooltip."""
    tooltip = escape(", ".join(names))
    more = f'+{len(names)}<span class="visually-hidden"> more: {tooltip}</span>'
    return mark_safe(f'<span class="quiet" data-tip="{tooltip}">{more}</span>' if names else "")


@register.simple_tag
def list_url(filter_: TransactionFilter, **changes: str) -> str:
    """Return the address of the list's newest page with one filter changed."""
    return url_of(filter_, **{name: str(value) for name, value in changes.items()})


@register.simple_tag
def transaction_line(line: TransactionLine, several: bool) -> SafeString:
    """Render a transaction as a row: ``{% transaction_line line page.several %}``."""
    return mark_safe(transaction_line_html(line, several=several))

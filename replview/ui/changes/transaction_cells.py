"""Cells of lists of transactions. ``format_html`` escapes every value and name."""

import datetime as dt
from collections.abc import Sequence

from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from replview.health.open_transactions import Touched
from replview.text.formats import bytes_words, count_words, plural
from replview.ui.changes.transaction_lines import TransactionLine
from replview.ui.component_html import OPERATIONS, chip_html, copy_html, op_html

_UNKNOWN = SafeString('<i class="unknown">unknown</i>')
_UNKNOWN_TIME = SafeString('<span class="unknown">unknown</span>')
_LEFT_OUT = SafeString('<span class="quiet">left out by decision</span>')
_NO_CHANGE = SafeString('<span class="quiet">no published change</span>')
_MESSAGE_ONLY = SafeString('<span class="quiet tail">message only</span>')
_CURRENT = SafeString(' aria-current="true"')
_NOTHING = SafeString("")
#: The words of counted operations; a snapshot counts the rows that it read.
_COUNTED = {**OPERATIONS, "S": "row"}


def empty(line: TransactionLine) -> SafeString:
    """Return the cell that the browser fills."""
    return _NOTHING


def time_link(line: TransactionLine) -> SafeString:
    """Return the transaction's time as the link to its page."""
    return format_html(
        '<a class="plain-link" data-row href="{}"{}>{}</a>',
        reverse("transaction", args=[line.row.id]),
        _CURRENT if line.chosen else _NOTHING,
        _time(line.time),
    )


def _time(moment: dt.datetime | None) -> SafeString:
    """Return a time without tab stop, unlike other times, since a link surrounds it."""
    if moment is None:
        return _UNKNOWN_TIME
    return format_html(
        '<time datetime="{}" data-time="clock">{}</time>',
        moment.isoformat(),
        f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}",
    )


def name_to_copy(line: TransactionLine) -> SafeString:
    """Return the gid or xid with a copy button; empty if the transaction has neither."""
    if not line.name:
        return _NOTHING
    return copy_html(line.name, "xid or gid", plain=True, cut=True)


def name(line: TransactionLine) -> SafeString | str:
    """Return the gid or xid; a long gid loses its beginning, never its end."""
    if line.row.gid:
        return format_html('<span class="gid" data-tip="{0}"><bdi>{0}</bdi></span>', line.row.gid)
    return line.name


def tables_and_rolled_back(line: TransactionLine) -> SafeString:
    """Return the tables, and the number of changes in rolled-back subtransactions."""
    if not line.row.aborted_changes:
        return tables(line)
    return tables(line) + format_html(
        '<span class="quiet"><s>{}</s> rolled back</span>', count_words(line.row.aborted_changes)
    )


def tables(line: TransactionLine) -> SafeString:
    """Return the tables with most changes, the number of other tables, and messages."""
    touched = format_html_join(
        "",
        '<span class="touched"><code class="cut">{}</code>{}</span>',
        ((table.name, _operations(table)) for table in line.tables),
    )
    words = touched + _more_tables(line) + _beside_tables(line)
    return format_html('<span class="touched-tables">{}</span>', words)


def tables_to_fit(line: TransactionLine) -> SafeString:
    """Return the tables for a column of which the browser knows the width.

    ``tables.js`` hides those that do not fit, and shows their number. The origin is among them
    where it has no column.
    """
    touched = format_html_join(
        "",
        '<span class="touched" data-words="{}"><code class="cut">{}</code>{}</span>',
        ((_words(table), table.name, _operations(table)) for table in line.tables),
    )
    chip = _NOTHING
    if line.row.origin:
        chip = format_html('<span class="chip chip-plain from">from {}</span>', line.row.origin)
    more = _NOTHING
    if len(line.tables) > 1:
        more = format_html(
            '<span class="quiet more-tables" data-beyond="{}" hidden></span>', len(line.more_tables)
        )
    return chip + touched + more + _messages_with_size(line)


def _words(table: Touched) -> str:
    """Return a table with its counts: ``orders: 3 inserts, 1 update``."""
    counts = (plural(count, _COUNTED[letter]) for letter, count in table.operations)
    return f"{table.name}: {', '.join(counts)}"


def _messages_with_size(line: TransactionLine) -> SafeString:
    """Return the sign for messages, with number and size where there is no table."""
    messages = line.row.messages
    if line.tables:
        return op_html("M") if messages else _NOTHING
    if not messages:
        return _NO_CHANGE
    return format_html(
        '{}{}<span class="quiet tail">message only, {}</span>',
        op_html("M", messages if messages > 1 else None),
        format_html('<code class="prefix">{}</code>', line.prefix) if line.prefix else _NOTHING,
        size(line),
    )


def _operations(table: Touched) -> SafeString:
    tiles = ((op_html(letter, count),) for letter, count in table.operations)
    return format_html_join("", "{}", tiles)


def _more_tables(line: TransactionLine) -> SafeString:
    if not line.more_tables:
        return _NOTHING
    return format_html(
        '<span class="quiet more-tables" data-tip="{0}">+{1}'
        '<span class="visually-hidden"> more: {0}</span></span>',
        line.more_words,
        len(line.more_tables),
    )


def _beside_tables(line: TransactionLine) -> SafeString:
    """Return the sign for messages, or the words of a transaction without tables."""
    if line.row.messages and line.tables:
        return op_html("M")
    if line.row.messages:
        prefix = _NOTHING
        if line.prefix:
            prefix = format_html('<code class="prefix cut">{}</code>', line.prefix)
        return op_html("M") + prefix + _MESSAGE_ONLY
    if line.tables:
        return _NOTHING
    return _LEFT_OUT if line.row.state == "skipped" else _NO_CHANGE


def actor(line: TransactionLine) -> SafeString:
    """Return who made the transaction, and how well that is known."""
    row = line.row
    if row.actor is None:
        return _UNKNOWN
    name = format_html('<span class="cut" title="{0}">{0}</span>', row.actor)
    grade = chip_html(row.actor_grade, line.grade_kind) if row.actor_grade else _NOTHING
    return name + also(row.others(row.actor)) + grade


def also(names: Sequence[str]) -> SafeString:
    """Return the number of further names as ``+2``, with the names as a tooltip."""
    if not names:
        return _NOTHING
    return format_html(
        '<span class="quiet" data-tip="{0}">+{1}'
        '<span class="visually-hidden"> more: {0}</span></span>',
        ", ".join(names),
        len(names),
    )


def changes(line: TransactionLine) -> SafeString:
    """Return the number of changes, struck out where the transaction was rolled back."""
    return format_html("<s>{}</s>" if line.lost else "{}", count_words(line.row.changes))


def size(line: TransactionLine) -> str:
    """Return the size, unless the account must not see it."""
    size_bytes = line.row.shown_size_bytes
    return "withheld" if size_bytes is None else bytes_words(size_bytes)

"""The columns of the list of found changes. To add a column, add an entry to ``COLUMNS``."""

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from replview.features.find.page import FoundLine
from replview.ui.columns import Column
from replview.ui.component_html import clock_html, op_html


def _table(line: FoundLine) -> SafeString:
    block = line.block
    return format_html(
        '<span title="{}.{}">{}</span>', block.schema, block.table, block.table or block.words
    )


def _actor(line: FoundLine) -> str:
    return SafeString('<i class="unknown">unknown</i>') if line.actor is None else line.actor


def _transaction_link(line: FoundLine) -> SafeString:
    """Return the link to the change in its transaction."""
    return format_html(
        '<a href="{0}?at={1}#change-{2}-{1}" title="Its transaction" '
        'aria-label="Transaction {3}">{3}</a>',
        reverse("transaction", args=[line.row.id]),
        line.change.seq,
        line.row.id,
        line.name or "message",
    )


COLUMNS: tuple[Column[FoundLine], ...] = (
    Column(key="time", title="Time", cell=lambda line: clock_html(line.time), width="time"),
    Column(key="op", title="", cell=lambda line: op_html(line.block.op), width="op"),
    Column(key="table", title="Table", cell=_table, width="name", look="mono cut"),
    Column(key="key", title="Key", cell=lambda line: line.key_words, width="key", look="mono cut"),
    Column(key="moved", title="What changed", template="find/_moved.html", width="rest"),
    Column(
        key="actor", title="Actor", cell=_actor, width="actor", look="cut", least_window_px=1024
    ),
    Column(key="xid", title="xid", cell=_transaction_link, width="xid", look="mono cut"),
)
#: A line opens on a press, and what is pressed holds no link: the transaction stands beside it.
IN_LINE = tuple(column for column in COLUMNS if column.key != "xid")
BESIDE_LINE = tuple(column for column in COLUMNS if column.key == "xid")

"""The columns of a list of transactions. To add a column, add an entry to ``COLUMNS``."""

from replview.text.formats import bytes_words
from replview.ui.changes import transaction_cells as cells
from replview.ui.changes.transaction_lines import TransactionLine
from replview.ui.columns import Column
from replview.ui.component_html import state_html

COLUMNS: tuple[Column[TransactionLine], ...] = (
    Column(
        key="time",
        title="Time",
        cell=cells.time_link,
        width="time",
        phone=True,
        api_field="commit_time",
    ),
    Column(
        key="name",
        title="xid or gid",
        cell=cells.name_to_copy,
        width="name",
        phone=True,
        api_field="xid",
    ),
    Column(
        key="state",
        title="State",
        cell=lambda line: state_html(line.row.state, wordless=line.wordless),
        width="state",
        phone=True,
        api_field="state",
    ),
    Column(
        key="tables",
        title="Tables and operations",
        cell=cells.tables_and_rolled_back,
        width="rest",
        phone=True,
        api_field="tables",
    ),
    Column(
        key="actor",
        title="Actor",
        cell=cells.actor,
        width="actor",
        phone=True,
        api_field="actor",
    ),
    Column(
        key="origin",
        title="Origin",
        cell=lambda line: line.row.origin or "",
        width="origin",
        least_window_px=1280,
        api_field="origin",
    ),
    Column(
        key="slot",
        title="Slot",
        cell=lambda line: line.slot,
        width="slot",
        look="second",
        least_window_px=1024,
        api_field="slot",
    ),
    Column(
        key="changes",
        title="Changes",
        cell=cells.changes,
        width="count",
        number=True,
        phone=True,
        api_field="counts",
    ),
    Column(
        key="size",
        title="Size",
        cell=lambda line: (
            "withheld"
            if line.row.shown_size_bytes is None
            else bytes_words(line.row.shown_size_bytes)
        ),
        width="size",
        number=True,
        least_window_px=1024,
        api_field="size_bytes",
    ),
)
#: The columns of a list of one slot, whose name needs no column.
ONE_SLOT_COLUMNS = tuple(column for column in COLUMNS if column.key != "slot")

"""The columns of the list of transactions and of the live page.

To add a column, add an entry to ``COLUMNS``: it appears in both lists, unless the entry says
otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from replview.ui.changes import transaction_cells as cells
from replview.ui.changes.transaction_lines import TransactionLine
from replview.ui.columns import Column, cells_html
from replview.ui.component_html import state_html


@dataclass(frozen=True, kw_only=True)
class TransactionColumn(Column[TransactionLine]):
    """A column of the list of transactions, of the live page, or of both."""

    in_list: bool = True
    on_live_page: bool = True
    #: The cell on the live page, where it differs.
    live_cell: Callable[[TransactionLine], str] | None = None
    #: The same as ``least_window_px`` for the live page, where it differs.
    live_least_window_px: int | None = None
    #: True when the live page also shows the column beside an open drawer.
    beside_drawer: bool = False

    def for_live_page(self) -> "TransactionColumn":
        """Return the column as the live page shows it."""
        least = self.live_least_window_px
        return replace(
            self,
            cell=self.live_cell or self.cell,
            least_window_px=self.least_window_px if least is None else least,
            mark="beside-drawer" if self.beside_drawer else "",
        )


COLUMNS: tuple[TransactionColumn, ...] = (
    TransactionColumn(
        key="time",
        title="Time",
        cell=cells.time_link,
        # The browser writes it: in its own zone, or how long the transaction has been open.
        live_cell=cells.empty,
        width="time",
        phone=True,
        beside_drawer=True,
    ),
    TransactionColumn(
        key="name",
        title="xid or gid",
        cell=cells.name_to_copy,
        live_cell=cells.name,
        width="name",
        live_least_window_px=1024,
        phone=True,
        beside_drawer=True,
    ),
    TransactionColumn(
        key="state",
        title="State",
        cell=lambda line: state_html(line.row.state, wordless=line.wordless),
        width="state",
        phone=True,
        beside_drawer=True,
    ),
    TransactionColumn(
        key="tables",
        title="Tables and operations",
        cell=cells.tables_and_rolled_back,
        live_cell=cells.tables_to_fit,
        width="rest",
        phone=True,
        beside_drawer=True,
    ),
    TransactionColumn(
        key="actor",
        title="Actor",
        cell=cells.actor,
        width="actor",
        live_least_window_px=1024,
        phone=True,
    ),
    TransactionColumn(
        key="origin",
        title="Origin",
        cell=lambda line: line.row.origin or "",
        width="origin",
        least_window_px=1280,
    ),
    TransactionColumn(
        key="slot",
        title="Slot",
        cell=lambda line: line.slot,
        width="slot",
        look="second",
        least_window_px=1024,
        # It shows one slot.
        on_live_page=False,
    ),
    TransactionColumn(
        key="changes",
        title="Changes",
        cell=cells.changes,
        width="count",
        number=True,
        phone=True,
        on_live_page=False,
    ),
    TransactionColumn(
        key="size",
        title="Size",
        cell=cells.size,
        width="size",
        number=True,
        least_window_px=1024,
    ),
    TransactionColumn(
        key="latency",
        title="Latency",
        # Only the browser knows when it showed the row.
        cell=cells.empty,
        tip="Time from the commit on the source to this page, "
        "without pauses while you point or scroll",
        width="latency",
        number=True,
        phone=True,
        in_list=False,
        beside_drawer=True,
    ),
)
#: The columns of the list of all slots.
LIST_COLUMNS = tuple(column for column in COLUMNS if column.in_list)
#: The columns of the list of one slot, whose name needs no column.
ONE_SLOT_COLUMNS = tuple(column for column in LIST_COLUMNS if column.key != "slot")
LIVE_COLUMNS = tuple(column.for_live_page() for column in COLUMNS if column.on_live_page)


def live_cells(line: TransactionLine) -> str:
    """Return the cells of a row of the live page as HTML."""
    return cells_html(LIVE_COLUMNS, line, "gridcell")

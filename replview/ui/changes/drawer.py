"""A transaction by its number, and its first changes, as the drawers of several pages show them."""

import datetime as dt
from dataclasses import dataclass

from django.http import Http404

from replview.access.visibility import reading_session
from replview.health.fleet import Fleet
from replview.store.models import Slot, SlotEvent, SlotIncarnation, Transaction
from replview.store.models.seen import seen_sources
from replview.store.read import history
from replview.store.read.changes.of_transaction import ChangeFilter, read_changes_page
from replview.store.read.rows import TransactionRow
from replview.ui.changes.cells import Block
from replview.ui.changes.change_blocks import blocks_of
from replview.ui.changes.transaction_text import NOT_UNDONE

#: Times of the stream count from here.
_EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
#: Changes on a page.
PAGE_CHANGES = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawerChanges:
    """Changes of a transaction, as a drawer lists them."""

    row: TransactionRow
    slot: Slot
    blocks: list[Block]
    #: The change behind which the next ones are asked for; None: these are the last.
    more_after: int | None
    page_changes: int = PAGE_CHANGES


def find_transaction(transaction_id: int) -> TransactionRow:
    """By our own number. Raises ``Http404``, also for a baseline that is not complete yet, and for
    one of a source that is not seen here.
    """
    readable = transaction_id < 1 << 63
    row = history.transaction_by_id(reading_session(), transaction_id) if readable else None
    seen = seen_sources() is None or Transaction.objects.filter(pk=transaction_id).exists()
    if row is None or row.state == "copying" or not seen:
        raise Http404("there is no such transaction, or it was received anew")
    return row


def received_anew(transaction_id: int) -> tuple[int | None, dt.datetime | None]:
    """Of a transaction that was half received when its receiver's session ended: the id under which
    it was received again, and when it was discarded; None: it was not, or it is not known.
    """
    noted = {"detail__transactions__has_key": str(transaction_id)}
    event = SlotEvent.objects.filter(kind="discarded", **noted).first()
    row = Transaction.objects.filter(pk=transaction_id, state="discarded").first()
    if event is not None:
        slot_id, (xid, seen_us) = event.slot_id, event.detail["transactions"][str(transaction_id)]
        seen_at = _EPOCH + dt.timedelta(microseconds=seen_us)
    elif row is not None:
        slot_id, xid, seen_at = row.incarnation.slot_id, row.xid, row.received_at
    else:
        return None, None
    # What takes its place keeps the time when it was first seen.
    found = Transaction.objects.filter(
        incarnation__slot_id=slot_id, xid=xid, received_at=seen_at, pk__gt=transaction_id
    ).exclude(state__in=history.HIDDEN_STATES)
    again = found.order_by("pk").values_list("pk", flat=True).last()
    return again, None if event is None else event.at


def read_slot(row: TransactionRow, fleet: Fleet | None = None) -> Slot:
    """The slot of a transaction, with its source; ``fleet`` spares the query where it has it."""
    for view in fleet.slots if fleet is not None else ():
        if view.slot.incarnation_id == row.incarnation_id:
            return view.slot
    incarnation = SlotIncarnation.objects.select_related("slot__source").get(pk=row.incarnation_id)
    return incarnation.slot


def changes_page(row: TransactionRow, slot: Slot, after: int = 0) -> DrawerChanges:
    """Return the changes behind the change ``after``."""
    # Those the slot keeps though they were rolled back are shown, and marked.
    kept = bool(row.aborted_changes) and slot.keep_aborted
    found = read_changes_page(
        reading_session(), row.id, ChangeFilter(with_aborted=kept), after=after, limit=PAGE_CHANGES
    )
    more_after = found.searched_to or (found.rows[-1].seq if found.more else None)
    return DrawerChanges(
        row=row,
        slot=slot,
        blocks=blocks_of(found.rows, not_undone=NOT_UNDONE.get(row.state, "")),
        more_after=more_after,
    )

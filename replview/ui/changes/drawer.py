"""Read a transaction by its id and its first changes, for the drawers of several pages."""

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

#: The epoch of the stream's times.
_EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
#: Most changes on a page.
PAGE_CHANGES = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawerChanges:
    """The changes of a transaction in a drawer."""

    row: TransactionRow
    slot: Slot
    blocks: list[Block]
    #: The ``seq`` after which the next page begins; None on the last page.
    more_after: int | None
    page_changes: int = PAGE_CHANGES


def find_transaction(transaction_id: int) -> TransactionRow:
    """Return the transaction with this id of the store.

    Raises ``Http404`` also for an unfinished baseline, and for a source that is not visible.
    """
    readable = transaction_id < 1 << 63
    row = history.transaction_by_id(reading_session(), transaction_id) if readable else None
    is_seen = seen_sources() is None or Transaction.objects.filter(pk=transaction_id).exists()
    if row is None or row.state == "copying" or not is_seen:
        raise Http404("there is no such transaction, or it was received again")
    return row


def received_anew(transaction_id: int) -> tuple[int | None, dt.datetime | None]:
    """Return the new id of a half-received and discarded transaction, and the time of the discard.

    It has a new id after it was received again. Each is None where there is none or it is unknown.
    """
    condition = {"detail__transactions__has_key": str(transaction_id)}
    event = SlotEvent.objects.filter(kind="discarded", **condition).first()
    row = Transaction.objects.filter(pk=transaction_id, state="discarded").first()
    if event is not None:
        slot_id, (xid, seen_us) = event.slot_id, event.detail["transactions"][str(transaction_id)]
        seen_at = _EPOCH + dt.timedelta(microseconds=seen_us)
    elif row is not None:
        slot_id, xid, seen_at = row.incarnation.slot_id, row.xid, row.received_at
    else:
        return None, None
    # The replacement keeps the time when the transaction was first seen.
    replacements = Transaction.objects.filter(
        incarnation__slot_id=slot_id, xid=xid, received_at=seen_at, pk__gt=transaction_id
    ).exclude(state__in=history.HIDDEN_STATES)
    new_id = replacements.order_by("pk").values_list("pk", flat=True).last()
    return new_id, None if event is None else event.at


def read_slot(row: TransactionRow, fleet: Fleet | None = None) -> Slot:
    """Return the slot of a transaction with its source; a ``fleet`` that has it saves a query."""
    for view in fleet.slots if fleet is not None else ():
        if view.slot.incarnation_id == row.incarnation_id:
            return view.slot
    incarnation = SlotIncarnation.objects.select_related("slot__source").get(pk=row.incarnation_id)
    return incarnation.slot


def changes_page(row: TransactionRow, slot: Slot, after: int = 0) -> DrawerChanges:
    """Return the changes behind the change ``after``."""
    # Rolled-back changes that the slot keeps are shown, and marked.
    with_aborted = bool(row.aborted_changes) and slot.keep_aborted
    page = read_changes_page(
        reading_session(),
        row.id,
        ChangeFilter(with_aborted=with_aborted),
        after=after,
        limit=PAGE_CHANGES,
    )
    more_after = page.searched_to or (page.rows[-1].seq if page.more else None)
    return DrawerChanges(
        row=row,
        slot=slot,
        blocks=blocks_of(page.rows, not_undone=NOT_UNDONE.get(row.state, "")),
        more_after=more_after,
    )

"""How much of its record a declared slot keeps, and what would go at once for it."""

from replview.catalog.state.wal_budget import size_words
from replview.management.fleet.declared import DeclaredSlot
from replview.management.fleet.plans import BY, Item
from replview.store.models import Slot
from replview.store.retention.loss import loss_of
from replview.store.retention.policy import Keeping, change_keeping


def wanted_keeping(slot: Slot, declared: DeclaredSlot) -> Keeping | None:
    """What it is to keep; None: as it does now."""
    wanted = Keeping(
        declared.get("keep_for", slot.keep_for_days),
        declared.get("keep_at_most", slot.keep_at_most_bytes),
    )
    return None if wanted == Keeping.of(slot) else wanted


def compare_keeping(item: Item, slot: Slot, declared: DeclaredSlot) -> None:
    """Note what differs, what would be deleted for it, and how it is changed."""
    wanted = wanted_keeping(slot, declared)
    if wanted is None:
        return
    if wanted.for_days != slot.keep_for_days:
        item.change("keep for", _days(slot.keep_for_days), _days(wanted.for_days))
    if wanted.at_most_bytes != slot.keep_at_most_bytes:
        item.change("keep at most", _size(slot.keep_at_most_bytes), _size(wanted.at_most_bytes))
    loss = loss_of(slot, wanted)
    if not loss.nothing:
        item.notes.append(
            f"This deletes what is recorded from {loss.first} to {loss.last}: "
            f"{loss.transactions:,} transactions with {loss.changes:,} changes, "
            f"{size_words(loss.store_bytes)}."
        )
    if item.trouble is None:
        item.acts.append(lambda say: change_keeping(slot, wanted, by=BY))


def _days(days: int | None) -> str | None:
    return None if days is None else f"{days} days"


def _size(size: int | None) -> str | None:
    return None if size is None else size_words(size)

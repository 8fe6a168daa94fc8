"""What an export is narrowed to: by the filter of a page, by rights on tables, and by masks."""

from collections.abc import Sequence

from replview.access.visibility import current_visibility
from replview.parquet.slices import STATES, Narrowing, Slice
from replview.store.models import Export, Relation, Slot
from replview.store.read.transactions.transaction_filter import UNKNOWN_ACTOR, TransactionFilter
from replview.store.read.visibility import NO_RIGHT, Visibility
from replview.targets.policy import Refused

_NEW_NAME = "Export into another folder under another name, or without since-last"


def narrowing_of(slot: Slot, asked: TransactionFilter) -> Narrowing:
    """All but tables, operations, actors, times and LSNs, which a slice has itself.

    Raises ``Refused`` for states that no exported transaction can be in.
    """
    searched, in_messages = searchable(slot)
    return Narrowing(
        states=_states(asked),
        no_actor=asked.actor == UNKNOWN_ACTOR,
        origin=asked.origin,
        id=asked.id,
        min_changes=asked.min_changes,
        min_bytes=asked.min_bytes,
        prepared_min=asked.prepared_min,
        text=asked.text,
        searched=searched if asked.text else None,
        in_messages=in_messages,
    )


def _states(asked: TransactionFilter) -> tuple[str, ...]:
    if not asked.states:
        return ()
    others = sorted(asked.wanted_states - {*STATES})
    if others:
        raise Refused(
            f"no export is of transactions in the state {' or '.join(others)}: it holds what has "
            "a place in history, and rows",
            f"Choose among the states {', '.join(STATES)}",
        )
    return tuple(state for state in STATES if state in asked.states)


def permitted(slot: Slot, asked: Sequence[str]) -> tuple[list[str], bool]:
    """The tables that are taken out, none for all; and whether some are left out for want of a
    right. Raises ``Refused`` where one that is asked for, or every one, is.
    """
    visibility = current_visibility()
    if not visibility.restricted:
        return list(asked), False
    seen, hidden = _seen_and_hidden(slot, visibility)
    for name in asked:
        if name in hidden:
            raise Refused(
                f"you have {NO_RIGHT} of {name}", "Ask an admin for the right, or leave it out"
            )
    # Messages go along with all tables, and with no tables that are named.
    if asked or not (hidden or visibility.hides_messages(slot.source_id)):
        return list(asked), False
    if not seen:
        raise Refused(f"you have {NO_RIGHT} of any table of {slot}", "Ask an admin for the right")
    return seen, True


def searchable(slot: Slot) -> tuple[tuple[str, ...] | None, bool]:
    """The tables in whose values a text may be looked for, None for all; and whether it may be in
    messages.
    """
    visibility = current_visibility()
    if not visibility.restricted:
        return None, True
    seen, hidden = _seen_and_hidden(slot, visibility)
    return tuple(seen) if hidden else None, not visibility.hides_messages(slot.source_id)


def _seen_and_hidden(slot: Slot, visibility: Visibility) -> tuple[list[str], set[str]]:
    """The names of a slot's tables; one that some hidden table has is hidden."""
    relations = list(Relation.objects.filter(slot=slot).order_by("pk"))
    visibility.learn([relation.pk for relation in relations])
    hidden = {str(relation) for relation in relations if visibility.hides(relation.pk)}
    return list(dict.fromkeys(str(r) for r in relations if str(r) not in hidden)), hidden


def same_masks(last: Export, part: Slice) -> None:
    """Refuse to go on where other columns are masked than before: files of one dataset would
    differ. Raises ``Refused``.
    """
    masked = last.slice.get("masked") or {}
    before, now = {name: tuple(masked[name]) for name in masked}, dict(part.masked)
    tables = (last.result or {}).get("tables") or []
    for name in [f"{one['schema']}.{one['table']}" for one in tables]:
        if before.get(name, ()) == now.get(name, ()):
            continue
        more = sorted({*now.get(name, ())} - {*before.get(name, ())})
        less = sorted({*before.get(name, ())} - {*now.get(name, ())})
        words = f"{', '.join(more)} is masked now" if more else f"{', '.join(less)} is not any more"
        raise Refused(f"the masks of {name} are others than in export {last.pk}: {words}",
                      _NEW_NAME)  # fmt: skip

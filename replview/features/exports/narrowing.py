"""A page's filter as a slice's narrowing: what it asks of whole transactions."""

from replview.access.withheld import searchable
from replview.parquet.narrowing import STATES, Narrowing
from replview.store.models import Slot
from replview.store.read.transactions.transaction_filter import UNKNOWN_ACTOR, TransactionFilter
from replview.targets.policy import Refused


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

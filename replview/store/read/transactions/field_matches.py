"""The predicate of each field that the live page offers, equal to the field's SQL."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from replview.store.read.history import OPEN_STATES
from replview.store.read.rows import TransactionRow
from replview.store.read.transactions.filter_values import (
    NO_ORIGIN,
    OPEN,
    OPERATIONS,
    UNKNOWN_ACTOR,
    Touched,
)
from replview.text.parsing import is_chosen

#: ``{relation id: [(schema, table)]}``: every name that a table has had, the present one first.
NamesOfTables = Mapping[int, Sequence[tuple[str, str]]]


class Candidate(NamedTuple):
    """A transaction that a filter may match."""

    row: TransactionRow
    names: NamesOfTables
    #: True if the filter's text is in a value of its first changes.
    has_text: bool = False


def touches_tables(candidate: Candidate, tables: tuple[str, ...], filter_: Touched) -> bool:
    """Return whether one of the wanted operations was done to one of the tables."""
    row = candidate.row
    counts = [
        counts
        for key, counts in row.relations.items()
        if any(is_chosen(tables, *name) for name in candidate.names.get(int(key), ()))
    ]
    if not counts or filter_.ops == OPERATIONS:
        return bool(counts)
    sums = map(sum, zip(*counts, strict=True))
    return _has_done(filter_.ops, row.state, zip(OPERATIONS, sums, strict=False))


def has_operations(candidate: Candidate, ops: str, filter_: Touched) -> bool:
    """Return whether one of the operations was done, unless the tables' predicate says so."""
    row = candidate.row
    sums = (row.inserts, row.updates, row.deletes, row.truncates, row.messages)
    return bool(filter_.tables) or _has_done(ops, row.state, zip(OPERATIONS, sums, strict=False))


def _has_done(ops: Collection[str], state: str, sums: Iterable[tuple[str, int]]) -> bool:
    # The counts of a snapshot are those of the rows that it read.
    if state == "snapshot":
        return "S" in ops
    return any(count > 0 and op in ops for op, count in sums)


def is_in_states(candidate: Candidate, states: tuple[str, ...], _: Touched) -> bool:
    """Return whether the transaction is in one of the states."""
    state = candidate.row.state
    return state in states or (OPEN in states and state in OPEN_STATES)


def has_actor(candidate: Candidate, actor: str, _: Touched) -> bool:
    """Return whether all changes, or some, are of the actor."""
    return (None if actor == UNKNOWN_ACTOR else actor) in candidate.row.names


def has_origin(candidate: Candidate, origin: str, _: Touched) -> bool:
    """Return whether the transaction has the origin."""
    return candidate.row.origin == (None if origin == NO_ORIGIN else origin)


def has_text(candidate: Candidate, text: str, _: Touched) -> bool:
    """Return whether the text is in a name, in any case, or in a value."""
    if candidate.has_text:
        return True
    row = candidate.row
    names = [row.gid, row.origin, row.commit_lsn, *row.names]
    if row.xid is not None:
        names.append(str(row.xid))
    for key in row.relations:
        names += [".".join(name) for name in candidate.names.get(int(key), ())[:1]]
    folded = text.casefold()
    return any(folded in name.casefold() for name in names if name)

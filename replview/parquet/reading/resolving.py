"""Resolve a request to a slice with fixed ends."""

from dataclasses import dataclass, field, replace
from functools import partial

from psycopg import sql

from decoder.scalars import lsn_text
from replview.parquet.reading.connecting import StoreConnection, StoreProblem, did_you_mean
from replview.parquet.reading.places import (
    PLACED_LSN,
    PLACED_TIME,
)
from replview.parquet.slice_schemas import MOST_DIGITS
from replview.parquet.slices import (
    BeforeOrigin,
    Narrowing,
    Slice,
)
from replview.store.read.changes import records
from replview.store.read.transactions.filter_values import OPERATIONS, UNKNOWN_ACTOR
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.text.formats import some_of

_SHOWN = 20
_INCARNATIONS = """
    SELECT o.name, s.name, i.id, i.number, i.id = s.incarnation_id
    FROM slot s JOIN source o ON o.id = s.source_id
    LEFT JOIN slot_incarnation i ON i.slot_id = s.id
    WHERE (%(source)s::text IS NULL OR o.name = %(source)s)
      AND (%(slot)s::text IS NULL OR s.name = %(slot)s)
    ORDER BY o.name, s.name, i.number
"""
_LAST = "SELECT coalesce(max(commit_seq), 0) FROM transaction WHERE incarnation_id = %s"
# Baselines are left out: their commit_seq does not grow with their LSN.
_NEXT = """
    SELECT t.commit_seq, {lsn} < {wanted}::pg_lsn FROM transaction t
    WHERE t.incarnation_id = {incarnation_id} AND t.commit_seq > {after} AND t.state <> 'snapshot'
    ORDER BY t.commit_seq LIMIT 1
"""
_LATER = """
    SELECT t.commit_seq FROM transaction t
    WHERE t.incarnation_id = {incarnation_id}
      AND t.commit_seq > {after} AND t.commit_seq <= {through}
      AND ({time} >= {until}::timestamptz OR {lsn} > {to_lsn}::pg_lsn)
    ORDER BY t.commit_seq LIMIT 1
"""
_BASELINES = """
    SELECT min(t.commit_seq), max(t.commit_seq)
    FROM baseline b JOIN transaction t ON t.id = b.transaction_id
    WHERE t.incarnation_id = %s AND t.state = 'snapshot'
      AND t.commit_lsn BETWEEN coalesce(%s::pg_lsn, '0/0') AND coalesce(%s::pg_lsn, t.commit_lsn)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRequest:
    """A choice of transactions, and the form of their rows, from which a slice is resolved."""

    #: May be None where the store has but one source or slot; ``slot`` may be ``source/name``.
    source: str | None = None
    slot: str | None = None
    #: The incarnation's number; None: the current one.
    incarnation: int | None = None
    #: Transactions with ``after_seq < commit_seq <= through_seq``; None: the last that is stored.
    after_seq: int = 0
    through_seq: int | None = None
    #: Conditions on the transactions, with tables as last seen. Its slot is not read.
    filter: TransactionFilter = field(default_factory=TransactionFilter)
    #: Several known actors, in place of the filter's one.
    actors: tuple[str, ...] = ()
    #: ``Slice.before`` and ``Slice.numeric_scale``.
    before: BeforeOrigin = "sent"
    numeric_scale: int | None = None

    @property
    def known_actors(self) -> tuple[str, ...]:
        """Return the actors to choose, without the one that stands for an unknown actor."""
        named = (self.filter.actor,) if self.filter.actor not in ("", UNKNOWN_ACTOR) else ()
        return self.actors or named

    @property
    def operations(self) -> tuple[str, ...]:
        """Return the operations of the filter as those of a slice; empty: all."""
        letters = "" if self.filter.ops == OPERATIONS else self.filter.ops
        return tuple(records.OPERATIONS[letter] for letter in letters)


def resolve(connection: StoreConnection, request: SliceRequest) -> Slice:
    """Return the slice of a request: open ends become what is stored at this moment.

    Raises ``StoreProblem``.
    """
    filter_ = request.filter
    source, slot, incarnation_id, number = _incarnation(connection, request)
    row = connection.execute(_LAST, [incarnation_id]).fetchone()
    first, last = max(request.after_seq, 0), int(row[0]) if row else 0
    if request.through_seq is not None:
        last = min(last, request.through_seq)
    from_lsn, to_lsn = (
        None if lsn is None else int(lsn) for lsn in (filter_.from_lsn, filter_.to_lsn)
    )
    if from_lsn is not None or to_lsn is not None:
        first, last = _narrowed(connection, incarnation_id, first, last, from_lsn, to_lsn)
    return Slice(
        source=source, slot=slot, incarnation_id=incarnation_id, incarnation=number,
        after_seq=first, through_seq=max(first, last), since=filter_.since_at,
        until=filter_.until_at, from_lsn=from_lsn, to_lsn=to_lsn, tables=filter_.tables,
        operations=request.operations, actors=request.known_actors, before=request.before,
        narrowed=Narrowing.of(filter_), numeric_scale=_checked_scale(request.numeric_scale),
    )  # fmt: skip


def ended_at_a_place(connection: StoreConnection, part: Slice) -> Slice:
    """End the slice before its first transaction that is later than ``until`` or ``to_lsn``.

    A slice that continues there misses no transaction. Commit times mostly grow with commit_seq,
    but may step back.
    """
    if part.until is None and part.to_lsn is None:
        return part
    within = replace(part, until=None, to_lsn=None)
    query = sql.SQL(_LATER).format(
        incarnation_id=part.incarnation_id, after=part.after_seq, through=part.through_seq,
        time=PLACED_TIME, until=part.until, lsn=PLACED_LSN,
        to_lsn=lsn_text(part.to_lsn),
    )  # fmt: skip
    row = connection.execute(query).fetchone()
    return within if row is None else replace(within, through_seq=int(row[0]) - 1)


def _checked_scale(digits: int | None) -> int | None:
    if digits is not None and not 0 <= digits <= MOST_DIGITS:
        raise StoreProblem(f"no decimal has {digits} digits behind the point",
                           f"choose from 0 to {MOST_DIGITS}")  # fmt: skip
    return digits


def _incarnation(connection: StoreConnection, request: SliceRequest) -> tuple[str, str, int, int]:
    """Return the source, the slot, and the incarnation's identifier and number."""
    source, slot, incarnation = request.source, request.slot, request.incarnation
    if slot and not source and "/" in slot:
        source, slot = slot.split("/", 1)
    found = connection.execute(_INCARNATIONS, {"source": source, "slot": slot}).fetchall()
    slots = list(dict.fromkeys((row[0], row[1]) for row in found))
    if not slots:
        everything = connection.execute(_INCARNATIONS, {"source": None, "slot": None}).fetchall()
        raise _no_slot(source, slot, [f"{row[0]}/{row[1]}" for row in everything])
    if len(slots) > 1:
        names = some_of([f"{each[0]}/{each[1]}" for each in slots], _SHOWN)
        raise StoreProblem(
            "the store has several slots", f"name one with source and slot; there are {names}"
        )
    incarnations = [row for row in found if row[2] is not None]
    if incarnation is None:
        chosen = [row for row in incarnations if row[4]] or incarnations[-1:]
    else:
        chosen = [row for row in incarnations if row[3] == incarnation]
    if not chosen:
        name = f"{slots[0][0]}/{slots[0][1]}"
        if incarnation is None:
            raise StoreProblem(f"nothing was received of {name} yet", "start its receiver")
        numbers = ", ".join(str(row[3]) for row in incarnations) or "none"
        raise StoreProblem(
            f"{name} has no incarnation {incarnation}", f"name another; there are {numbers}"
        )
    return chosen[0][0], chosen[0][1], int(chosen[0][2]), int(chosen[0][3])


def _no_slot(source: str | None, slot: str | None, names: list[str]) -> StoreProblem:
    names = list(dict.fromkeys(names))
    wanted = "/".join(filter(None, (source, slot)))
    if not names:
        return StoreProblem("the store has no slots", "add a source and a slot in replview first")
    known = some_of(names, _SHOWN)
    hint = f"{did_you_mean(wanted, names)}name one with source and slot; there are {known}"
    return StoreProblem(f"the store has no slot {wanted!r}", hint)


def _narrowed(
    connection: StoreConnection, incarnation_id: int, first: int, last: int,
    from_lsn: int | None, to_lsn: int | None,
) -> tuple[int, int]:  # fmt: skip
    """Return the commit_seqs between which every transaction of these LSNs is."""
    before = partial(_before, connection, incarnation_id, first, last)
    narrow_first = first if from_lsn is None else before(from_lsn)
    narrow_last = last if to_lsn is None else before(to_lsn + 1)
    params = [incarnation_id, lsn_text(from_lsn), lsn_text(to_lsn)]
    row = connection.execute(_BASELINES, params).fetchone()
    if row and row[0] is not None:
        narrow_first = max(first, min(narrow_first, row[0] - 1))
        narrow_last = min(last, max(narrow_last, row[1]))
    return narrow_first, narrow_last


def _before(
    connection: StoreConnection, incarnation_id: int, first: int, last: int, lsn: int
) -> int:
    """Return the last commit_seq before an LSN: within an incarnation both grow together."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        query = sql.SQL(_NEXT).format(
            lsn=PLACED_LSN, wanted=lsn_text(lsn), incarnation_id=incarnation_id, after=middle
        )
        row = connection.execute(query).fetchone()
        if row is None or row[0] > high:
            # Only baselines are left up to ``high``.
            high = middle
        elif row[1]:
            low = row[0]
        else:
            high = middle
    return low

"""Follow rows back from a change, as far as their earlier changes tell the row before it.

The row itself comes from a replay of these changes.

A lookup of one row searches every partition. For many rows together, the index of each partition is
scanned once, for all keys in order.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from decoder.scalars import LSN
from replview.store.read.row_history.replay import (
    BeforeImage,
    KnownRow,
    Replay,
    ValueOrigin,
)
from replview.store.read.row_history.shapes import Shapes, key_values
from replview.store.read.rows import QUICKLY_NOT_ABORTED, ChangeRow, RowPosition, RowStep
from replview.store.read.seen import STEP_COLUMNS, step_of
from replview.store.read.session import ReadSession, array_text

#: From this many rows on, the common scan is faster.
MANY = 100
#: The most places read per row, on average: where rows have more (changed thousands of times), a
#: lookup of each row's newest changes is faster.
PLACES_A_ROW = 20
PLACES_MORE = 1000

_PLACES = """
    SELECT c.relation_id, c.key_hash, (c.lsn - '0/0')::bigint, c.seq, c.transaction_id
    FROM change c
    WHERE c.relation_id = ANY(%s::bigint[]) AND c.key_hash = ANY(%s::bigint[])
      AND c.lsn <= %s::pg_lsn
    LIMIT %s::bigint
"""
_STEPS = f"""
    SELECT w.number, {STEP_COLUMNS}
    FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::bigint[], %s::int[])
         AS w (number, mine, incarnation, transaction_id, seq)
    JOIN change c ON c.transaction_id = w.transaction_id AND c.seq = w.seq
    JOIN transaction t ON t.id = w.transaction_id
    WHERE t.incarnation_id = w.incarnation
      AND (t.state IN ('committed', 'snapshot') OR t.id = w.mine)
      AND {QUICKLY_NOT_ABORTED}
"""  # noqa: S608 (nothing but the store's own columns)

#: A row in the index: the table and the key's hash.
IndexedRow = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A request for a row's changes before an LSN and seq, as a transaction sees them."""

    row: IndexedRow
    until: tuple[int, int]
    transaction_id: int
    incarnation: int


@dataclass(slots=True)
class EarlierPlaces:
    """The places of some rows' changes."""

    _session: ReadSession
    #: Row → ``(LSN, seq, transaction)`` of its changes, the oldest first.
    _known: dict[IndexedRow, list[tuple[int, int, int]]] = field(default_factory=dict)

    def steps(
        self, lookups: Sequence[Lookup], limit: int
    ) -> list[tuple[list[RowStep], tuple[int, int]]] | None:
        """Return each row's newest changes that count, and the place down to which was searched.

        These are at least ``limit`` changes, or all there are. None where the rows have too many.
        """
        if not self._learn(lookups):
            return None
        found: list[list[RowStep]] = [[] for _ in lookups]
        ends = [bisect_left(self._known[lookup.row], lookup.until) for lookup in lookups]
        untils = [lookup.until for lookup in lookups]
        open_ = list(range(len(lookups)))
        while open_:
            picked: list[tuple[int, int, int]] = []
            for number in open_:
                places, end = self._known[lookups[number].row], ends[number]
                first = _first(places, end, limit - len(found[number]))
                picked += ((number, at[2], at[1]) for at in places[first:end])
                ends[number] = first
                if first < end:
                    untils[number] = places[first][:2]
            for number, step in _read_steps(self._session, lookups, picked):
                found[number].append(step)
            open_ = [n for n in open_ if ends[n] and len(found[n]) < limit]
        return list(zip(found, untils, strict=True))

    def _learn(self, lookups: Iterable[Lookup]) -> bool:
        """Read all places of these rows; return False where there are too many."""
        missing = {lookup.row for lookup in lookups} - self._known.keys()
        if not missing:
            return True
        most = PLACES_A_ROW * len(missing) + PLACES_MORE
        relation_ids, hashes = ({row[part] for row in missing} for part in (0, 1))
        last = str(LSN(max(lookup.until[0] for lookup in lookups)))
        read = self._session.prepared_rows(
            _PLACES, [array_text(sorted(relation_ids)), array_text(sorted(hashes)), last, most]
        )
        if len(read) >= most:
            return False
        self._known |= {row: [] for row in missing}
        for relation_id, key_hash, *place in read:
            if (relation_id, key_hash) in missing:
                self._known[relation_id, key_hash].append(tuple(place))
        for row in missing:
            self._known[row].sort()
        return True


def _first(places: Sequence[tuple[int, int, int]], end: int, number: int) -> int:
    """Return where the last ``number`` before ``end`` begin; equal places stay together."""
    first = max(end - number, 0)
    while first > 0 and places[first - 1][:2] == places[first][:2]:
        first -= 1
    return first


def _read_steps(
    session: ReadSession, lookups: Sequence[Lookup], picked: Sequence[tuple[int, int, int]]
) -> Iterable[tuple[int, RowStep]]:
    """Yield the picked ``(number of the lookup, transaction, seq)`` that count."""
    if not picked:
        return
    found = session.prepared_rows(
        _STEPS,
        [
            array_text(number for number, _, _ in picked),
            array_text(lookups[number].transaction_id for number, _, _ in picked),
            array_text(lookups[number].incarnation for number, _, _ in picked),
            array_text(transaction_id for _, transaction_id, _ in picked),
            array_text(seq for _, _, seq in picked),
        ],
    )
    for row in found:
        yield row[0], step_of(row[1:], session.visibility)


#: The most changes used per row, so that results do not depend on how changes were read.
_MOST_STEPS = 20


@dataclass(slots=True)
class RowPast:
    """One change, and the earlier changes of its row, as far as they were read."""

    change: RowStep
    #: The row's key at this point, and its hash.
    key: tuple[Any, ...]
    key_hash: int
    #: The LSN and seq before which changes are read next.
    until: tuple[int, int]
    #: The place of the next later change of the row.
    upper: RowPosition
    #: The columns whose value before the change no later change tells.
    missing: set[str]
    #: The columns that need be known; None: all.
    wanted: frozenset[str] | None = None
    #: Changes that were read and are not known to be of the row.
    steps: list[RowStep] = field(default_factory=list)
    #: The row's changes, the newest first.
    chain: list[RowStep] = field(default_factory=list)
    #: Hours to search back; raised where that is not enough.
    hours: int = 24
    looked_at: int = 0
    ended: bool = False
    #: True when it ended because enough is known, though more could have been derived.
    partial: bool = False
    #: The row before the change; None: no earlier change is known.
    before: BeforeImage | None = None

    def end_if_enough(self) -> bool:
        """End when all wanted columns, or all columns, are known; return whether it has ended."""
        enough = self.wanted is not None and not self.missing & self.wanted
        self.partial = enough and bool(self.missing)
        self.ended = self.ended or enough or not self.missing
        return self.ended


def past_of(change: ChangeRow, mine: dict[int, Any], shapes: Shapes) -> RowPast | None:
    """Return the start of a search; None where the change does not have its row's key."""
    transaction = mine.get(change.transaction_id)
    version = shapes.numbered(change.relation_id, change.version)
    if transaction is None or version is None:
        return None
    assert change.relation_id is not None
    step = RowStep(
        change.transaction_id, change.seq, int(LSN.parse(change.lsn)), change.subxid, change.op,
        change.old_kind, change.old, change.new, change.relation_id, version.id, change.key_hash,
        change.old_key_hash, transaction[0], None, None, None, "", transaction[1], None, None, None,
    )  # fmt: skip
    return past_of_step(step, change.key_columns, change.columns)


def past_of_step(
    step: RowStep, key_columns: Collection[str], columns: Iterable[Mapping[str, Any]]
) -> RowPast | None:
    """Return the start of a search; None where the step does not have its row's key."""
    key = key_values(key_columns, step.old, step.new)
    key_hash = step.key_hash if step.old_key_hash is None else step.old_key_hash
    if key is None or key_hash is None:
        return None
    # The server would have sent the old key if it had changed.
    missing = {str(column["name"]) for column in columns} - {*key_columns, *(step.old or {})}
    return RowPast(step, key, key_hash, (step.lsn, step.seq), step.place, missing)


def follow(past: RowPast, replay: Replay, *, is_all: bool) -> None:
    """Take the row's changes from the steps read so far, until they tell the row before.

    Afterwards the search has ended, with ``past.before`` set, or more must be read. ``is_all``:
    whether no earlier changes are left to read.
    """
    steps = sorted(
        {(s.transaction_id, s.seq): s for s in past.steps}.values(), key=lambda s: s.place
    )
    past.steps = []
    while steps and not past.ended:
        step = steps.pop()
        if step.op == "S" and not is_all and all(other.op == "S" for other in steps):
            # A change written before the snapshot and committed after it may be among the next.
            past.steps = [*steps, step]
            return
        past.looked_at += 1
        shapes = replay.shapes
        # Another key can have the same hash, and other columns the same values.
        if shapes.key_after(step) == past.key and shapes.have_one_key(step, past.change):
            past.ended = _take(past, step, replay)
            if not past.ended and step.old_key_hash is not None:
                _move(past, step, shapes)
                past.ended = past.ended or past.looked_at >= _MOST_STEPS
                break
        past.ended = past.ended or past.looked_at >= _MOST_STEPS
    else:
        past.ended = past.ended or is_all
    if past.ended:
        past.before = _replayed(past, replay)


def _take(past: RowPast, step: RowStep, replay: Replay) -> bool:
    """Add an earlier change to the row's; return whether no more are needed."""
    was_there = KnownRow(step.op != "D", last=step)
    if not (was_there.exists and replay.until(was_there, step.incarnation_id, past.upper).exists):
        return True
    past.chain.append(step)
    past.upper = step.place
    altered = replay.shapes.altered(step, past.change)
    past.missing -= past.missing if altered is None else step.after.keys() | altered
    # Changes before this one add nothing to the row that it left.
    if step.op in ("I", "S") or step.old_kind == "O":
        return True
    return past.end_if_enough()


def _move(past: RowPast, step: RowStep, shapes: Shapes) -> None:
    """Continue with the key that the row had before this step."""
    key = shapes.key_before(step)
    if key is None or step.old_key_hash is None:
        past.ended = True
        return
    past.key, past.key_hash = key, step.old_key_hash
    past.until = (step.lsn, step.seq)


def _replayed(past: RowPast, replay: Replay) -> BeforeImage | None:
    """Return the row before the change, by a replay of its earlier changes."""
    if not past.chain:
        return None
    for step in reversed(past.chain):
        replay.advance(step)
    _, row = replay.before(past.change)
    assert row.last is not None
    origins: dict[str, ValueOrigin] = {}
    for step in past.chain:
        for name in step.after.keys() & row.values.keys() - origins.keys():
            origins[name] = (step.transaction_id, step.seq, step.side(name))
    return BeforeImage.of(row.values, row.last, row.altered, origins)

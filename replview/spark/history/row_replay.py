"""Replay the changes of many rows, given as Arrow columns: a pure function for either engine.

``key_periods`` decides which row a change is of, and ``Replay`` what is known of the row after it.
Values are not copied: the replay carries the number of the input row that holds a value, and
digests tell whether two values differ.

Most keys need no replay: one row at a time had the key, did not move, and its table was not
altered, so that each change follows the one before it. They are computed a column at a time.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replview.parquet.slice_schemas import TIMESTAMPTZ
from replview.parquet.slices import TableVersion
from replview.spark.history.key_chains import chains_of
from replview.spark.history.replayed_change import TABLE, ReplayedChange
from replview.store.read.row_history.breaks import Breaks, Lapse
from replview.store.read.row_history.key_periods import KeyPeriod, period_of_old_row, periods_of
from replview.store.read.row_history.replay import KnownRow, Replay
from replview.store.read.row_history.shapes import Shapes, Version
from replview.store.read.rows import OPEN_END

#: Columns of the order of history. A baseline's rows come before the commit at its position, and
#: the row before a change comes before the row after it.
PLACE = ("_commit_version", "stream", "_seq", "rank")
#: A truncation: its place and the time of its commit.
TRUNCATIONS = pa.schema(
    [("_commit_version", pa.int64()), ("_seq", pa.int32()), ("_commit_timestamp", TIMESTAMPTZ)]
)
#: Operation of an update whose row was not seen before.
BEFORE_UNKNOWN = "update, before unknown"
#: Columns that the replay adds.
ADDED = pa.schema([
    # Null: the change was counted before, or is a row of a baseline.
    ("operation", pa.string()), ("changed", pa.list_(pa.string())),
    # True if the row after the change is a state of its own.
    ("is_state", pa.bool_()), ("unknown", pa.list_(pa.string())),
    # What ended the state, and the commit that did; null: it lasts.
    ("ended_by", pa.string()), ("to_version", pa.int64()), ("to_time", TIMESTAMPTZ),
])  # fmt: skip

_KINDS = pa.array(["insert", "update_postimage", "delete", "update_preimage"])
_INSERT, _UPDATE, _DELETE, _BEFORE = range(4)
_OPERATIONS = pa.array(["insert", "update", "delete", BEFORE_UNKNOWN])
_UNKNOWN_BEFORE = 3
_ENDS = pa.array(["update", "delete", "key change", "truncate", "lost"])
_BY_UPDATE, _BY_DELETE, _BY_MOVE, _BY_TRUNCATION, _BY_LOSS = range(5)
_NONE = -1

_Numbers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_Period = KeyPeriod[ReplayedChange]


@dataclass(frozen=True)
class RowReplay:
    """The facts of a table that a replay needs beside its changes."""

    versions: Sequence[TableVersion]
    #: The columns of all versions, as named on the source.
    columns: Sequence[str]
    #: ``TRUNCATIONS`` in order.
    truncations: pa.Table
    lapses: Sequence[Lapse] = ()

    def __call__(self, changes: pa.Table) -> pa.Table:
        """Return the changes with ``ADDED`` and known values, without rows before updates.

        Input columns: ``PLACE``, ``_change_type``, ``_commit_timestamp``, ``_relation_version``,
        ``_not_sent``; ``key``, a hash of the row's key, and ``row``, the identity that it stands
        for; ``is_carried`` for a state of earlier changes, which were counted; ``nameless`` for a
        change that does not say which row it is of; ``digest<n>`` for each column, and for some
        ``value<n>``, then with ``_pg_raw``. All changes of the keys between which rows moved must
        be there.
        """
        order = [(name, "ascending") for name in PLACE]
        piece = _Piece(self, changes.take(pc.sort_indices(changes, sort_keys=order)))
        _SimpleReplay(piece).run()
        for rows in piece.chains():
            _ChainReplay(piece, rows).run()
        return piece.result()

    @cached_property
    def shapes(self) -> Shapes:
        """Return the versions in the replay's form."""
        return Shapes({
            each.number: Version(
                id=each.number, relation_id=TABLE, oid=0, schema="", table="", number=each.number,
                replica_identity=each.replica_identity,
                columns=[dict(column) for column in each.columns],
                key_columns=list(each.key_columns), since=(None,), made={}, first_lsn=None,
                first_seen_at=None,
            )
            for each in self.versions
        })  # fmt: skip

    @cached_property
    def breaks(self) -> Breaks:
        """Return the times in which changes of the table may be missing."""
        return Breaks(lapses=list(self.lapses))


class _Piece:
    """The changes of a piece by column, in the order of history, and what is found of each."""

    def __init__(self, facts: RowReplay, changes: pa.Table) -> None:
        self.facts, self.changes = facts, changes
        self.kind = _numbers(pc.index_in(changes["_change_type"], _KINDS))
        self.lsn, self.stream, self.seq = (_numbers(changes[name]) for name in PLACE[:3])
        self.version = _numbers(changes["_relation_version"])
        self.is_carried = changes["is_carried"].to_numpy()
        rows, columns = changes.num_rows, len(facts.columns)
        self.digests = np.empty((rows, columns), np.int64)
        for n in range(columns):
            self.digests[:, n] = _numbers(changes[f"digest{n}"])
        self.epoch = self._epochs()
        self._whole_key = _codes(_numbers(changes["key"]))
        #: The number of the key, within the time between two truncations.
        self.key = _codes(self._whole_key, self.epoch)
        #: The input row that holds each value after the change; -1: unknown.
        self.refs = np.repeat(np.arange(rows)[:, None], columns, axis=1)
        self.in_version = np.ones((rows, columns), np.bool_)
        for number in np.unique(self.version):
            names = facts.shapes.column_names(int(number))
            has = np.array([name in names for name in facts.columns], np.bool_)
            self.in_version[self.version == number] = has
        self.refs[~self.in_version] = _NONE
        #: Whether each value was sent.
        self.sent = self.in_version.copy()
        unsent = changes["_not_sent"].combine_chunks()
        columns_ = pc.index_in(pc.list_flatten(unsent), pa.array(facts.columns, pa.string()))
        self.sent[_numbers(pc.list_parent_indices(unsent)), _numbers(columns_)] = False
        self.operation = np.full(rows, _NONE)
        self.changed = np.zeros((rows, columns), np.bool_)
        self.is_state = np.zeros(rows, np.bool_)
        #: What ended the state, and the input row (of a truncation: -1) that did.
        self.end, self.end_row = np.full(rows, _NONE), np.full(rows, _NONE)
        self.is_simple = np.zeros(rows, np.bool_)

    def _epochs(self) -> _Numbers:
        """Return how many truncations precede each row."""
        cuts, seqs = (
            _numbers(self.facts.truncations[name]) for name in ("_commit_version", "_seq")
        )
        first, last = (np.searchsorted(cuts, self.lsn, side) for side in ("left", "right"))
        for row in np.flatnonzero(first < last):
            # A baseline's rows precede the commit at its position.
            seq = self.seq[row] if self.stream[row] else _NONE
            first[row] += np.searchsorted(seqs[first[row] : last[row]], seq)
        return first

    @cached_property
    def is_pair(self) -> _Mask:
        """Return whether a row is the one before an update, and the next row the one after it."""
        same = (self.kind[:-1] == _BEFORE) & (self.kind[1:] == _UPDATE)
        for each in (self.lsn, self.stream, self.seq):
            same &= each[:-1] == each[1:]
        return np.append(same, False)

    def chains(self) -> Iterator[_Numbers]:
        """Yield the rows of each chain that needs a replay."""
        rows = np.flatnonzero(~self.is_simple)
        pairs = np.flatnonzero(self.is_pair)
        moves = zip(self.key[pairs].tolist(), self.key[pairs + 1].tolist(), strict=True)
        chain = chains_of((before, after) for before, after in moves if before != after)
        mine = np.array([chain.get(key, key) for key in self.key[rows].tolist()], np.int64)
        order = np.argsort(mine, kind="stable")
        ends = np.flatnonzero(np.diff(mine[order])) + 1
        yield from (each for each in np.split(rows[order], ends) if each.size)

    def result(self) -> pa.Table:
        """Return the rows with what was found."""
        rows = np.flatnonzero(self.kind != _BEFORE)
        kept = self.changes.take(pa.array(rows))
        for n in range(len(self.facts.columns)):
            refs = self.refs[rows, n]
            if (refs == rows).all():
                continue
            for name in (f"value{n}", f"digest{n}"):
                if name in kept.column_names:
                    # An unknown value has the digest of a null, which is in its own row.
                    own = np.where(refs < 0, rows, refs) if name.startswith("d") else refs
                    values = self.changes[name].take(_nullable(own))
                    kept = kept.set_column(kept.schema.get_field_index(name), name, values)
        if "_pg_raw" in kept.column_names:
            index = kept.schema.get_field_index("_pg_raw")
            kept = kept.set_column(index, "_pg_raw", self._raw(rows))
        kept = kept.set_column(kept.schema.get_field_index("row"), "row", pa.array(self._row[rows]))
        for field, values in zip(ADDED, self._added(rows), strict=True):
            kept = kept.append_column(field, values)
        return kept

    @property
    def _row(self) -> _Numbers:
        """Return the identities; a key that a carried state has stands for the state's row."""
        row, carried = _numbers(self.changes["row"]), np.flatnonzero(self.is_carried)
        of_key = np.full(self._whole_key.max(initial=_NONE) + 1, _NONE)
        of_key[self._whole_key[carried]] = carried
        holder = of_key[self._whole_key]
        return np.where(holder < 0, row, row[holder])

    def _added(self, rows: _Numbers) -> list[pa.Array]:
        names = pa.array(self.facts.columns, pa.string())
        end, row, epoch = self.end[rows], self.end_row[rows], self.epoch[rows]
        by_cut = end == _BY_TRUNCATION
        cuts, own = _nullable(np.where(by_cut, epoch, _NONE)), _nullable(row)
        ended = [
            pc.coalesce(self.changes[name].take(own), self.facts.truncations[name].take(cuts))
            for name in ("_commit_version", "_commit_timestamp")
        ]
        state = self.is_state[rows] & ~self.changes["nameless"].to_numpy()[rows]
        return [
            _OPERATIONS.take(_nullable(self.operation[rows])),
            _names(self.changed[rows], names),
            pa.array(state),
            _names((self.refs[rows] < 0) & state[:, None], names),
            _ENDS.take(_nullable(end)),
            *ended,
        ]

    def _raw(self, rows: _Numbers) -> pa.Array:
        """Return the texts of values that their column cannot hold."""
        raw, columns = self.changes["_pg_raw"].combine_chunks(), self.facts.columns
        has = np.diff(_numbers(raw.offsets)) > 0
        refs = self.refs[rows]
        moved = (refs != rows[:, None]) & (has[refs] & (refs >= 0) | has[rows][:, None])
        found = raw.take(pa.array(rows))
        if not moved.any():
            return found
        texts = raw.to_pylist()
        result = [texts[row] for row in rows]
        for n in np.flatnonzero(moved.any(axis=1)):
            known = zip(columns, refs[n].tolist(), strict=True)
            held = [(name, dict(texts[ref] or ()).get(name)) for name, ref in known if ref >= 0]
            result[n] = [each for each in held if each[1] is not None]
        return pa.array(result, raw.type)


class _SimpleReplay:
    """The replay of keys whose rows follow one another, and did not move: a column at a time."""

    def __init__(self, piece: _Piece) -> None:
        self._piece = piece
        #: The rows, key by key.
        self._order = np.argsort(piece.key, kind="stable")
        #: The key's row before, and its change before and after.
        self._row_before, _ = _neighbours(piece.key, self._order)
        changes = self._order[piece.kind[self._order] != _BEFORE]
        self._before, self._after = _neighbours(piece.key, changes)

    def _simple(self) -> _Mask:
        """Return which rows are of keys that need no other replay."""
        piece, kind, there = self._piece, self._piece.kind, self._before >= 0
        hard = piece.is_carried | (there & (piece.stream == 0)) | self._is_altered()
        hard |= there & ((kind == _INSERT) != (kind[self._before] == _DELETE))
        stays = piece.is_pair & (piece.key == np.roll(piece.key, -1))
        moves = (kind == _BEFORE) & ~stays
        hard |= moves
        hard[1:] |= (moves & piece.is_pair)[:-1]
        for lapse in piece.facts.lapses:
            since = np.where(self._row_before < 0, OPEN_END, piece.lsn[self._row_before])
            hard |= (since < lapse.to_lsn) & (lapse.from_lsn < piece.lsn)
        hard_keys = np.zeros(piece.key.max(initial=_NONE) + 1, np.bool_)
        hard_keys[piece.key[hard]] = True
        return np.logical_not(hard_keys[piece.key])

    def _is_altered(self) -> _Mask:
        """Return which rows come after an ALTER TABLE that changed columns."""
        version, before = self._piece.version, self._row_before
        found: _Mask = (before >= 0) & (version != version[before])
        pairs = np.stack([version[before[found]], version[found]])
        for one, other in np.unique(pairs, axis=1).T.tolist():
            if not self._piece.facts.shapes.altered_between(one, other):
                found &= (version[before] != one) | (version != other)
        return found

    def run(self) -> None:
        """Set what is found of the changes of simple keys."""
        piece, kind = self._piece, self._piece.kind
        piece.is_simple = simple = self._simple()
        known = self._known()
        states = np.flatnonzero(simple & (kind != _DELETE) & (kind != _BEFORE))
        piece.is_state[states], piece.refs[states] = True, known[states]
        counted = simple & (kind != _BEFORE) & (piece.stream == 1)
        piece.operation[counted] = kind[counted]
        piece.operation[counted & (kind == _UPDATE) & (self._row_before < 0)] = _UNKNOWN_BEFORE
        updates = np.flatnonzero(counted & (kind == _UPDATE) & (self._row_before >= 0))
        before = known[self._row_before[updates]]
        for n in range(len(piece.facts.columns)):
            differs = piece.digests[before[:, n], n] != piece.digests[updates, n]
            # A large value that was not sent before, and is sent now, has changed.
            differs = np.where(before[:, n] < 0, self._before[updates] >= 0, differs)
            piece.changed[updates, n] = differs & piece.sent[updates, n]
        after = self._after[states]
        is_cut = piece.epoch[states] < piece.facts.truncations.num_rows
        ends = np.where(kind[after] == _DELETE, _BY_DELETE, _BY_UPDATE)
        piece.end[states] = np.where(after >= 0, ends, np.where(is_cut, _BY_TRUNCATION, _NONE))
        piece.end_row[states] = after

    def _known(self) -> _Numbers:
        """Return the input rows that hold the last known values of each row, -1 where unknown."""
        piece, order = self._piece, self._order
        begins = (self._row_before[order] < 0) | (piece.kind[order] == _INSERT)
        places, known = np.arange(order.size), np.empty_like(piece.refs)
        for n in range(known.shape[1]):
            sent = piece.sent[order, n]
            last = np.maximum.accumulate(np.where(sent | begins, places, 0))
            known[order, n] = np.where(sent[last], order[last], _NONE)
        return known


def _neighbours(key: _Numbers, order: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Return the row of the same key before and after each row of an order, else -1."""
    before, after = np.full_like(key, _NONE), np.full_like(key, _NONE)
    follows = np.flatnonzero(np.diff(key[order]) == 0)
    before[order[follows + 1]], after[order[follows]] = order[follows], order[follows + 1]
    return before, after


class _ChainReplay:
    """The replay of the rows of one chain of keys between two truncations."""

    def __init__(self, piece: _Piece, rows: _Numbers) -> None:
        self._piece, self._facts = piece, piece.facts
        self._numbers = {name: n for n, name in enumerate(piece.facts.columns)}
        self._sent = self._sent_in(rows.tolist())
        self._by_key: dict[Hashable, list[ReplayedChange]] = {}
        for change in self._changes(rows.tolist()):
            for key in dict.fromkeys((change.key_before, change.key_after)):
                self._by_key.setdefault(key, []).append(change)
        self._is_cut = piece.epoch[rows[0]] < piece.facts.truncations.num_rows
        self._cuts = {TABLE: [((1 << 63, 1, 0, 0), None)]} if self._is_cut else {}

    def _sent_in(self, rows: Sequence[int]) -> dict[int, dict[str, int]]:
        """Return the values in each input row: its number, by column."""
        sent = self._piece.sent[rows].tolist()
        return {
            row: dict.fromkeys(compress(self._facts.columns, mine), row)
            for row, mine in zip(rows, sent, strict=True)
        }

    def _changes(self, rows: Sequence[int]) -> Iterator[ReplayedChange]:
        """Yield the changes, each from its row and, for an update, the row before it."""
        piece, former = self._piece, None
        for row in rows:
            kind = piece.kind[row]
            if kind == _BEFORE and piece.is_pair[row]:
                former = row
                continue
            key, sent = int(piece.key[row]), self._sent[row]
            old = sent if kind in (_DELETE, _BEFORE) else None
            keys, whole = (key, key), old is not None and self._is_whole(row)
            if kind == _BEFORE:
                # The row after the update is missing, so its key is unknown.
                keys = key, _NONE - row
            elif former is not None:
                old, whole = self._sent[former], self._is_whole(former)
                keys, former = (int(piece.key[former]), key), None
            is_read = piece.is_carried[row] or not piece.stream[row]
            yield ReplayedChange.of(
                row, "S" if is_read else "IUDU"[kind], (int(piece.lsn[row]), int(piece.seq[row])),
                int(piece.version[row]), keys, old, None if kind in (_DELETE, _BEFORE) else sent,
                is_whole=whole,
            )  # fmt: skip

    def _is_whole(self, row: int) -> bool:
        return bool((self._piece.sent[row] == self._piece.in_version[row]).all())

    def run(self) -> None:
        """Replay every row of the chain."""
        periods = {
            key: periods_of(key, changes, self._cuts, self._tell)
            for key, changes in self._by_key.items()
        }
        of_all = [period for found in periods.values() for period in found]
        moved_in = {each.events[0].name: each for each in of_all if each.begun == "moved"}
        moved_on = {each.events[-1].name for each in of_all if each.ended == "moved"}
        for period in of_all:
            if period.begun == "moved" and period.events[0].name in moved_on:
                continue
            events = list(period.events)
            while period.ended == "moved" and (later := moved_in.get(period.events[-1].name)):
                period = later
                events += period.events[1:]
            last = self._replay(events)
            if last != _NONE:
                self._end(last, period, periods[period.key])

    def _tell(self, periods: Sequence[_Period], change: ReplayedChange) -> _Period | None:
        """Return which of the rows under one key a change is of."""
        outliving = self._facts.shapes.outliving
        lasts = [period.events[-1] for period in periods]
        values = [outliving(last.after, last, change) for last in lasts]
        return period_of_old_row(periods, change, values, same=self._is_same)

    def _is_same(self, name: str, one: Any, other: Any) -> bool:
        digests, n = self._piece.digests, self._numbers[name]
        return bool(digests[one, n] == digests[other, n])

    def _replay(self, events: Sequence[ReplayedChange]) -> int:
        """Replay one row; return the input row of its last state, -1 if that has ended."""
        piece, replay, state = self._piece, Replay(self._facts.shapes, self._facts.breaks), _NONE
        for change in events:
            former = replay.known
            kind, before = replay.advance(change)
            row, is_carried = change.index, piece.is_carried[change.index]
            if change.op == "S" and not is_carried and self._repeats(before, change):
                continue
            if state != _NONE:
                piece.end[state], piece.end_row[state] = self._end_by(change), row
            state = _NONE
            if change.op != "S":
                self._count(change, kind, before, former)
            if change.new is not None:
                state, piece.is_state[row] = row, True
                known = replay.known.values
                piece.refs[row] = [known.get(name, _NONE) for name in self._facts.columns]
        return state

    def _repeats(self, before: KnownRow, change: ReplayedChange) -> bool:
        """Return whether a baseline's row is what was known of the row before."""
        return before.exists is True and all(
            self._is_same(name, before.values.get(name, ref), ref)
            for name, ref in (change.new or {}).items()
        )

    @staticmethod
    def _end_by(change: ReplayedChange) -> int:
        if change.op == "D":
            return _BY_DELETE
        return _BY_MOVE if change.moves else _BY_UPDATE

    def _count(self, change: ReplayedChange, kind: str, before: KnownRow, former: KnownRow) -> None:
        """Set the operation, and for an update the columns that it changed."""
        piece, row = self._piece, change.index
        if change.op != "U" or kind == "unknown":
            piece.operation[row] = {"I": 0, "D": 2}.get(change.op, _UNKNOWN_BEFORE)
            return
        piece.operation[row] = 1
        is_followed = former.exists is True and kind != "key"
        for name, ref in (change.new or {}).items():
            known = before.values.get(name)
            if known is None and name in before.altered:
                # Compare a value that ALTER TABLE may have rewritten with what was sent before.
                assert isinstance(former.last, ReplayedChange)
                known = former.values.get(name, former.last.index)
            # A large value that was not sent before, and is sent now, has changed.
            differs = is_followed if known is None else not self._is_same(name, known, ref)
            piece.changed[row, self._numbers[name]] = differs

    def _end(self, state: int, period: _Period, siblings: Sequence[_Period]) -> None:
        """Set how the last state of a row ended, if it did."""
        piece = self._piece
        if period.ended == "truncated":
            piece.end[state] = _BY_TRUNCATION
        elif period.ended == "lost":
            # Another row has the key, so the end is not recorded.
            later = [p.events[0] for p in siblings if p.events[0].at > period.events[-1].at]
            after = min(later, key=lambda change: change.at, default=period.events[-1])
            piece.end[state], piece.end_row[state] = _BY_LOSS, after.index


def _numbers(column: Any) -> _Numbers:
    found: _Numbers = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else (
        column.to_numpy()
    )  # fmt: skip
    return found.astype(np.int64, copy=False)


def _codes(*columns: _Numbers) -> _Numbers:
    """Return numbers from 0 that are equal where the columns are."""
    found = columns[0]
    for column in columns[1:]:
        found = found * (column.max(initial=0) + 1) + column
    return np.unique(found, return_inverse=True)[1].astype(np.int64, copy=False)


def _nullable(numbers: _Numbers) -> pa.Array:
    """Return numbers with nulls in place of those below 0."""
    return pa.array(numbers, pa.int64(), mask=numbers < 0)


def _names(mask: _Mask, names: pa.Array) -> pa.Array:
    """Return for each row the names of the columns that are set."""
    offsets = np.append(0, np.cumsum(mask.sum(axis=1)))
    values = names.take(pa.array(np.nonzero(mask)[1], pa.int64()))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)

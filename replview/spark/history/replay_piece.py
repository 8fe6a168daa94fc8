"""A piece is changes of a table as columns, in the order of history, and what a replay finds."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replview.parquet.slice_schemas import TIMESTAMPTZ
from replview.parquet.slices import TableVersion
from replview.spark.history.key_chains import chains_of
from replview.spark.history.replayed_change import TABLE
from replview.store.read.row_history.breaks import Breaks, Lapse
from replview.store.read.row_history.shapes import Shapes, Version

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


class Kind(IntEnum):
    """A kind of change, as the index of its name in ``_KINDS`` and of its operation."""

    INSERT, UPDATE, DELETE, BEFORE = range(4)


class End(IntEnum):
    """The end of a state, as the index of its name in ``_ENDS``."""

    UPDATE, DELETE, KEY_CHANGE, TRUNCATION, LOSS = range(5)


#: In place of a number: none, unknown.
NONE = -1
#: The number of the operation ``BEFORE_UNKNOWN``.
UNKNOWN_BEFORE = 3
_KINDS = pa.array(["insert", "update_postimage", "delete", "update_preimage"])
_OPERATIONS = pa.array(["insert", "update", "delete", BEFORE_UNKNOWN])
_ENDS = pa.array(["update", "delete", "key change", "truncate", "lost"])

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TableFacts:
    """The facts of a table that a replay needs beside its changes."""

    versions: Sequence[TableVersion]
    #: The columns of all versions, as named on the source.
    columns: Sequence[str]
    #: ``TRUNCATIONS`` in order.
    truncations: pa.Table
    lapses: Sequence[Lapse] = ()
    #: Columns of the result; empty: those of the input and ``ADDED``.
    wanted: Sequence[str] = ()

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


class Piece:
    """The changes of a piece by column, in the order of history, and what is found of each."""

    def __init__(self, facts: TableFacts, changes: pa.Table) -> None:
        self.facts, self.changes = facts, _in_order(changes)
        changes, rows, columns = self.changes, changes.num_rows, len(facts.columns)
        self.kind = numbers(pc.index_in(changes["_change_type"], _KINDS))
        self.lsn, self.stream, self.seq = (numbers(changes[name]) for name in PLACE[:3])
        self.version = numbers(changes["_relation_version"])
        self.is_carried = changes["is_carried"].to_numpy()
        # Values of one column lie together, since most steps take a column at a time.
        digests = [numbers(changes[f"digest{n}"]) for n in range(columns)]
        self.digests = np.stack(digests).T
        self.epoch = self._epochs()
        self._whole_key = _codes(numbers(changes["key"]))
        #: The number of the key, within the time between two truncations.
        self.key = _codes(self._whole_key * (self.epoch.max(initial=0) + 1) + self.epoch)
        self.in_version = self._in_version()
        #: The input row that holds each value after the change; -1: unknown.
        self.refs = np.where(self.in_version.T, np.arange(rows), NONE).T
        #: Whether each value was sent.
        self.sent = self.in_version.copy()
        unsent = changes["_not_sent"].combine_chunks()
        number = pc.index_in(pc.list_flatten(unsent), pa.array(facts.columns, pa.string()))
        self.sent[numbers(pc.list_parent_indices(unsent)), numbers(number)] = False
        self.operation = np.full(rows, NONE)
        self.changed = np.zeros((rows, columns), np.bool_)
        self.is_state = np.zeros(rows, np.bool_)
        #: What ended the state, and the input row (of a truncation: -1) that did.
        self.end, self.end_row = np.full(rows, NONE), np.full(rows, NONE)
        self.is_simple = np.zeros(rows, np.bool_)

    def _in_version(self) -> Mask:
        """Return which columns the table had at each change."""
        versions, which = np.unique(self.version, return_inverse=True)
        names = [self.facts.shapes.column_names(number) for number in versions.tolist()]
        has = [[column in each for column in self.facts.columns] for each in names]
        found: Mask = np.array(has, np.bool_).reshape(-1, len(self.facts.columns))[which]
        return found

    def _epochs(self) -> Numbers:
        """Return how many truncations precede each row."""
        cuts, seqs = (numbers(self.facts.truncations[name]) for name in ("_commit_version", "_seq"))
        first, last = (np.searchsorted(cuts, self.lsn, side) for side in ("left", "right"))
        for row in np.flatnonzero(first < last):
            # A baseline's rows precede the commit at its position.
            seq = self.seq[row] if self.stream[row] else NONE
            first[row] += np.searchsorted(seqs[first[row] : last[row]], seq)
        return first

    @cached_property
    def is_pair(self) -> Mask:
        """Return whether a row is the one before an update, and the next row the one after it."""
        same = (self.kind[:-1] == Kind.BEFORE) & (self.kind[1:] == Kind.UPDATE)
        for each in (self.lsn, self.stream, self.seq):
            same &= each[:-1] == each[1:]
        return np.append(same, False)

    def chains(self) -> Iterator[Numbers]:
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
        """Return the wanted columns of the rows, with what was found."""
        rows = np.flatnonzero(self.kind != Kind.BEFORE)
        wanted = {*(self.facts.wanted or (*self.changes.column_names, *ADDED.names))}
        names = [name for name in self.changes.column_names if name in wanted]
        found = dict(zip(names, self._rows(names, rows), strict=True))
        for n in range(len(self.facts.columns)):
            if not wanted.isdisjoint((f"value{n}", f"digest{n}")):
                found |= self._held(n, rows, wanted)
        if "_pg_raw" in wanted:
            found["_pg_raw"] = self._raw(rows)
        found["row_id"] = pa.array(self._row[rows])
        return pa.table({**found, **self._added(rows)})

    def _rows(self, names: Sequence[str], rows: Numbers) -> list[pa.ChunkedArray]:
        """Return these rows of columns of the changes."""
        own = self.changes.select(names)
        if rows.size < own.num_rows:
            own = own.filter(pa.array(self.kind != Kind.BEFORE))
        columns: list[pa.ChunkedArray] = own.columns
        return columns

    def _held(self, n: int, rows: Numbers, wanted: Container[str]) -> dict[str, pa.ChunkedArray]:
        """Return the last known values of a column, and their digests, where they are others."""
        refs = self.refs[rows, n]
        if (refs == rows).all():
            return {}
        # An unknown value has the digest of a null, which is in its own row.
        own = {f"value{n}": refs, f"digest{n}": np.where(refs < 0, rows, refs)}
        return {
            name: self.changes[name].take(nullable(places))
            for name, places in own.items()
            if name in wanted and name in self.changes.column_names
        }

    @property
    def _row(self) -> Numbers:
        """Return the identities; a key that a carried state has stands for the state's row."""
        row, carried = numbers(self.changes["row_id"]), np.flatnonzero(self.is_carried)
        of_key = np.full(self._whole_key.max(initial=NONE) + 1, NONE)
        of_key[self._whole_key[carried]] = carried
        holder = of_key[self._whole_key]
        return np.where(holder < 0, row, row[holder])

    def _added(self, rows: Numbers) -> dict[str, pa.Array]:
        """Return the columns ``ADDED``."""
        names = pa.array(self.facts.columns, pa.string())
        end, row, epoch = self.end[rows], self.end_row[rows], self.epoch[rows]
        by_cut = end == End.TRUNCATION
        cuts, own = nullable(np.where(by_cut, epoch, NONE)), nullable(row)
        ended = [
            pc.coalesce(self.changes[name].take(own), self.facts.truncations[name].take(cuts))
            for name in ("_commit_version", "_commit_timestamp")
        ]
        state = self.is_state[rows] & ~self.changes["nameless"].to_numpy()[rows]
        added = [
            _OPERATIONS.take(nullable(self.operation[rows])),
            _names(self.changed[rows], names),
            pa.array(state),
            _names((self.refs[rows] < 0) & state[:, None], names),
            _ENDS.take(nullable(end)),
            *ended,
        ]
        return dict(zip(ADDED.names, added, strict=True))

    def _raw(self, rows: Numbers) -> pa.Array:
        """Return the texts of values that their column cannot hold."""
        raw, columns = self.changes["_pg_raw"].combine_chunks(), self.facts.columns
        has = np.diff(numbers(raw.offsets)) > 0
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


def numbers(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """Return a column of whole numbers without nulls."""
    zero_copy = {"zero_copy_only": False} if isinstance(column, pa.Array) else {}
    found: Numbers = column.to_numpy(**zero_copy).astype(np.int64, copy=False)
    return found


def nullable(found: Numbers) -> pa.Array:
    """Return numbers with nulls in place of those below 0."""
    return pa.array(found, pa.int64(), mask=found < 0)


def _in_order(changes: pa.Table) -> pa.Table:
    """Return the changes in the order of history, in which exported files have most of them."""
    order = np.lexsort([numbers(changes[name]) for name in reversed(PLACE)])
    return changes if (np.diff(order) == 1).all() else changes.take(pa.array(order))


def _codes(values: Numbers) -> Numbers:
    """Return numbers from 0 that are equal where the values are."""
    return numbers(pa.array(values).dictionary_encode().indices)


def _names(mask: Mask, names: pa.Array) -> pa.Array:
    """Return for each row the names of the columns that are set."""
    offsets = np.append(0, np.cumsum(mask.sum(axis=1)))
    values = names.take(pa.array(np.nonzero(mask)[1], pa.int64()))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)

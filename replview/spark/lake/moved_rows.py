"""Replay the changes of keys between which rows move, to find the row that each key has in the end.

Row history's rule (``key_periods``) decides which row a change is of. While changes are replayed, a
value is the number of the line that has it: only the last values are copied.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from replview.store.read.row_history.key_periods import KeyPeriod, periods_of

#: ``_change_type`` of a line that is a row of ``current``.
IN_CURRENT = "current"
#: Operation of each kind of line; a row of ``current`` is like one that was read from the table.
_OPERATIONS = {
    IN_CURRENT: "S",
    "snapshot": "S",
    "insert": "I",
    "update_postimage": "U",
    "delete": "D",
}


@dataclass(frozen=True, slots=True)
class LakeChange:
    """A change of a row as ``key_periods`` takes it, with the lines that have the row's values."""

    #: The line with the row after the change, or with the deleted row.
    name: int
    op: str
    transaction: int
    key_before: Hashable
    key_after: Hashable
    #: The line with the row before the change; None: it was not sent.
    before: int | None

    relation_id: ClassVar[int] = 0
    is_read: ClassVar[bool] = True
    commit_time: ClassVar[None] = None

    @property
    def moves(self) -> bool:
        """Return whether the row has another key after the change."""
        return self.key_before != self.key_after

    @property
    def at(self) -> int:
        """Return the place in the order of history."""
        return self.name


Period = KeyPeriod[LakeChange]


class MovedRows:
    """The rows of some keys after a batch of changes."""

    def __init__(self, lines: pa.Table, columns: Mapping[str, str], not_sent: Sequence[str]):
        """Take the rows of ``current``, then the changes, in the order of history.

        ``columns``: names on the source by names in the lake. ``not_sent``: columns that a line may
        lack; its ``_absent`` names them. ``_is_whole`` says that the server sent the whole row.
        """
        self._lines = lines
        self._columns = columns
        self._not_sent = not_sent
        self._absent = [frozenset(names or ()) for names in lines["_absent"].to_pylist()]
        self._whole = lines["_is_whole"].to_pylist()
        self._raws = [dict(pairs or ()) for pairs in lines["_pg_raw"].to_pylist()]
        self._changes: dict[Hashable, list[LakeChange]] = {}
        for change in self._read():
            for key in {change.key_before, change.key_after}:
                self._changes.setdefault(key, []).append(change)
        self._periods = {
            key: periods_of(key, changes, {}, self._tell) for key, changes in self._changes.items()
        }
        every = (period for periods in self._periods.values() for period in periods)
        self._left = {p.events[-1].name: p for p in every if p.ended == "moved"}

    def _read(self) -> Iterator[LakeChange]:
        keys = [tuple(key.values()) for key in self._lines["_key"].to_pylist()]
        kinds = self._lines["_change_type"].to_pylist()
        transactions = self._lines["_commit_seq"].to_pylist()
        before: int | None = None
        for number, kind in enumerate(kinds):
            if kind == "update_preimage":
                before = number
                continue
            if kind == "delete":
                before = number
            former = keys[number if before is None else before]
            # What current has was there before every transaction.
            transaction = 0 if kind == IN_CURRENT else transactions[number]
            yield LakeChange(number, _OPERATIONS[kind], transaction, former, keys[number], before)
            before = None

    def rows(self) -> pa.Table:
        """Return a line for each key: its row, or a deletion where no row has it any more."""
        last: list[int] = []
        types: list[str] = []
        values: dict[str, list[int | None]] = {name: [] for name in self._not_sent}
        for key, periods in self._periods.items():
            period = next((each for each in periods if not each.ended), None)
            known = {} if period is None else self._known_values(period)
            change = self._changes[key][-1] if period is None else period.events[-1]
            # A key that a row has left is on the line before the change.
            is_left = period is None and change.key_after != key and change.before is not None
            last.append(change.before if is_left else change.name)  # type: ignore[arg-type]
            types.append("delete" if period is None else "update_postimage")
            for name in self._not_sent:
                values[name].append(known.get(name))
        return self._taken(last, types, values)

    def _known_values(self, period: Period) -> dict[str, int]:
        """Return the lines that have the last known values of a row's columns."""
        known: dict[str, int] = {}
        for change in self._changes_of_row(period):
            if change.op in "IS":
                known = {}
            for line in (change.before, change.name):
                if line is not None:
                    known |= {n: line for n in self._not_sent if n not in self._absent[line]}
        return known

    def _changes_of_row(self, period: Period) -> list[LakeChange]:
        """Return the changes of a row up to a period's end, under its former keys, too."""
        parts = [period.events]
        while period.begun == "moved":
            period = self._left[period.events[0].name]
            parts.append(period.events[:-1])
        return [change for part in reversed(parts) for change in part]

    def _tell(self, periods: Sequence[Period], change: LakeChange) -> Period | None:
        """Return which of the rows under one key has the values before a change.

        A deferrable constraint, which lets several have it, is no replica identity: the server
        sends the whole row then. Otherwise it is the one that came last.
        """
        if change.before is None or not self._whole[change.before]:
            return periods[-1]
        fitting = [each for each in periods if self._may_be(each.events[-1], change.before)]
        return fitting[0] if fitting else None

    def _may_be(self, change: LakeChange, line: int) -> bool:
        """Return whether a row has, after a change, the values of a line, as far as known."""
        for name, source in self._columns.items():
            lines = (each for each in (change.name, change.before) if each is not None)
            known = next((each for each in lines if name not in self._absent[each]), None)
            if known is None or name in self._absent[line]:
                continue
            if self._text(known, name, source) != self._text(line, name, source):
                return False
        return True

    def _text(self, line: int, name: str, source: str) -> tuple[str, str | None]:
        # As text, NaN is equal to itself.
        return repr(self._lines[name][line].as_py()), self._raws[line].get(source)

    def _taken(
        self, last: list[int], types: list[str], values: Mapping[str, list[int | None]]
    ) -> pa.Table:
        """Return the last lines, with each column of ``values`` from the lines named there."""
        lines = self._lines.take(pa.array(last, pa.int64()))
        found = {name: lines[name] for name in lines.column_names}
        for name, numbers in values.items():
            found[name] = self._lines[name].take(pa.array(numbers, pa.int64()))
        found["_change_type"] = pa.array(types, lines.schema.field("_change_type").type)
        absent = (
            # A row of current, as the last line, may lack columns that each change sent.
            [*(self._absent[line] - values.keys()), *(n for n in values if values[n][row] is None)]
            for row, line in enumerate(last)
        )
        found["_absent"] = pa.array(absent, lines.schema.field("_absent").type)
        raws = [self._raw(row, line, values) for row, line in enumerate(last)]
        found["_pg_raw"] = pa.array(raws, lines.schema.field("_pg_raw").type)
        return pa.table(found, schema=lines.schema)

    def _raw(
        self, row: int, line: int, values: Mapping[str, list[int | None]]
    ) -> list[tuple[str, str]]:
        """Return the texts of a row's values that their types cannot hold."""
        found = []
        for name, source in self._columns.items():
            number = values[name][row] if name in values else line
            if number is not None and source in self._raws[number]:
                found.append((source, self._raws[number][source]))
        return found


def replayed(
    batches: Iterable[pa.RecordBatch], columns: Mapping[str, str], not_sent: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that keys have after the changes in these batches, as ``MovedRows`` does."""
    if found := list(batches):
        lines = pa.Table.from_batches(found).combine_chunks()
        yield from MovedRows(lines, columns, not_sent).rows().to_batches()

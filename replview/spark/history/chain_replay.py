"""Replay the changes of keys between which rows moved, one change at a time.

``key_periods`` decides which row a change is of, and ``Replay`` what is known of the row after it.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import compress
from typing import Any

from replview.spark.history.replay_piece import NONE, UNKNOWN_BEFORE, End, Kind, Numbers, Piece
from replview.spark.history.replayed_change import TABLE, ReplayedChange
from replview.store.read.row_history.key_periods import KeyPeriod, period_of_old_row, periods_of
from replview.store.read.row_history.replay import KnownRow, Replay

_Period = KeyPeriod[ReplayedChange]


class ChainReplay:
    """The replay of the rows of one chain of keys between two truncations."""

    def __init__(self, piece: Piece, rows: Numbers) -> None:
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
            if kind == Kind.BEFORE and piece.is_pair[row]:
                former = row
                continue
            key, sent = int(piece.key[row]), self._sent[row]
            old = sent if kind in (Kind.DELETE, Kind.BEFORE) else None
            keys, whole = (key, key), old is not None and self._is_whole(row)
            if kind == Kind.BEFORE:
                # The row after the update is missing, so its key is unknown.
                keys = key, NONE - row
            elif former is not None:
                old, whole = self._sent[former], self._is_whole(former)
                keys, former = (int(piece.key[former]), key), None
            is_read = piece.is_carried[row] or not piece.stream[row]
            yield ReplayedChange.of(
                row, "S" if is_read else "IUDU"[kind], (int(piece.lsn[row]), int(piece.seq[row])),
                int(piece.version[row]), keys, old,
                sent if kind in (Kind.INSERT, Kind.UPDATE) else None, is_whole=whole,
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
            if last != NONE:
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
        piece, replay, state = self._piece, Replay(self._facts.shapes, self._facts.breaks), NONE
        for change in events:
            former = replay.known
            kind, before = replay.advance(change)
            row, is_carried = change.index, piece.is_carried[change.index]
            if change.op == "S" and not is_carried and self._repeats(before, change):
                continue
            if state != NONE:
                piece.end[state], piece.end_row[state] = self._end_by(change), row
            state = NONE
            if change.op != "S":
                self._count(change, kind, before, former)
            if change.new is not None:
                state, piece.is_state[row] = row, True
                known = replay.known.values
                piece.refs[row] = [known.get(name, NONE) for name in self._facts.columns]
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
            return End.DELETE
        return End.KEY_CHANGE if change.moves else End.UPDATE

    def _count(self, change: ReplayedChange, kind: str, before: KnownRow, former: KnownRow) -> None:
        """Set the operation, and for an update the columns that it changed."""
        piece, row = self._piece, change.index
        if change.op != "U" or kind == "unknown":
            piece.operation[row] = {"I": 0, "D": 2}.get(change.op, UNKNOWN_BEFORE)
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
            piece.end[state] = End.TRUNCATION
        elif period.ended == "lost":
            # Another row has the key, so the end is not recorded.
            later = [p.events[0] for p in siblings if p.events[0].at > period.events[-1].at]
            after = min(later, key=lambda change: change.at, default=period.events[-1])
            piece.end[state], piece.end_row[state] = End.LOSS, after.index

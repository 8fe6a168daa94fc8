"""The pure rules of row history hold against a table that is simulated: no database takes part.

A random table is changed in transactions, of which the record has all but the first ones, and some
of which are left out of it. The rules must divide the recorded changes into the simulated rows, say
the same of each row as a dictionary that forgets everything at a hole, and reach exactly the
changes of the rows that ever had a key.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from replview.store.read.row_history.breaks import Breaks, TableTruncation
from replview.store.read.row_history.events import RowEvent
from replview.store.read.row_history.key_periods import KeyPeriod, period_with_end, periods_of
from replview.store.read.row_history.replay import Replay
from replview.store.read.row_history.shapes import Shapes, Version
from replview.store.read.row_history.trails import KeySpan, Touch, TrailPosition, spans_of, touch_of
from replview.store.read.rows import RowStep, signed_hash

KEYS = ("a", "b", "c")
TABLE, INCARNATION, VERSION = 1, 1, 1
COLUMNS = ("id", "status", "note")
SHAPES = Shapes({VERSION: Version(
    VERSION, TABLE, 1, "public", "t", 1, "DEFAULT",
    [{"name": name, "type_oid": 25, "typmod": -1} for name in COLUMNS], ["id"], (0,), {}, None,
    None,
)})  # fmt: skip

#: A change: what is done, to which key, to which other key, and whether the note is sent.
Act = tuple[str, str, str, bool]
ACTS = st.tuples(
    st.sampled_from(("insert", "update", "update", "move", "delete", "truncate")),
    st.sampled_from(KEYS), st.sampled_from(KEYS), st.booleans(),
)  # fmt: skip
TRANSACTIONS = st.lists(st.lists(ACTS, min_size=1, max_size=3), max_size=14)


@dataclass
class Simulated:
    """A table, what a record has of it, and what a careful reader of the record would know."""

    #: The number of the row that has a key.
    rows: dict[str, int] = field(default_factory=dict)
    steps: list[RowStep] = field(default_factory=list)
    #: The row of each step.
    row_of: dict[tuple[int, int], int] = field(default_factory=dict)
    breaks: Breaks = field(default_factory=Breaks)
    #: The known values of the rows, by key; absent if nothing is known.
    known: dict[str, dict[str, str]] = field(default_factory=dict)
    #: The values known before and after each step; None if nothing was, or there was no row.
    before: dict[tuple[int, int], dict[str, str] | None] = field(default_factory=dict)
    after: dict[tuple[int, int], dict[str, str] | None] = field(default_factory=dict)
    _rows_made: int = 0
    _lsn: int = 0

    def play(self, transactions: Iterable[Sequence[Act]], first: int, left_out: set[int]) -> None:
        """Change the table, and record what is not left out from the transaction ``first`` on."""
        self.rows = {key: self._new_row() for key in KEYS[:2]}
        for number, acts in enumerate(transactions, start=1):
            recorded = number > first and number not in left_out
            self._lsn = number * 100
            commit = number * 100 + 99
            for act in acts:
                self._lsn += 1
                self._act(act, number, commit, recorded=recorded)
            if number > first and not recorded:
                self.known.clear()
                self.breaks.add_unseen(0, INCARNATION, (commit, 1, commit, 0), None)

    def _new_row(self) -> int:
        self._rows_made += 1
        return self._rows_made

    def _act(self, act: Act, number: int, commit: int, *, recorded: bool) -> None:
        op, key, other, with_note = act
        values = {"id": key, "status": f"s{self._lsn}", "note": f"n{self._lsn}"}
        if op == "truncate":
            self.rows.clear()
            if recorded:
                place = (commit, 1, self._lsn, self._lsn)
                self.breaks.add(TableTruncation(TABLE, INCARNATION, place, number, self._lsn, None))
                self.known.clear()
        elif op == "insert" and key not in self.rows:
            self.rows[key] = self._new_row()
            if recorded:
                self._record("I", number, commit, self.rows[key], None, values)
        elif op == "delete" and key in self.rows:
            row = self.rows.pop(key)
            if recorded:
                self._record("D", number, commit, row, {"id": key}, None)
        elif op == "update" and key in self.rows:
            self._update(number, commit, None, values, with_note=with_note, recorded=recorded)
        elif op == "move" and key in self.rows and other not in self.rows:
            self.rows[other] = self.rows.pop(key)
            values["id"] = other
            old = {"id": key}
            self._update(number, commit, old, values, with_note=with_note, recorded=recorded)

    def _update(
        self, number: int, commit: int, old: dict[str, str] | None, values: dict[str, str],
        *, with_note: bool, recorded: bool,
    ) -> None:  # fmt: skip
        if not with_note:
            del values["note"]
        if recorded:
            self._record("U", number, commit, self.rows[values["id"]], old, values)

    def _record(
        self, op: str, number: int, commit: int, row: int,
        old: dict[str, str] | None, new: dict[str, str] | None,
    ) -> None:  # fmt: skip
        key = (new or old or {})["id"]
        former = old["id"] if op == "U" and old else None
        step = RowStep(
            number, self._lsn, self._lsn, None, op, "K" if old else None, old, new, TABLE, VERSION,
            signed_hash([key]), None if former is None else signed_hash([former]), INCARNATION,
            number, number, None, "committed", commit, None, None, None,
        )  # fmt: skip
        self.steps.append(step)
        name = (number, self._lsn)
        self.row_of[name] = row
        before = None if op == "I" else self.known.pop(former or key, None)
        self.before[name] = None if before is None else before | {"id": former or key}
        after = None if new is None else (before or {}) | (old or {}) | new
        self.after[name] = after
        if after is not None:
            self.known[key] = after


def _events(steps: Iterable[RowStep]) -> dict[int, list[RowEvent]]:
    """Return the changes under each key's hash."""
    found: dict[int, list[RowEvent]] = {}
    for step in steps:
        hashes = (step.key_hash, step.old_key_hash)
        for key_hash in dict.fromkeys(h for h in hashes if h is not None):
            at = (1, *step.place)
            event = RowEvent(
                step.transaction_id, step.seq, step.lsn, step.op, TABLE, step.key_hash or 0, {},
                step.old_key_hash, None, (at, INCARNATION, None),
            )  # fmt: skip
            found.setdefault(key_hash, []).append(event)
    return found


def _rows(simulated: Simulated) -> list[list[tuple[int, int]]]:
    """Return each row's changes in order, as the rules divide and join them."""
    cuts = [((1, *each.place), None) for each in simulated.breaks.truncations]
    periods = {
        key_hash: periods_of(key_hash, events, {TABLE: cuts}, _newest_row)
        for key_hash, events in _events(simulated.steps).items()
    }
    rows = []
    for first in (p for each in periods.values() for p in each if p.begun != "moved"):
        names = [event.name for event in first.events]
        last = first
        while last.ended == "moved":
            move = last.events[-1]
            later = period_with_end(periods[move.key_after], move)
            assert later is not None
            assert later.begun == "moved"
            names += [event.name for event in later.events[1:]]
            last = later
        rows.append(names)
    return rows


def _newest_row(rows: Sequence[KeyPeriod[Any]], _: object) -> KeyPeriod[Any]:
    """Return the row that got the key last: no constraint is deferrable here."""
    return rows[-1]


@given(TRANSACTIONS, st.integers(0, 4))
def test_recorded_changes_are_divided_into_the_rows(
    transactions: list[list[Act]], first: int
) -> None:
    simulated = Simulated()
    simulated.play(transactions, first, set())
    by_row: dict[int, list[tuple[int, int]]] = {}
    for name, row in simulated.row_of.items():
        by_row.setdefault(row, []).append(name)
    assert sorted(_rows(simulated)) == sorted(by_row.values())


@given(TRANSACTIONS, st.integers(0, 4), st.sets(st.integers(3, 14), max_size=4))
def test_what_is_known_of_a_row_is_what_a_forgetful_reader_knows(
    transactions: list[list[Act]], first: int, left_out: set[int]
) -> None:
    simulated = Simulated()
    simulated.play(transactions, first, left_out)
    steps = {(step.transaction_id, step.seq): step for step in simulated.steps}
    rows = _rows(simulated)
    assert sorted(name for names in rows for name in names) == sorted(steps)
    for names in rows:
        replay = Replay(SHAPES, simulated.breaks)
        for name in names:
            entry = replay.apply(steps[name])
            before, after = simulated.before[name], simulated.after[name]
            if before is not None:
                assert (entry.before_kind, entry.before.values) == ("derived", before)
            elif steps[name].op != "I":
                assert entry.before.values == (steps[name].old or {})
                assert entry.before_kind == ("key" if steps[name].old else "unknown")
            assert entry.after.exists is (after is not None)
            assert entry.after.values == (after or {})


@given(TRANSACTIONS, st.integers(0, 4), st.sampled_from(KEYS))
@example([[("move", "b", "c", True)], [("truncate", "a", "a", True)],
          [("insert", "c", "c", True)]], 0, "b")  # fmt: skip
@example([[("move", "a", "c", True)], [("move", "c", "a", True)],
          [("delete", "a", "a", True), ("insert", "a", "a", True)]], 0, "c")  # fmt: skip
@settings(max_examples=200)
def test_a_trail_is_all_changes_of_the_rows_that_ever_had_a_key(
    transactions: list[list[Act]], first: int, key: str
) -> None:
    simulated = Simulated()
    simulated.play(transactions, first, set())
    touches = [_touch(step) for step in simulated.steps]
    bounds = [touch for touch in touches if touch.op in "ID" or touch.moves]
    spans = spans_of(
        [KeySpan((("id", key),))],
        lambda other: [touch for touch in bounds if other in (touch.before, touch.after)],
    )
    reached = {
        (touch.transaction_id, touch.place.seq)
        for touch in touches
        for span in spans
        if span.key in (touch.before, touch.after) and span.holds(touch.place, touch.op)
    }
    having = {
        simulated.row_of[touch.transaction_id, touch.place.seq]
        for touch in touches
        if (("id", key),) in (touch.before, touch.after)
    }
    assert reached == {name for name, row in simulated.row_of.items() if row in having}


def test_a_trail_goes_on_after_two_rows_exchanged_their_keys() -> None:
    def touch(lsn: int, transaction: int, op: str, before: str, after: str) -> Touch:
        place = TrailPosition(1, lsn, lsn, transaction * 100)
        keys = (("id", before),), (("id", after),)
        return touch_of(place, op, *keys, transaction_id=transaction, is_whole=True)

    touches = [
        touch(1, 1, "U", "c", "a"),
        # A deferrable constraint lets both have the key b until the transaction ends.
        touch(2, 2, "U", "a", "b"),
        touch(3, 2, "U", "b", "a"),
        touch(4, 3, "D", "b", "b"),
    ]
    spans = spans_of(
        [KeySpan((("id", "c"),))],
        lambda key: [touch for touch in touches if key in (touch.before, touch.after)],
    )
    of_b = [span for span in spans if span.key == (("id", "b"),)]
    assert any(span.holds(touches[3].place, "D") for span in of_b)


def _touch(step: RowStep) -> Touch:
    place = TrailPosition(1, step.lsn, step.seq, step.commit_lsn or 0)
    new, old = step.new or step.old or {}, step.old or step.new or {}
    keys = (("id", old["id"]),), (("id", new["id"]),)
    return touch_of(place, step.op, *keys, transaction_id=step.transaction_id)

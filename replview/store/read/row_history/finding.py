"""Find the rows that had a key, and follow one of them through its keys, from beginning to end."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from replview.store.read.row_history.breaks import Breaks, TableTruncation, read_breaks
from replview.store.read.row_history.events import (
    Cuts,
    KeyEvents,
    KeyValues,
    RowEvent,
    RowPeriod,
    is_same_key,
    read_events,
)
from replview.store.read.row_history.key_periods import (
    Cut,
    UnsureError,
    period_of_old_row,
    period_with_end,
    periods_of,
)
from replview.store.read.row_history.keys import TableRows
from replview.store.read.row_history.other_keys import keyed_otherwise, read_other_keys
from replview.store.read.row_history.replay import Replay
from replview.store.read.row_history.sought_row import At, Keys, SoughtRow
from replview.store.read.rows import OPEN_END, QueriedSlot, RowStep
from replview.store.read.seen import CUT_COLUMNS, step_of
from replview.store.read.session import ReadSession, array_text

#: The most time to follow a row through its keys; a row that moved some thousand times is cut.
_BUDGET_SECONDS = 2.0

_STEPS = f"""
    SELECT {CUT_COLUMNS}
    FROM unnest(%s::bigint[], %s::int[]) AS w (transaction_id, seq)
    JOIN change c ON c.transaction_id = w.transaction_id AND c.seq = w.seq
    JOIN transaction t ON t.id = c.transaction_id
"""  # noqa: S608 (nothing but the store's own columns)


@dataclass(slots=True)
class TracedRow:
    """One row: the periods of its keys and all its changes, oldest first."""

    periods: list[RowPeriod] = field(default_factory=list)
    events: list[RowEvent] = field(default_factory=list)
    #: True when older changes were not read, because its keys have too many changes.
    limited: bool = False
    #: True when newer changes were not read.
    cut: bool = False

    @property
    def begun(self) -> str:
        """Return how the first period began; empty: the beginning is not recorded."""
        return self.periods[0].begun if self.periods else ""

    @property
    def ended(self) -> str:
        """Return how the last period ended; empty: the row exists."""
        return self.periods[-1].ended if self.periods else ""

    @property
    def truncated_at(self) -> At | None:
        """Return the place of the truncation that ended the row."""
        return self.periods[-1].ended_at if self.periods else None


class RowFinder(SoughtRow):
    """A finder of the rows of one key."""

    def __init__(
        self, session: ReadSession, slot: QueriedSlot, table: TableRows, keys: Keys
    ) -> None:
        """Look up the table's rows by ``keys``, hashes with their values.

        Raises ``KeyProblem`` where the user may not look for rows by these keys.
        """
        super().__init__(session, slot, table, keys)
        #: Hash → key.
        self._keys: dict[int, KeyValues] = dict(keys)
        self._known: dict[tuple[int, int], KeyEvents] = {}
        self._periods: dict[tuple[int, int], list[RowPeriod]] = {}
        self._breaks: Breaks | None = None
        self._breaks_low = OPEN_END
        self._of_key: list[RowPeriod] | None = None

    @property
    def periods(self) -> list[RowPeriod]:
        """Return a period for every row that had the key, the newest first."""
        if self._of_key is None:
            found = [period for key_hash, _ in self.keys for period in self._periods_of(key_hash)]
            self._of_key = sorted(found, key=lambda period: period.last_at, reverse=True)
        return self._of_key

    @property
    def limited(self) -> bool:
        """Return whether older rows may have had the key: it has too many changes to read all."""
        return bool(self.periods) and any(
            self._known[key_hash, OPEN_END].limited for key_hash, _ in self.keys
        )

    def row(self, change: tuple[int, int] | None = None) -> TracedRow:
        """Return the row that has the key, or had it last; empty where none is known.

        ``change`` (transaction, seq): the row that this change under the key is of, if it exists.
        """
        named = (s for s in self.periods if any(event.name == change for event in s.events))
        period = next(named, self.periods[0] if self.periods else None)
        return TracedRow() if period is None else self.follow(period)

    def before(self, name: tuple[int, int]) -> TracedRow:
        """Return a row up to one of its changes (transaction, seq); empty where it is not found."""
        step = next(iter(self.steps_named([name])), None)
        version = None if step is None else self.table.shapes.versions.get(step.version_id)
        if step is None or version is None or step.relation_id not in self.relation_ids:
            return TracedRow()
        key_hash = step.key_hash if step.old_key_hash is None else step.old_key_hash
        values = self.table.shapes.key_before(step)
        if key_hash is None or values is None:
            return TracedRow()
        self._keys.setdefault(key_hash, dict(zip(version.key_columns, values, strict=True)))
        for below in (OPEN_END, step.lsn + 1):
            periods = self._periods_of(key_hash, below)
            named = (s for s in periods if any(event.name == name for event in s.events))
            if (period := next(named, None)) is not None:
                row = self._follow_back(period)
                index = next(n for n, event in enumerate(row.events) if event.name == name)
                row.events = row.events[:index]
                if row.events or not row.limited:
                    return row
        return TracedRow()

    def follow(self, period: RowPeriod) -> TracedRow:
        """Return the period's row, back to its first key and on to its last."""
        row = self._follow_back(period)
        deadline = time.monotonic() + _BUDGET_SECONDS
        while row.ended == "moved" and not row.cut:
            event = row.events[-1]
            assert event.keys is not None
            self._keys.setdefault(event.key_hash, event.keys[0])
            later = period_with_end(self._periods_of(event.key_hash), event)
            row.cut = later is None or time.monotonic() > deadline
            if later is not None:
                row.periods.append(later)
                row.events += later.events[1:]
        return row

    def _follow_back(self, period: RowPeriod) -> TracedRow:
        """Return the row up to the end of this period."""
        deadline = time.monotonic() + _BUDGET_SECONDS
        periods, limited = [period], False
        while periods[0].begun == "moved" and not limited:
            event = periods[0].events[0]
            assert event.old_key_hash is not None
            assert event.keys is not None
            self._keys.setdefault(event.old_key_hash, event.keys[1])
            former = period_with_end(self._periods_of(event.old_key_hash), event)
            if former is None and self._known[event.old_key_hash, OPEN_END].limited:
                former = period_with_end(
                    self._periods_of(event.old_key_hash, event.at[3] + 1), event
                )
            if former is None:
                break
            periods.insert(0, former)
            limited = time.monotonic() > deadline
        # A row in a baseline existed before it.
        was_there = periods[0].begun in ("", "snapshot")
        limited = limited or (was_there and self._is_limited(periods[0]))
        events = list(periods[0].events)
        for each in periods[1:]:
            events += each.events[1:]
        return TracedRow(periods, events, limited)

    def whole(self, row: TracedRow) -> list[tuple[int, int]]:
        """Return all changes of a row (transaction, seq), oldest first, also those not read yet.

        A truncation that ended the row is the last.
        """
        names = [event.name for event in row.events]
        if row.truncated_at is not None:
            cut = self.truncation(row.truncated_at)
            names.append((cut.transaction_id, cut.seq))
        while row.limited and names:
            row = self.before(names[0])
            names = [event.name for event in row.events] + names
        return names

    def _is_limited(self, period: RowPeriod) -> bool:
        """Return whether older changes of the period's key were not read."""
        return any(
            known.limited and known.events[0].transaction_id == period.events[0].transaction_id
            for (key_hash, _), known in self._known.items()
            if key_hash == period.key and known.events
        )

    def _periods_of(self, key_hash: int, below: int = OPEN_END) -> list[RowPeriod]:
        at = key_hash, below
        if at not in self._periods:
            cuts = self._truncations if self.is_serial else None
            try:
                self._read(key_hash, below, cuts)
            except UnsureError:
                self._read(key_hash, below, None)
            for period in self._periods[at]:
                if not period.ended and period.relation_id != self.table.relation.pk:
                    period.ended = "table"
        return self._periods[at]

    def _read(self, key_hash: int, below: int, cuts: Cuts | None) -> None:
        key, at = self._keys.get(key_hash, {}), (key_hash, below)
        self._known[at] = known = read_events(
            self.session, self.relation_ids, key_hash, key, self.numbers, below, cuts,
            self._versions_of(key),
        )  # fmt: skip
        truncations = self._truncations(known.events)
        self._periods[at] = periods_of(key_hash, known.events, truncations, self._tell)

    def _versions_of(self, key: KeyValues) -> list[int] | None:
        """Return the versions in which rows had a key of these columns; None: all."""
        shapes = self.table.shapes
        if not keyed_otherwise(shapes, self.relation_ids):
            return None
        return [v.id for v in shapes.versions.values() if key.keys() == {*v.key_columns}]

    def _truncations(self, events: Sequence[RowEvent]) -> Mapping[int, Sequence[Cut]]:
        found: dict[int, list[Cut]] = {}
        for each in self.breaks(events).truncations if events else ():
            number = self.numbers.get(each.incarnation_id)
            if number is not None:
                found.setdefault(each.relation_id, []).append(
                    ((number, *each.place), each.commit_time)
                )
        return {each: sorted(cuts, key=lambda cut: cut[0]) for each, cuts in found.items()}

    def truncation(self, at: At) -> TableTruncation:
        """Return the truncation at a place."""
        return next(
            each
            for each in self.breaks(()).truncations
            if (self.numbers.get(each.incarnation_id), *each.place) == at
        )

    def replay(self, breaks: Breaks) -> Replay:
        """Return a replay of a row of this table, with nothing known yet."""
        return Replay(self.table.shapes, breaks, self.incarnations)

    def breaks(self, events: Sequence[RowEvent]) -> Breaks:
        """Return the table's breaks between these changes and after them.

        Where every row has a key, all breaks are read once, as only truncations have no key.
        Otherwise they are read as far back as these changes reach, and again where others reach
        further.
        """
        is_keyed = all(version.key_columns for version in self.table.shapes.versions.values())
        low = 0 if is_keyed else min((event.lsn for event in events), default=0)
        if self._breaks is None or low < self._breaks_low:
            ids = {each.id for each in self.incarnations}
            tables = self.table.relation_ids
            breaks = read_breaks(self.session, tables, ids, low, OPEN_END)
            others = read_other_keys(self.session, self.table.shapes, tables, ids)
            names = {name for _, key in self.keys for name in key}
            self._breaks = others.added_to(breaks, names)
            self._breaks_low = low
        return self._breaks

    @property
    def is_keyless(self) -> bool:
        """Return whether the table had changes without this row's key, which may be of any row.

        Its rows then had no key, or another one than this row is looked up by.
        """
        return bool(self.breaks(()).keyless)

    def steps(self, events: Iterable[RowEvent]) -> list[RowStep]:
        """Return the changes with their values (long ones cut), oldest first."""
        named = {event.name: event for event in events}
        return [
            step
            for step in self.steps_named(list(named))
            if self._is_under(step, named[step.transaction_id, step.seq])
        ]

    def _is_under(self, step: RowStep, event: RowEvent) -> bool:
        """Return whether the change has the key, since another key can have the same hash."""
        version = self.table.shapes.versions.get(step.version_id)
        values = self.table.shapes.key_after(step)
        if event.keys is not None or version is None or values is None:
            return True
        return is_same_key(event.key, dict(zip(version.key_columns, values, strict=True)))

    def steps_named(self, names: Sequence[tuple[int, int]]) -> list[RowStep]:
        """Read steps by transaction and seq, in the order of history."""
        if not names:
            return []
        ids, seqs = (array_text(name[part] for name in names) for part in (0, 1))
        found = self.session.prepared_rows(_STEPS, [ids, seqs])
        steps = [step_of(row, self.session.visibility) for row in found]
        return sorted(steps, key=self.at)

    def _tell(self, periods: Sequence[RowPeriod], event: RowEvent) -> RowPeriod | None:
        """Return which of the rows under one key a change is of."""
        names = [event.name, *(period.events[-1].name for period in periods)]
        steps = {(step.transaction_id, step.seq): step for step in self.steps_named(names)}
        change = steps.get(event.name)
        if change is None or change.old_kind != "O":
            return periods[-1]
        # A value from before an ALTER TABLE says nothing about the row after it.
        lasts = [steps.get(name) for name in names[1:]]
        outliving = self.table.shapes.outliving
        values = [{} if last is None else outliving(last.after, last, change) for last in lasts]
        unsure = [self._may_have_changed(last, change) for last in lasts]
        return period_of_old_row(periods, change, values, unsure=unsure)

    def _may_have_changed(self, last: RowStep | None, change: RowStep) -> bool:
        """Return whether a row may have changed unseen between its last change and another one."""
        if last is None or last.incarnation_id != change.incarnation_id:
            return True
        between = last.relation_id, last.incarnation_id, last.place, change.place
        return bool(self.breaks(()).unseen_between(*between, exists=True))

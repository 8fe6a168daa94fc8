"""Replay a row's changes in order: the row before and after each, as far as the record tells.

No value is carried across a hole in the record, a truncation, or a transaction that was left out,
nor is the value of a column that was replaced by another in between.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from replview.store.read.row_history.breaks import Breaks
from replview.store.read.row_history.shapes import Shapes
from replview.store.read.row_history.sought_row import IncarnationFacts
from replview.store.read.rows import OPEN_END, RowPosition, RowStep

#: Places before and after every place of an incarnation.
FIRST: RowPosition = (-1, 0, 0, 0)
LAST: RowPosition = (OPEN_END, 1, OPEN_END, 1 << 31)


@dataclass(frozen=True, slots=True)
class KnownRow:
    """A row at one moment; ``exists`` None: unknown."""

    exists: bool | None = None
    #: The known values; an absent column is unknown.
    values: Mapping[str, Any] = field(default_factory=dict)
    #: The row's last change.
    last: RowStep | None = None
    #: Why the row does not exist, or is unknown: ``deleted``, ``truncated``, ``gap``, ``left out``,
    #: ``keyless``, ``limited``, ``unpublished`` (for a time), ``table``, or empty where no earlier
    #: change is recorded.
    why: str = ""
    #: Columns that are unknown because ALTER TABLE changed them since.
    altered: frozenset[str] = frozenset()


NOTHING = KnownRow()

#: The change that has a value: transaction, seq, and side (``old`` or ``new``).
ValueOrigin = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class BeforeImage:
    """A row as it was before a change, as far as the record tells; absent columns are unknown."""

    image: dict[str, Any]
    #: The last change before.
    transaction_id: int
    seq: int
    xid: int | None
    commit_time: dt.datetime | None
    op: str
    #: Columns that are unknown because they were changed by ALTER TABLE or by the change itself.
    altered: frozenset[str] = frozenset()
    #: The origins of values, by column.
    origins: Mapping[str, ValueOrigin] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        values: Mapping[str, Any],
        last: RowStep,
        altered: frozenset[str],
        origins: Mapping[str, ValueOrigin] | None = None,
    ) -> Self:
        """Return the image of these values that the change ``last`` left."""
        return cls(
            dict(values), last.transaction_id, last.seq, last.xid, last.commit_time, last.op,
            altered, origins or {},
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One change of a row, with the row before and after it."""

    step: RowStep
    before: KnownRow
    after: KnownRow
    #: The source of ``before``: ``sent``, ``derived``, ``key``, ``unknown``; empty: no row before.
    before_kind: str
    key_before: tuple[Any, ...] | None
    key_after: tuple[Any, ...] | None


class Replay:
    """One row, while its changes are applied in order."""

    def __init__(
        self, shapes: Shapes, breaks: Breaks, incarnations: Iterable[IncarnationFacts] = ()
    ) -> None:
        """Begin with nothing known; ``incarnations`` are needed if changes are of several."""
        self.shapes = shapes
        self._breaks = breaks
        self._incarnations = {each.id: each for each in incarnations}
        #: The row after the change applied last.
        self.known = NOTHING

    def apply_all(self, steps: Iterable[RowStep]) -> list[HistoryEntry]:
        """Apply changes, oldest first."""
        return [self.apply(step) for step in steps]

    def apply(self, step: RowStep) -> HistoryEntry:
        """Apply one more change; return the row before and after it."""
        kind, before = self.advance(step)
        key_before, key_after = self.shapes.key_before(step), self.shapes.key_after(step)
        return HistoryEntry(step, before, self.known, kind, key_before, key_after)

    def advance(self, step: RowStep) -> tuple[str, KnownRow]:
        """Apply one more change; return what ``before`` returns."""
        kind, before = self.before(step)
        if step.op in ("I", "S"):
            self.known = KnownRow(True, step.new or {}, step)
        elif step.op == "D":
            self.known = KnownRow(False, last=step, why="deleted")
        else:
            names = self.shapes.column_names(step.version_id)
            values = {name: value for name, value in before.values.items() if name in names}
            values |= step.after
            self.known = KnownRow(True, values, step, altered=before.altered - values.keys())
        return kind, before

    def before(self, step: RowStep) -> tuple[str, KnownRow]:
        """Return the row before the next change, and its source, as in ``HistoryEntry``."""
        found, sent = self.carried(self.known, step), step.old or {}
        if step.op in ("I", "S"):
            return "", KnownRow(exists=False) if step.op == "I" else found
        if step.old_kind == "O":
            return "sent", KnownRow(True, sent, found.last)
        # A row that does not exist cannot be changed, so the known state is not whole.
        version = self.shapes.versions.get(step.version_id)
        if found.exists and version is not None:
            key = self.shapes.key_before(step)
            values = {**found.values, **dict(zip(version.key_columns, key or (), strict=False))}
            values |= sent
            altered = found.altered & self.shapes.column_names(version.id) - values.keys()
            return "derived", KnownRow(True, values, found.last, altered=altered)
        return ("key" if sent else "unknown"), KnownRow(True, sent, found.last, found.why)

    def carried(self, known: KnownRow, step: RowStep) -> KnownRow:
        """Return what is still known of a row when its next change comes."""
        last = known.last
        if last is None:
            return known
        if last.relation_id != step.relation_id:
            return KnownRow(None, last=last, why="table")
        known = self.until(known, step.incarnation_id, step.place)
        if not known.exists:
            return known
        altered = self.shapes.altered(last, step)
        if altered is None:
            return KnownRow(True, {}, last, altered=known.altered)
        if not altered:
            return known
        values = {name: value for name, value in known.values.items() if name not in altered}
        return KnownRow(True, values, last, altered=known.altered | altered)

    def until(self, known: KnownRow, incarnation_id: int, place: RowPosition) -> KnownRow:
        """Return what is still known of a row at a place after its last change."""
        last = known.last
        if last is None:
            return known
        spans = [(incarnation_id, last.place, place)]
        if last.incarnation_id != incarnation_id:
            if not self._is_seamless(last.incarnation_id, incarnation_id):
                return KnownRow(None, last=last, why="gap")
            spans = [(last.incarnation_id, last.place, LAST), (incarnation_id, FIRST, place)]
        for incarnation, after, before in spans:
            table = last.relation_id
            unseen = self._breaks.unseen_between
            if why := unseen(table, incarnation, after, before, exists=known.exists):
                return KnownRow(None, last=last, why=why)
            if known.exists and self._breaks.truncated(table, incarnation, after, before):
                return KnownRow(False, last=last, why="truncated")
        return known

    def _is_seamless(self, from_id: int, to_id: int) -> bool:
        """Return whether no change is missing from one incarnation of the slot to a later one."""
        first, last = self._incarnations.get(from_id), self._incarnations.get(to_id)
        if first is None or last is None:
            return False
        between = range(first.number + 1, last.number + 1)
        return all(each.seamless for each in self._incarnations.values() if each.number in between)

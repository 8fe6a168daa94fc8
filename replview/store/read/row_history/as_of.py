"""Find one row as of a moment: its values, and for unknown values the reason."""

import datetime as dt
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from decoder.scalars import LSN
from replview.store.read.coverage import STALE_AFTER, Coverage
from replview.store.read.days import is_deleted
from replview.store.read.row_history.breaks import Breaks
from replview.store.read.row_history.events import RowEvent, RowPeriod, read_all
from replview.store.read.row_history.finding import RowFinder, TracedRow
from replview.store.read.row_history.history import LOOK_BACK
from replview.store.read.row_history.keys import table_of
from replview.store.read.row_history.replay import FIRST, LAST, KnownRow
from replview.store.read.row_history.shapes import Version
from replview.store.read.row_history.sought_row import END, At, IncarnationFacts
from replview.store.read.rows import OPEN_END, QueriedSlot, RowPosition, RowStep
from replview.store.read.seen import CUT_COLUMNS, step_of
from replview.store.read.session import ReadSession
from replview.store.read.transactions.neighbours import is_touched_at, versions_around


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment in history: a place, or the time by which transactions had committed."""

    before: At = END
    time: dt.datetime | None = None
    incarnation: IncarnationFacts | None = None
    lsn: int | None = None
    #: The table's shape at the moment, where the moment is that of a change.
    version_id: int | None = None

    @property
    def place(self) -> dt.datetime | LSN | None:
        """Return the time or LSN; None: the moment is that of a change, or now."""
        return self.time if self.lsn is None else LSN(self.lsn)

    def covers(self, event: RowEvent) -> bool:
        """Return whether the change had taken effect by then."""
        if event.at >= self.before:
            return False
        return self.time is None or event.commit_time is None or event.commit_time <= self.time

    def parted(self, events: Sequence[RowEvent]) -> tuple[Sequence[RowEvent], RowEvent | None]:
        """Return the row's changes that the moment covers, and the first that it does not."""
        if self.time is not None:
            read_all(events)
            past = [event for event in events if self.covers(event)]
            return past, next((event for event in events if not self.covers(event)), None)
        end = len(events)
        if self.before != END:
            end = bisect_left(events, self.before, key=lambda event: event.at)
        return events[:end], next(iter(events[end:]), None)

    def has_ended(self, period: RowPeriod) -> bool:
        """Return whether the row no longer had the key at the moment."""
        if period.ended_at is not None:
            late = self.time and period.ended_time and period.ended_time > self.time
            return period.ended_at < self.before and not late
        return period.ended not in ("", "table") and self.covers(period.events[-1])


def moment_of(
    finder: RowFinder, moment: dt.datetime | None, lsn: int | None, before: tuple[int, int] | None
) -> Moment:
    """Return the moment of a time, an LSN or a change (``before``); without any of them, now."""
    if before is not None:
        return _before_change(finder, before)
    if lsn is not None:
        incarnation = next((e for e in finder.incarnations if (e.started_lsn or 0) <= lsn), None)
        number = incarnation.number if incarnation else 0
        return Moment((number, lsn, 2, 0, 0), None, incarnation, lsn)
    if moment is not None:
        incarnation = next((e for e in finder.incarnations if e.started_at <= moment), None)
        number = incarnation.number if incarnation else 0
        return Moment((number, OPEN_END, 2, 0, 0), moment, incarnation)
    return Moment(incarnation=finder.incarnations[0] if finder.incarnations else None)


def _before_change(finder: RowFinder, before: tuple[int, int]) -> Moment:
    sql = f"""
        SELECT {CUT_COLUMNS} FROM change c JOIN transaction t ON t.id = c.transaction_id
        WHERE c.transaction_id = %s AND c.seq = %s
    """  # noqa: S608
    found = [
        step_of(row, finder.session.visibility)
        for row in finder.session.prepared_rows(sql, list(before))
    ]
    by_id = {each.id: each for each in finder.incarnations}
    if not found or found[0].incarnation_id not in by_id:
        raise LookupError(f"there is no change {before[1]} in transaction {before[0]}")
    step = found[0]
    return Moment(finder.at(step), None, by_id[step.incarnation_id], version_id=step.version_id)


def position_of(text: str) -> int:
    """Return the number of an LSN as PostgreSQL writes it."""
    return int(LSN.parse(text))


@dataclass(frozen=True, slots=True)
class RowState:
    """A row at one moment."""

    #: True when the row existed; None: the record cannot tell.
    exists: bool | None
    #: Why the row does not exist or is unknown: ``deleted``, ``truncated``, ``not created``,
    #: ``before the record``, ``gap``, ``left out``, ``unpublished``, ``table``, ``lost``,
    #: ``limited`` (not all its changes were read), ``no change``.
    why: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    #: Why a column's value is unknown: ``not sent``, ``key alone``, or ``why`` of the row.
    unknown: Mapping[str, str] = field(default_factory=dict)
    #: The shape at the moment; None: unknown.
    version: Version | None = None
    #: The last change before the moment, and the next one after it.
    last: RowStep | None = None
    next: RowStep | None = None
    #: The row's key at the moment.
    key: tuple[Any, ...] | None = None
    #: Why the state is of an earlier time than the moment: ``not stored`` (yet), ``gap``; empty:
    #: the state is of the moment.
    beyond: str = ""
    #: The time from which on nothing is known, where ``beyond`` is set; None: unknown.
    unknown_since: dt.datetime | None = None


def bounded(
    state: RowState,
    coverage: Coverage,
    *,
    moment: dt.datetime | None = None,
    lsn: int | None = None,
    now: dt.datetime | None = None,
) -> RowState:
    """Mark the state as of an earlier time where the record does not cover the moment or LSN.

    Without moment and LSN the state is of ``now``. The record does not cover what is not stored
    yet, or lies in a gap.
    """
    if lsn is not None:
        checkpoint = coverage.slot.checkpoint_lsn
        gaps = [g for g in coverage.gaps if g.from_lsn and g.to_lsn
                and position_of(g.from_lsn) < lsn < position_of(g.to_lsn)]  # fmt: skip
        is_stored = checkpoint is not None and lsn <= int(checkpoint)
    else:
        at = moment or now or dt.datetime.now(dt.UTC)
        gaps = [gap for gap in coverage.gaps if gap.overlaps(at, at) and at != gap.to_time]
        end = coverage.stored_until
        limit = at if moment is not None else at - STALE_AFTER
        is_stored = end is not None and limit <= end
    if gaps:
        return replace(state, beyond="gap", unknown_since=gaps[0].from_time)
    if not is_stored and state.why != "before the record":
        return replace(state, beyond="not stored", unknown_since=coverage.stored_until)
    return state


def row_as_of(
    session: ReadSession,
    slot: QueriedSlot,
    relation_id: int,
    key: Mapping[str, str | None],
    *,
    moment: dt.datetime | None = None,
    lsn: int | None = None,
    before: tuple[int, int] | None = None,
    finder: RowFinder | None = None,
    row: TracedRow | None = None,
) -> RowState:
    """Return a row after all that had committed by ``moment`` or LSN, or just before a change.

    An ``lsn`` is of the slot's last incarnation that began by then; ``before`` is a change
    ``(transaction_id, seq)``; without any of them the row is as of all that is stored.

    ``row``: the row. Without it, the row that had the key then; where none had, the row that got it
    next, if it existed under another key, or the row that had it last before.

    Raises ``LookupError`` where the slot has no such table or change.
    """
    if finder is None:
        table = table_of(session, slot, relation_id)
        if table is None:
            raise LookupError(f"relation {relation_id} is not of slot {slot}")
        finder = RowFinder(session, slot, table, table.recorded(session, key))
    at = moment_of(finder, moment, lsn, before)
    if at.incarnation is None or is_deleted(
        at.incarnation.deleted, at.time, at.lsn, at.incarnation.id
    ):
        return RowState(None, "before the record")
    return _of_key(finder, at) if row is None else _StateComputation(finder, at, row).read()


def _of_key(finder: RowFinder, at: Moment) -> RowState:
    """Return the state of the row that a key alone identifies."""
    if finder.limited and not any(at.covers(period.events[0]) for period in finder.periods):
        # The changes that tell which row had the key then were not read.
        return RowState(None, "limited")
    rows = [finder.follow(period) for period in _meant(finder, at)] or [TracedRow()]
    states = [_StateComputation(finder, at, row).read() for row in rows]
    found = next((state for state in states if state.exists), states[0])
    if found.why == "not created" and found.next and at.place and len(finder.relation_ids) > 1:
        assert at.incarnation is not None
        of_table = at.incarnation.id, found.next.relation_id, at.place
        if versions_around(finder.session, finder.slot, *of_table)[0] is None:
            # Another table had the name then, and may have had such a row.
            return RowState(None, "no change", next=found.next)
    return found


def _meant(finder: RowFinder, moment: Moment) -> Iterator[RowPeriod]:
    """Yield the periods of the key that may be meant at a moment, the likeliest first."""
    begun = [period for period in finder.periods if moment.covers(period.events[0])]
    later = [period for period in finder.periods if not moment.covers(period.events[0])]
    if len({period.relation_id for period in begun}) > 1:
        begun = [
            period for period in begun if _had_name(finder, moment, period.relation_id)
        ] or begun
    there = next((period for period in begun if not moment.has_ended(period)), None)
    if there is not None and (there.ended != "table" or there.relation_id == begun[0].relation_id):
        yield there
        return
    if later:
        yield later[-1]
    if begun:
        yield begun[0]


def _had_name(finder: RowFinder, moment: Moment, relation_id: int) -> bool:
    """Return whether a table had its present name at the moment, as far as its changes tell."""
    relation, versions = finder.table.relation, finder.table.shapes.versions
    if version := versions.get(moment.version_id or 0):
        return version.relation_id == relation_id
    mine = (v for v in versions.values() if v.relation_id == relation_id)
    others = {v.id for v in mine if (v.schema, v.table) != (relation.schema, relation.table)}
    if not others or moment.place is None or moment.incarnation is None:
        return True
    incarnation = moment.incarnation.id
    found = versions_around(finder.session, finder.slot, incarnation, relation_id, moment.place)
    return (found[0] or found[1]) not in others


class _StateComputation:
    """The computation of one state."""

    def __init__(self, finder: RowFinder, moment: Moment, row: TracedRow) -> None:
        self._finder = finder
        self._moment = moment
        self._row = row
        self._shapes = finder.table.shapes
        #: The breaks between the moment and the next change, and after that.
        self._later = Breaks()

    def read(self) -> RowState:
        """Return the state, from the changes before the moment and the one after it."""
        moment, finder = self._moment, self._finder
        assert moment.incarnation is not None
        past, next_event = moment.parted(self._row.events)
        breaks = self._later = finder.breaks(past[-LOOK_BACK * 2 :])
        if moment.time is not None:
            self._later = breaks.committed_by(moment.time, after=True)
            breaks = breaks.committed_by(moment.time)
        replay = finder.replay(breaks)
        entries = replay.apply_all(finder.steps(past[-LOOK_BACK * 2 :]))
        here: RowPosition = LAST if moment.before == END else moment.before[1:]
        known = replay.known
        if (self._row.limited and not past) or (self._row.cut and next_event is None):
            # A change that was not read may have changed the row.
            return RowState(None, "limited", last=known.last)
        if past and self._row.ended == "lost" and next_event is None:
            known = KnownRow(None, last=known.last, why="lost")
        elif known.last is not None:
            known = replay.until(known, moment.incarnation.id, here)
            if known.exists and next_event is None and self._is_gone(past[-1]):
                known = KnownRow(None, last=known.last, why="table")
        following = None
        if next_event is not None and next_event.incarnation_id == moment.incarnation.id:
            following = next(iter(finder.steps([next_event])), None)
        key = entries[-1].key_after if entries else None
        if key is None and following is not None:
            key = self._shapes.key_before(following)
        return self._state(key, known, following)

    def _is_gone(self, event: RowEvent) -> bool:
        """Return whether another table may have had the name: no change of this one is as late."""
        if self._row.ended != "table":
            return False
        moment, finder, at = self._moment, self._finder, self._moment.place
        if version := self._shapes.versions.get(moment.version_id or 0):
            return version.relation_id != event.relation_id
        if at is None or moment.incarnation is None:
            return True
        where = finder.session, finder.slot, moment.incarnation.id
        table = event.relation_id
        if versions_around(*where, table, at)[1] is not None:
            return False
        # The transaction at the moment may have changed this table, dropped it, and made another.
        others = [relation_id for relation_id in finder.relation_ids if relation_id != table]
        return not is_touched_at(*where, [table], at) or is_touched_at(*where, others, at)

    def _state(
        self, key: tuple[Any, ...] | None, known: KnownRow, following: RowStep | None
    ) -> RowState:
        exists, why = known.exists, known.why
        fresh = known.last is None or exists is None
        if following is not None and fresh:
            exists, why = self._from_next(following, why)
        if exists is None and known.last is None:
            # The table's name at the moment is unknown, too.
            key, why = None, why or "no change"
        elif exists is None and not why:
            why = "no change"
        version, values, unknown = self._as_then(known, following if exists else None, why)
        return RowState(
            exists=exists,
            why=why,
            values=values if exists else {},
            unknown=unknown if exists else {},
            version=version,
            last=known.last,
            next=following,
            key=key,
        )

    def _from_next(self, following: RowStep, why: str) -> tuple[bool | None, str]:
        """Return existence and reason from the next change, where no earlier change is known."""
        if why in ("left out", "keyless", "limited", "unpublished"):
            return None, why
        at = self._moment
        here = FIRST if at.time is not None else at.before[1:]
        there = following.incarnation_id, here, following.place
        if unseen := self._later.unseen_between(following.relation_id, *there):
            return None, unseen
        if self._later.truncated(following.relation_id, *there):
            # Another row may have had the key until the truncation, which names no key.
            return None, "no change"
        if following.op == "I":
            return False, "not created"
        return True, why

    def _sent_by(self, following: RowStep) -> dict[str, object]:
        """Return the old row's values that the next change sent, or implies for the key."""
        sent = following.old or {}
        if following.old_kind == "K" or not sent:
            version = self._shapes.versions.get(following.version_id)
            names = version.key_columns if version else []
            sent = {n: (following.new or {})[n] for n in names if n in (following.new or {})} | sent
        return sent

    def _as_then(
        self, known: KnownRow, following: RowStep | None, why: str
    ) -> tuple[Version | None, dict[str, Any], dict[str, str]]:
        """Return the table's shape at the moment, the known values, and reasons for others."""
        last, versions = known.last, self._shapes.versions
        told = last or following
        if told is None or told.version_id not in versions:
            return None, dict(known.values), {}
        mine = {v.id: v.number for v in versions.values() if v.relation_id == told.relation_id}
        before, after = self._around(mine, last)
        version = versions[before or after]
        # Without a change of the table by then its columns are unknown, except the key's, by which
        # the row was followed.
        columns, keys = version.kinds(), {*version.key_columns}
        between = self._shapes.altered_between
        names = dict.fromkeys([*columns, *versions[after].kinds()])
        around = between(version.id, after) if before else names.keys() - keys
        sides = [] if last is None else [(known.values, last.version_id, version.id)]
        if following is not None and following.op in ("U", "D") and following.version_id in mine:
            sides.insert(0, (self._sent_by(following), after, following.version_id))
        found, altered = dict[str, Any](), known.altered | around
        for values, one, other in sides:
            lost = (around | between(one, other)) - keys
            found |= {n: v for n, v in values.items() if n in columns and n not in lost}
            altered |= lost
        unsent = "not sent" if last is not None else "no earlier change"
        reasons = {name: why or ("altered" if name in altered else unsent) for name in names}
        return version, found, {n: reason for n, reason in reasons.items() if n not in found}

    def _around(self, mine: dict[int, int], last: RowStep | None) -> tuple[int | None, int]:
        """Return the table's versions at its last change by the moment and at the next change.

        ``mine``: the table's versions with their numbers. The first is None where it was not found.
        """
        moment, finder = self._moment, self._finder
        current = finder.table.relation.current_version_id
        latest = current if current and current in mine else max(mine, key=lambda each: mine[each])
        place = moment.place
        if place is None or moment.incarnation is None or (last is not None and len(mine) == 1):
            version = moment.version_id or latest
            return (version, version) if version in mine else (latest, latest)
        table, incarnation = self._shapes.versions[latest].relation_id, moment.incarnation.id
        found = versions_around(finder.session, finder.slot, incarnation, table, place)
        before, after = (each if each in mine else None for each in found)
        return before or (last.version_id if last else None), after or latest

"""One row as of a moment: what it held, what of that is known and why the rest is not."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from decoder.scalars import LSN
from replview.store.read.days import is_deleted
from replview.store.read.row_history.backward_scan import BackwardScan
from replview.store.read.row_history.history import LOOK_BACK
from replview.store.read.row_history.keys import table_of
from replview.store.read.row_history.replay import LAST, NOTHING, Known, Replay
from replview.store.read.row_history.shapes import Version
from replview.store.read.row_history.sought_row import END, At, IncarnationFacts
from replview.store.read.rows import NOT_ABORTED, OPEN_END, Place, Slot, Step, signed_hash
from replview.store.read.seen import CUT_COLUMNS, step_of
from replview.store.read.session import ReadSession


@dataclass(frozen=True, slots=True)
class Moment:
    """Where in history: a place, or whatever had committed by a time."""

    before: At = END
    raw: tuple[int, int] | None = None
    time: dt.datetime | None = None
    incarnation: IncarnationFacts | None = None
    #: For what comes next: committed after this position.
    lsn: int | None = None


def moment_of(
    scan: BackwardScan, moment: dt.datetime | None, lsn: int | None, before: tuple[int, int] | None
) -> Moment:
    if before is not None:
        return _before_change(scan, before)
    if lsn is not None:
        incarnation = next((e for e in scan.incarnations if (e.started_lsn or 0) <= lsn), None)
        number = incarnation.number if incarnation else 0
        return Moment((number, lsn, 2, 0, 0), (min(lsn + 1, OPEN_END), 0), None, incarnation, lsn)
    if moment is not None:
        incarnation = next((e for e in scan.incarnations if e.started_at <= moment), None)
        raw = _position_at(scan.session, incarnation, moment) if incarnation else None
        number = incarnation.number if incarnation else 0
        return Moment((number, OPEN_END, 2, 0, 0), raw, moment, incarnation)
    return Moment(incarnation=scan.incarnations[0] if scan.incarnations else None)


def _position_at(
    session: ReadSession, incarnation: IncarnationFacts, moment: dt.datetime
) -> tuple[int, int] | None:
    """An LSN that nothing had reached that had committed by then, where the record's sums tell."""
    sql = """
        SELECT (max(last_lsn) FILTER (WHERE first_time <= %(moment)s) - '0/0')::bigint,
               bool_or(first_time > %(moment)s)
        FROM history_block WHERE incarnation_id = %(incarnation)s
    """
    values = {"moment": moment, "incarnation": incarnation.id}
    last_lsn, is_summed = session.prepared_rows(sql, values)[0]
    return (last_lsn + 1, 0) if is_summed and last_lsn is not None else None


def _before_change(scan: BackwardScan, before: tuple[int, int]) -> Moment:
    sql = f"""
        SELECT {CUT_COLUMNS} FROM change c JOIN transaction t ON t.id = c.transaction_id
        WHERE c.transaction_id = %s AND c.seq = %s
    """  # noqa: S608
    found = [
        step_of(row, scan.session.visibility)
        for row in scan.session.prepared_rows(sql, list(before))
    ]
    by_id = {each.id: each for each in scan.incarnations}
    if not found or found[0].incarnation_id not in by_id:
        raise LookupError(f"there is no change {before[1]} in transaction {before[0]}")
    step = found[0]
    raw = (step.lsn, step.seq) if step.op != "S" else (step.place[0], 0)
    return Moment(scan.at(step), raw, None, by_id[step.incarnation_id])


def position_of(text: str) -> int:
    """The number of an LSN as PostgreSQL writes it."""
    return int(LSN.parse(text))


#: How many keys back a row is followed that is known by another key later.
_FORMER_KEYS = 5

_NEXT = f"""
    SELECT w.number, p.* FROM unnest(%(number)s::int[], %(relation)s::bigint[],
        %(hash)s::bigint[]) AS w (number, relation_id, key_hash)
    CROSS JOIN LATERAL (
        SELECT {CUT_COLUMNS}
        FROM change c JOIN transaction t ON t.id = c.transaction_id
        WHERE c.relation_id = w.relation_id AND c.key_hash = w.key_hash
          AND (c.lsn, c.seq) > (%(lsn)s::pg_lsn, %(seq)s) AND c.op <> 'S'
          AND t.incarnation_id = %(incarnation)s AND t.state = 'committed'
          AND (%(since)s::timestamptz IS NULL OR t.commit_time > %(since)s::timestamptz)
          AND (%(after)s::pg_lsn IS NULL OR t.commit_lsn > %(after)s::pg_lsn)
          AND {NOT_ABORTED}
        ORDER BY c.lsn, c.seq LIMIT 1
    ) p
"""  # noqa: S608 (nothing but the store's own columns)


@dataclass(frozen=True, slots=True)
class RowState:
    """A row at one moment."""

    #: Whether it existed; None: the record cannot tell.
    exists: bool | None
    #: Why it does not exist or cannot be told: ``deleted``, ``truncated``, ``not created``,
    #: ``before the record``, ``gap``, ``left out``, ``unpublished``, ``table``, ``no change``.
    why: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    #: Why a column's value is unknown: ``not sent``, ``key alone``, or ``why`` of the row.
    unknown: Mapping[str, str] = field(default_factory=dict)
    #: The shape of that moment; None: not known.
    version: Version | None = None
    #: The change that left it so, and the one that comes next.
    last: Step | None = None
    next: Step | None = None
    #: Its key then.
    key: tuple[Any, ...] | None = None


def row_as_of(
    session: ReadSession,
    slot: Slot,
    relation_id: int,
    key: Mapping[str, str | None],
    *,
    moment: dt.datetime | None = None,
    lsn: int | None = None,
    before: tuple[int, int] | None = None,
    scan: BackwardScan | None = None,
) -> RowState:
    """The row after all that had committed by ``moment``, or at or before ``lsn`` (in the slot's
    last incarnation that began by then), or just before the change ``(transaction_id, seq)``; else
    now.

    Raises ``LookupError`` where the slot has no such table or change.
    """
    if scan is None:
        table = table_of(session, slot, relation_id)
        if table is None:
            raise LookupError(f"relation {relation_id} is not of slot {slot}")
        scan = BackwardScan(session, slot, table, table.hashes(key))
    return _State(scan, moment_of(scan, moment, lsn, before)).read()


class _State:
    """Works out one state."""

    def __init__(self, scan: BackwardScan, moment: Moment) -> None:
        self._scan = scan
        self._moment = moment
        self._shapes = scan.table.shapes
        self._unpublished = False
        self._base = [key for _, key in scan.keys]

    def read(self) -> RowState:
        """The state, from the changes before the moment and the one after it."""
        moment, scan = self._moment, self._scan
        if moment.incarnation is None:
            return RowState(None, "before the record")
        if is_deleted(moment.incarnation.deleted, moment.time, moment.lsn, moment.incarnation.id):
            return RowState(None, "before the record")
        if moment.before == END and scan.newest is not None:
            steps = scan.newest
        else:
            found = scan.back(moment.before, moment.raw, until=moment.time, limit=LOOK_BACK + 1)
            steps = list(islice(found, LOOK_BACK * 2))
        breaks = scan.breaks(steps)
        if moment.time is not None:
            breaks = breaks.committed_by(moment.time)
        self._unpublished = bool(breaks.unpublished)
        replay = Replay(scan, breaks)
        replay.apply_all(reversed(steps))
        here: Place = LAST if moment.before == END else moment.before[1:]
        states = {
            key: replay.until(known, moment.incarnation.id, here) if known.last else known
            for key, known in replay.rows.items()
        }
        key, known, following = self._subject(states)
        return self._state(key, known, following)

    def _subject(
        self, states: Mapping[tuple[Any, ...], Known]
    ) -> tuple[tuple[Any, ...] | None, Known, Step | None]:
        """Which of the rows met on the way is meant: the one under the key then, else the one
        that comes under it next, else the one that left it.
        """
        base = [(key, states[key]) for key in self._base if key in states]
        for key, known in base:
            if known.exists:
                return key, known, self._next(key, known)
        if not self._base:
            return None, NOTHING, None
        key, known = base[0] if base else (self._base[0], NOTHING)
        following = self._next(key, known)
        for _ in range(_FORMER_KEYS):
            former = self._moved_from(following)
            if former is None:
                break
            key, known = former, states.get(former, NOTHING)
            following = self._next(key, known)
            if known.exists:
                return key, known, following
        if not base and following is None:
            others = [(k, v) for k, v in states.items() if v.exists and v.last is not None]
            if others:
                latest = max(others, key=lambda each: self._scan.at(each[1].last))  # type: ignore[arg-type]
                return latest[0], latest[1], None
        return key, known, following

    def _moved_from(self, following: Step | None) -> tuple[Any, ...] | None:
        """The key the row had before the change that gave it this one."""
        if following is None or following.old_key_hash is None:
            return None
        if following in (move for move, _ in self._scan.moves):
            return None
        return self._shapes.key_before(following)

    def _next(self, key: tuple[Any, ...], known: Known) -> Step | None:
        """The first change after the moment, in the same incarnation, of the row under the key."""
        moment, scan = self._moment, self._scan
        if moment.before == END or moment.incarnation is None:
            return None
        key_hash = signed_hash(key)
        last = known.last
        here = last is not None and last.incarnation_id == moment.incarnation.id
        at = (last.lsn, last.seq) if last is not None and here and last.op != "S" else (0, 0)
        if moment.raw is not None and moment.lsn is None and moment.time is None:
            # Just before a change: that change itself may be the next one.
            at = max(at, (moment.raw[0], moment.raw[1] - 1))
        relations = list(scan.table.relation_ids)
        wanted = {
            "number": list(range(len(relations))),
            "relation": relations,
            "hash": [key_hash] * len(relations),
            "incarnation": moment.incarnation.id,
            "lsn": str(LSN(at[0])),
            "seq": at[1],
            "since": moment.time,
            "after": None if moment.lsn is None else str(LSN(moment.lsn)),
        }
        found = [
            step_of(row[1:], self._scan.session.visibility)
            for row in self._scan.session.prepared_rows(_NEXT, wanted)
        ]
        found = [step for step in found if self._shapes.key_after(step) == key]
        # Moved away, it is found under its new key.
        found += [
            move
            for move, _ in scan.moves
            if move.incarnation_id == moment.incarnation.id
            and self._shapes.key_before(move) == key
            and (move.lsn, move.seq) > at
            and (moment.lsn is None or (move.commit_lsn or 0) > moment.lsn)
            and (moment.time is None or not move.commit_time or move.commit_time > moment.time)
        ]
        return min(found, key=lambda step: step.place, default=None)

    def _state(self, key: tuple[Any, ...] | None, known: Known, following: Step | None) -> RowState:
        exists, why, values = known.exists, known.why, dict(known.values)
        fresh = known.last is None or exists is None
        if following is not None and fresh:
            exists, why = self._from_next(following, why)
        if following is not None and exists and following.op in ("U", "D"):
            values = {**self._sent_by(following, known.last), **values}
        if exists is None and not why:
            why = "no change"
        version = self._version(known.last, following)
        return RowState(
            exists=exists,
            why=why,
            values=values if exists else {},
            unknown=self._unknown(version, values, known, why) if exists else {},
            version=version,
            last=known.last,
            next=following,
            key=key,
        )

    def _from_next(self, following: Step, why: str) -> tuple[bool | None, str]:
        """What the next change says of a row of which nothing is known before it."""
        if why == "left out" or self._unpublished:
            return None, why or "unpublished"
        if following.op == "I":
            return False, "not created"
        return True, why

    def _sent_by(self, following: Step, last: Step | None) -> dict[str, object]:
        """What the next change sent of the old row: so it must have been."""
        sent = following.old or {}
        if following.old_kind == "K" or not sent:
            version = self._shapes.versions.get(following.version_id)
            names = version.key_columns if version else []
            sent = {n: (following.new or {})[n] for n in names if n in (following.new or {})} | sent
        if last is not None and last.version_id != following.version_id:
            return {}
        return sent

    def _version(self, last: Step | None, following: Step | None) -> Version | None:
        step = last if last is not None else following
        return self._shapes.versions.get(step.version_id) if step is not None else None

    def _unknown(
        self, version: Version | None, values: Mapping[str, object], known: Known, why: str
    ) -> dict[str, str]:
        """Why each column without a value is unknown."""
        reason = why or ("not sent" if known.last is not None else "no earlier change")
        names = [column["name"] for column in version.columns] if version else []
        return {name: reason for name in names if name not in values}

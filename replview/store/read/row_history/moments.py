"""A moment in a slot's history: a place in it, or whatever had committed by a time."""

import datetime as dt
from dataclasses import dataclass

from decoder.scalars import LSN
from replview.store.read.row_history.backward_scan import BackwardScan
from replview.store.read.row_history.sought_row import END, At, IncarnationFacts
from replview.store.read.row_history.steps import CUT_COLUMNS, step_of
from replview.store.read.rows import OPEN_END
from replview.store.read.session import ReadSession


@dataclass(frozen=True, slots=True)
class Moment:
    """Where in history: a place, or whatever had committed by a time."""

    before: At = END
    raw: tuple[int, int] | None = None
    time: dt.datetime | None = None
    life: IncarnationFacts | None = None
    #: For what comes next: committed after this position.
    lsn: int | None = None


def moment_of(
    scan: BackwardScan, moment: dt.datetime | None, lsn: int | None, before: tuple[int, int] | None
) -> Moment:
    if before is not None:
        return _before_change(scan, before)
    if lsn is not None:
        life = next((e for e in scan.incarnations if (e.started_lsn or 0) <= lsn), None)
        number = life.number if life else 0
        return Moment((number, lsn, 2, 0, 0), (min(lsn + 1, OPEN_END), 0), None, life, lsn)
    if moment is not None:
        life = next((e for e in scan.incarnations if e.started_at <= moment), None)
        raw = _position_at(scan.session, life, moment) if life else None
        return Moment((life.number if life else 0, OPEN_END, 2, 0, 0), raw, moment, life)
    return Moment(life=scan.incarnations[0] if scan.incarnations else None)


def _position_at(
    session: ReadSession, life: IncarnationFacts, moment: dt.datetime
) -> tuple[int, int] | None:
    """An LSN that nothing had reached that had committed by then, where the record's sums tell."""
    sql = """
        SELECT (max(last_lsn) FILTER (WHERE first_time <= %(moment)s) - '0/0')::bigint,
               bool_or(first_time > %(moment)s)
        FROM history_block WHERE incarnation_id = %(life)s
    """
    last_lsn, is_summed = session.prepared_rows(sql, {"moment": moment, "life": life.id})[0]
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
    lives = {life.id: life for life in scan.incarnations}
    if not found or found[0].incarnation_id not in lives:
        raise LookupError(f"there is no change {before[1]} in transaction {before[0]}")
    step = found[0]
    raw = (step.lsn, step.seq) if step.op != "S" else (step.place[0], 0)
    return Moment(scan.at(step), raw, None, lives[step.incarnation_id])


def position_of(text: str) -> int:
    """The number of an LSN as PostgreSQL writes it."""
    return int(LSN.parse(text))

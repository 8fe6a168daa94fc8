"""Carrying out a plan of the stamp a table at a time, never holding up the application for long."""

import threading
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from replview.catalog.connections import connect
from replview.catalog.plan.carrying_out import Say, undo
from replview.catalog.plan.plan import Statement
from replview.catalog.plan.stamp_plan import StampPlan
from replview.catalog.problems import SourceProblem, explain, first_line

#: How long a table's writers may be held up by us waiting for its lock.
LOCK_TIMEOUT_MS = 2000
#: Between tries they get on.
TRIES, PAUSE_SECONDS = 5, 1.0


@dataclass(slots=True)
class Carried:
    """What was done, and the steps whose table was in use at every try."""

    done: list[Statement] = field(default_factory=list)
    left: list[Statement] = field(default_factory=list)


def carry_stamp(
    conninfo: str, plan: StampPlan, say: Say, *, taking_back: bool = True,
    lock_timeout_ms: int = LOCK_TIMEOUT_MS, stop: threading.Event | None = None,
) -> Carried:  # fmt: skip
    """Run the plan. A table in use is told and left out; any other failure takes all of it back.

    With every table left out, what was made before them is taken back too. What comes last is run
    only when no table is left. ``taking_back`` is off for removal, which goes on where it ended.
    """
    carried = Carried()
    stop = stop or threading.Event()
    try:
        for step in plan.statements:
            if step in plan.tables:
                _table(conninfo, step, carried, say, lock_timeout_ms, stop)
            elif not carried.left:
                _run(conninfo, step, lock_timeout_ms)
                carried.done.append(step)
    except BaseException as error:
        if taking_back:
            undo(conninfo, carried.done, say)
        if isinstance(error, psycopg.Error):
            raise _trouble(error, step, conninfo) from None
        raise
    if taking_back and plan.tables and len(carried.left) == len(plan.tables):
        undo(conninfo, carried.done, say)
        carried.done.clear()
    return carried


def _table(
    conninfo: str, step: Statement, carried: Carried, say: Say, lock_timeout_ms: int,
    stop: threading.Event,
) -> None:  # fmt: skip
    for attempt in range(1, TRIES + 1):
        try:
            _run(conninfo, step, lock_timeout_ms)
        except psycopg.errors.LockNotAvailable:
            more = f"try {attempt + 1} of {TRIES} follows" if attempt < TRIES else "left for later"
            say(f"{step.name} is in use: {more}")
            if attempt < TRIES and stop.wait(PAUSE_SECONDS):
                break
        else:
            say(f"done: {step.name}")
            carried.done.append(step)
            return
    carried.left.append(step)


def _run(conninfo: str, step: Statement, lock_timeout_ms: int) -> None:
    """One statement, in a transaction of its own that gives up waiting for locks soon."""
    with connect(conninfo, read_only=False) as connection, connection.transaction():
        bound = sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(lock_timeout_ms))
        connection.execute(bound)
        connection.execute(step.sql.encode())


def _trouble(error: psycopg.Error, step: Statement, conninfo: str) -> SourceProblem:
    if not error.sqlstate:
        return explain(error, conninfo)
    cause = f"{step.kind} {step.name}: {first_line(error)}"
    return SourceProblem("refused", cause, f"It needs {step.needs}")

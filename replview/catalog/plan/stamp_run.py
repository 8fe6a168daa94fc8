"""This module carries out a stamp plan table by table, with short waits for locks."""

import threading
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from replview.catalog.connections import connect
from replview.catalog.plan.carrying_out import Say, undo
from replview.catalog.plan.plan import Statement
from replview.catalog.plan.stamp_plan import StampPlan
from replview.catalog.problems import SourceProblem, explain, first_line

#: Milliseconds that we wait for the lock of a table, during which its writers wait too.
LOCK_TIMEOUT_MS = 2000
#: Tries for each table, and seconds between them in which waiting writers continue.
TRIES, PAUSE_SECONDS = 5, 1.0


@dataclass(slots=True)
class StampResult:
    """The statements that ran, and those whose table was in use at every try."""

    done: list[Statement] = field(default_factory=list)
    left: list[Statement] = field(default_factory=list)


def carry_stamp(
    conninfo: str, plan: StampPlan, say: Say, *, taking_back: bool = True,
    lock_timeout_ms: int = LOCK_TIMEOUT_MS, stop: threading.Event | None = None,
) -> StampResult:  # fmt: skip
    """Run the plan. Skips and reports a table that is in use; any other failure undoes everything.

    If every table was skipped, the preparation is undone too. The final statements run only when no
    table was skipped. ``taking_back`` is off for removal, which can be continued later.
    """
    carried = StampResult()
    stop = stop or threading.Event()
    try:
        for step in plan.statements:
            if step in plan.tables:
                _run_table_step(conninfo, step, carried, say, lock_timeout_ms, stop)
            elif not carried.left:
                _run(conninfo, step, lock_timeout_ms)
                carried.done.append(step)
    except BaseException as error:
        if taking_back:
            undo(conninfo, carried.done, say)
        if isinstance(error, psycopg.Error):
            raise _step_problem(error, step, conninfo) from None
        raise
    if taking_back and plan.tables and len(carried.left) == len(plan.tables):
        undo(conninfo, carried.done, say)
        carried.done.clear()
    return carried


def _run_table_step(
    conninfo: str, step: Statement, carried: StampResult, say: Say, lock_timeout_ms: int,
    stop: threading.Event,
) -> None:  # fmt: skip
    for attempt in range(1, TRIES + 1):
        try:
            _run(conninfo, step, lock_timeout_ms)
        except psycopg.errors.LockNotAvailable:
            retry = f"try {attempt + 1} of {TRIES} follows" if attempt < TRIES else "skipped"
            say(f"{step.name} is in use: {retry}")
            if attempt < TRIES and stop.wait(PAUSE_SECONDS):
                break
        else:
            say(f"done: {step.name}")
            carried.done.append(step)
            return
    carried.left.append(step)


def _run(conninfo: str, step: Statement, lock_timeout_ms: int) -> None:
    """Run one statement in its own transaction with a short lock timeout."""
    with connect(conninfo, read_only=False) as connection, connection.transaction():
        bound = sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(lock_timeout_ms))
        connection.execute(bound)
        connection.execute(step.sql.encode())


def _step_problem(error: psycopg.Error, step: Statement, conninfo: str) -> SourceProblem:
    if not error.sqlstate:
        return explain(error, conninfo)
    cause = f"{step.kind} {step.name}: {first_line(error)}"
    return SourceProblem("refused", cause, f"It needs {step.needs}")

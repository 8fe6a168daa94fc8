"""This module carries a plan out on its source; after an error nothing half-done stays behind."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
from psycopg import sql

from replview.catalog.connections import Connection, connect
from replview.catalog.holders import read_open_transactions
from replview.catalog.plan.plan import Plan, Statement
from replview.catalog.problems import SourceProblem, explain, first_line
from replview.text.formats import some_of

#: Seconds between two reports of what slot creation is waiting for.
PROGRESS_SECONDS = 2.0
_STOPPED = SourceProblem("stopped", "the command was stopped before it had finished", "Try again")
Say = Callable[[str], None]
#: Callback for the state of a step: ``running``, ``done``, ``failed``, ``taken back`` or ``left``.
OnStep = Callable[[Statement, str], None]


def carry_out(
    conninfo: str,
    plan: Plan,
    say: Say,
    *,
    stop: threading.Event | None = None,
    on_step: OnStep = lambda step, state: None,
) -> list[Statement]:
    """Run the statements of a plan in order, and return those that ran, for ``undo``.

    If a statement fails, or ``stop`` is set (or Ctrl-C pressed) while slot creation waits,
    everything that this run created is dropped, and ``SourceProblem`` is raised with the cause.
    """
    stop = stop or threading.Event()
    completed: list[Statement] = []
    begun: Statement | None = None
    try:
        for step in plan.statements:
            if stop.is_set():
                raise _STOPPED.anew()
            begun = step
            on_step(step, "running")
            _run(conninfo, step, say, stop)
            completed.append(step)
            begun = None
            on_step(step, "done")
    except BaseException as error:
        if begun is not None:
            on_step(begun, "failed")
        undo(conninfo, completed, say, on_step)
        if isinstance(error, psycopg.Error):
            refusal = _step_problem(error, step) if error.sqlstate else explain(error, conninfo)
            raise refusal.anew() from None
        raise
    return completed


def undo(
    conninfo: str, steps: list[Statement], say: Say, on_step: OnStep = lambda step, state: None
) -> None:
    """Undo statements, the last first.

    Reports each statement that could not be undone, so that the user can run it.
    """
    for step in reversed(steps):
        if not step.undo:
            # Undoing another step undoes this one.
            continue
        try:
            with connect(conninfo, read_only=False) as connection:
                connection.execute(step.undo.encode())
            say(f"undone with: {step.undo}")
            on_step(step, "taken back")
        except psycopg.Error:
            say(f"could not undo {step.kind} {step.name}; run this yourself: {step.undo}")
            on_step(step, "left")


def drop(conninfo: str, statements: list[sql.Composed]) -> None:
    """Run the statements that drop what replview created. Raises ``psycopg.Error``."""
    with connect(conninfo, read_only=False) as connection:
        for statement in statements:
            connection.execute(statement)


def waiting_for(conninfo: str) -> str:
    """Return a sentence on what the slot creation still waits for, and that it can be stopped."""
    try:
        with connect(conninfo) as connection:
            waiting = [str(transaction) for transaction in read_open_transactions(connection)]
    except psycopg.Error:
        waiting = []
    blockers = some_of(waiting, 5) if waiting else "open transactions"
    return f"creating the slot waits for: {blockers}. Stopping it leaves nothing on the source"


def _run(conninfo: str, step: Statement, say: Say, stop: threading.Event) -> None:
    # Slot creation waits for each open transaction on a lock, so it has no lock timeout.
    is_slot = step.kind == "slot"
    with connect(
        conninfo, read_only=False, statement_timeout_ms=0, wait_for_locks=is_slot
    ) as connection:
        if is_slot:
            _create_slot(conninfo, connection, step, say, stop)
        else:
            connection.execute(step.sql.encode())


def _create_slot(
    conninfo: str, connection: Connection, step: Statement, say: Say, stop: threading.Event
) -> None:
    """Create the slot in a thread, so that waiting can be reported and cancelled."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(connection.execute, step.sql.encode())
        try:
            _wait_for_slot(running, conninfo, say, stop)
        except BaseException:
            if not running.done():
                connection.cancel_safe(timeout=5)
            # exception() waits until the statement has ended, cancelled or not.
            if running.exception() is None:
                undo(conninfo, [step], say)
            raise
    running.result()


def _wait_for_slot(running: Future[Any], conninfo: str, say: Say, stop: threading.Event) -> None:
    spoke_at = time.monotonic()
    while not running.done():
        if stop.wait(0.05):
            raise _STOPPED.anew()
        if time.monotonic() - spoke_at >= PROGRESS_SECONDS:
            spoke_at = time.monotonic()
            say(waiting_for(conninfo))


def _step_problem(error: psycopg.Error, step: Statement) -> SourceProblem:
    code, cause = "failed", first_line(error)
    remedy = "Nothing is left on the source: try again"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        code, remedy = "missing_right", f"It needs {step.needs}"
    elif isinstance(error, psycopg.errors.LockNotAvailable):
        code, cause = "locked", "a table is locked by VACUUM or ALTER TABLE"
        remedy = "Try again when that command has ended; nothing is left on the source"
    return SourceProblem(code, f"creating {step.kind} {step.name} failed: {cause}", remedy)

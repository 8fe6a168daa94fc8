"""The workload: sessions that carry out their plans while servers come and go beneath them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.chaos.plans import COMMIT, PREPARE, Part, Plan, plans
from tests.chaos.rare_statements import alteration
from tests.chaos.statements import Step

Connect = Callable[..., psycopg.Connection[Any]]

_LEDGER = """
INSERT INTO ledger VALUES (%s, %s, txid_current() %% 4294967296,
                           %s, %s, %s, %s)
"""
_LOG_DDL = "INSERT INTO ddl_log (kind, name, value) VALUES (%s, %s, %s)"
#: A lock is waited for this long: a prepared transaction may hold it for seconds.
_SETTINGS = "-c lock_timeout=700ms -c statement_timeout=20s"
#: For what needs a table for itself.
_PATIENT = "SET LOCAL lock_timeout = '3s'"
#: Locks, deadlocks and lost connections; keys that another session took; a gid in use.
_EXPECTED = (psycopg.OperationalError, psycopg.IntegrityError, psycopg.errors.DuplicateObject)
#: A session uses this many gids again and again.
_GIDS = 3


@dataclass(slots=True)
class Made:
    """The numbers of changes and messages that one transaction sends to the stream."""

    changes: int = 0
    messages: int = 0


@dataclass
class Workload:
    """All sessions; a context manager that runs them."""

    connect: Connect
    seed: int
    sessions: int = 6
    ended: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)
    made: list["Session"] = field(default_factory=list)

    def start(self) -> None:
        """Begin."""
        for number in range(self.sessions):
            session = Session(self, number)
            self.made.append(session)
            thread = threading.Thread(target=session.run, name=f"session-{number}", daemon=True)
            self.threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Let each session end what it is at, and wait for that."""
        self.ended.set()
        for thread in self.threads:
            thread.join(60)
        broken = [session.broken for session in self.made if session.broken]
        if broken:
            raise broken[0]

    @property
    def committed(self) -> int:
        """Transactions the sessions believe committed."""
        return sum(session.committed for session in self.made)


class Session:
    """One writer with its plans; reconnects for as long as the workload runs."""

    def __init__(self, workload: Workload, number: int) -> None:
        self._workload = workload
        self._number = number
        self._plans = plans(workload.seed, number)
        self._origin = f"chaos_origin_{number}" if number % 3 == 2 else None
        #: Prepared and not ended: gid → (whether to commit, after which transaction).
        self._prepared: dict[str, tuple[bool, int]] = {}
        self.committed = 0
        #: The error that stopped the session, other than one of the server.
        self.broken: Exception | None = None

    def run(self) -> None:
        """Carry out the plans until the workload ends, reconnecting after lost connections."""
        while not self._workload.ended.is_set() and self.broken is None:
            try:
                with self._workload.connect(
                    options=_SETTINGS, prepare_threshold=None
                ) as connection:
                    self._prepare_session(connection)
                    for plan in self._plans:
                        self._carry_out(connection, plan)
                        self._end_prepared(connection, plan.number)
                        if self._workload.ended.wait(plan.pause_seconds):
                            return
            except (psycopg.OperationalError, psycopg.errors.ObjectInUse):
                self._workload.ended.wait(0.2)
            except Exception as error:  # what stops the session must stop the run
                self.broken = error

    def _prepare_session(self, connection: psycopg.Connection[Any]) -> None:
        if self._origin:
            connection.execute(
                "SELECT pg_replication_origin_create(%(o)s) WHERE NOT EXISTS "
                "(SELECT FROM pg_replication_origin WHERE roname = %(o)s)",
                {"o": self._origin},
            )
            connection.execute("SELECT pg_replication_origin_session_setup(%s)", [self._origin])

    def _carry_out(self, connection: psycopg.Connection[Any], plan: Plan) -> None:
        """One transaction. What the server refuses is rolled back and not in the ledger."""
        gid = f"chaos {self._number}/{plan.number % _GIDS}"
        preparing = plan.ending == PREPARE and gid not in self._prepared
        if plan.asynchronous:
            connection.execute("SET synchronous_commit = off")
        try:
            connection.execute("BEGIN")
            self._steps(connection, plan, gid if preparing else None)
            if preparing:
                # Even if we never hear of it: the gid may be taken now.
                ends_after = plan.number + plan.prepared_for
                self._prepared[gid] = plan.prepared_kept, ends_after
                connection.execute(f"PREPARE TRANSACTION '{gid}'")
            else:
                connection.execute("COMMIT" if plan.ending != "rollback" else "ROLLBACK")
                self.committed += plan.ending == COMMIT
        except _EXPECTED:
            if connection.closed:
                raise
            connection.execute("ROLLBACK")
        if plan.asynchronous:
            connection.execute("SET synchronous_commit = on")

    def _steps(self, connection: psycopg.Connection[Any], plan: Plan, gid: str | None) -> None:
        made = Made()
        if self._origin:
            connection.execute(
                "SELECT pg_replication_origin_xact_setup(pg_current_wal_lsn(), now())"
            )
        if plan.aside:
            connection.execute(
                "SELECT pg_logical_emit_message(false, 'chaos aside', %s)", [plan.aside]
            )
        for _ in _walk(connection, plan.steps, made):
            if plan.linger_seconds:
                time.sleep(plan.linger_seconds)
        row = [self._number, plan.number, gid, self._origin, made.changes, made.messages]
        connection.execute(_LEDGER, row)

    def _end_prepared(self, connection: psycopg.Connection[Any], number: int) -> None:
        for gid, (kept, ends_after) in list(self._prepared.items()):
            if number >= ends_after:
                # Unknown: its PREPARE failed, or an end whose answer was lost did not.
                with suppress(psycopg.errors.UndefinedObject):
                    connection.execute(f"{'COMMIT' if kept else 'ROLLBACK'} PREPARED '{gid}'")
                del self._prepared[gid]


def _walk(
    connection: psycopg.Connection[Any], steps: tuple[Step | Part, ...], made: Made
) -> Iterator[None]:
    """Run steps in order, parts under savepoints; counts in ``made`` what is kept."""
    for step in steps:
        if isinstance(step, Step):
            _run(connection, step, made)
            yield
            continue
        inside = made if step.kept else Made()
        connection.execute("SAVEPOINT part")
        yield from _walk(connection, step.steps, inside)
        connection.execute("RELEASE part" if step.kept else "ROLLBACK TO part")
        if not step.kept:
            connection.execute("RELEASE part")


def _run(connection: psycopg.Connection[Any], step: Step, made: Made) -> None:
    if step.choice is not None:
        _alter(connection, step.choice, made)
        return
    if step.fixed:
        connection.execute(_PATIENT)
    rows = connection.execute(step.sql).rowcount
    if step.published:
        # Before 13 nothing published is partitioned: no row moves from one table into another.
        each = step.each if connection.info.server_version >= 130000 else min(step.each, 1)
        made.changes += max(rows, 0) * each + step.fixed
        made.messages += step.messages


def _alter(connection: psycopg.Connection[Any], choice: float, made: Made) -> None:
    """Change the shape of ``shapes``, write that down, and use the new column."""
    connection.execute(_PATIENT)
    connection.execute("LOCK TABLE shapes IN ACCESS EXCLUSIVE MODE")
    found = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'shapes'::regclass AND attnum > 0 "
        "AND NOT attisdropped"
    ).fetchall()
    clause, line = alteration(choice, [row[0] for row in found])
    connection.execute(f"ALTER TABLE shapes {clause}")
    connection.execute(_LOG_DDL, line)
    made.changes += 1
    fresh = {"add": line[1], "rename": line[2]}.get(line[0] or "")
    if fresh:
        filled = connection.execute(
            f"UPDATE shapes SET {fresh} = 'f' || id WHERE id % 3 = {int(choice * 100) % 3}"
        )
        made.changes += filled.rowcount

"""Changing a slot's publications on its source: shown first as it will run, then run as one."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar

import psycopg
from psycopg import sql

from replview.catalog.connections import Connection, reading, writing
from replview.catalog.plan.plan import Plan, Statement
from replview.catalog.problems import SourceProblem
from replview.store.dsn import full_conninfo
from replview.store.models import Slot

_DEADLINE_SECONDS = 20.0
_NEEDS = "ownership of the publication and of the tables"
_COSTS = (
    "a moment's lock on each table that lets reads and writes pass (SHARE UPDATE EXCLUSIVE: it "
    "waits for VACUUM, ANALYZE and ALTER TABLE)"
)


class Alteration(Protocol):
    """What is found to be run."""

    @property
    def statements(self) -> Sequence[sql.Composed]:
        """In this order, in one transaction."""


Found = TypeVar("Found")
Altered = TypeVar("Altered", bound=Alteration)


def plan_alteration(
    slot: Slot,
    title: str,
    look: Callable[[Connection], Altered],
    consequences: Callable[[Altered], list[str]],
    refusals: Collection[str],
) -> Plan:
    """What would run and what comes of it. Raises ``SourceProblem`` where the source cannot be
    asked.

    ``refusals``: codes of what is wrong with the choice, not with reaching the source: these are
    in the act.
    """
    try:
        found = look_at(slot, look)
    except SourceProblem as error:
        if error.code not in refusals:
            raise
        return Plan(title=title, on=slot.source.name, refusal=error)
    return Plan(
        title=title,
        on=slot.source.name,
        statements=tuple(
            Statement(sql=text, needs=_NEEDS, costs=_COSTS) for text in texts_of(found)
        ),
        consequences=tuple(consequences(found)),
    )


def look_at(slot: Slot, look: Callable[[Connection], Found]) -> Found:
    """Ask the slot's source; it may change nothing there. Raises what ``look`` does."""
    with reading(full_conninfo(slot.source), deadline_seconds=_DEADLINE_SECONDS) as connection:
        return look(connection)


def run_together(slot: Slot, found: Alteration) -> None:
    """Run all of it, or nothing. Raises ``SourceProblem``."""
    if not found.statements:
        return
    conninfo = full_conninfo(slot.source)
    with writing(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
        try:
            with connection.transaction():
                for statement in found.statements:
                    connection.execute(statement)
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise
            raise _trouble(error) from None


def texts_of(found: Alteration) -> list[str]:
    """Each statement as it runs."""
    return [statement.as_string(None) for statement in found.statements]


def _trouble(error: psycopg.Error) -> SourceProblem:
    """In the server's own first line, which names tables and no values."""
    said = (error.diag.message_primary or "the server gave no reason").splitlines()[0]
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return SourceProblem("missing_right", said, f"It needs {_NEEDS}")
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return SourceProblem(
            "locked",
            "a table is locked by VACUUM, ANALYZE or ALTER TABLE",
            "Try again when it has ended; nothing was changed",
        )
    return SourceProblem("failed", said, "Nothing was changed; try again")

"""Alter the publications of a slot: show the statements first, then run them together."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar

import psycopg
from psycopg import sql

from replview.catalog.connections import Connection, reading, writing
from replview.catalog.plan.plan import Plan, Statement
from replview.catalog.plan.publications import TABLES_COST
from replview.catalog.problems import SourceProblem, first_line
from replview.store.dsn import full_conninfo
from replview.store.models import Slot

_ALTER_SECONDS = 20.0
_NEEDS = "ownership of the publication and of the tables"
Answer = TypeVar("Answer")


class Alteration(Protocol):
    """An alteration of publications, as statements for the source."""

    @property
    def statements(self) -> Sequence[sql.Composed]:
        """Return the statements in order, for one transaction."""


Altered = TypeVar("Altered", bound=Alteration)


def plan_alteration(
    slot: Slot,
    title: str,
    read: Callable[[Connection], Altered],
    consequences: Callable[[Altered], list[str]],
    refusals: Collection[str],
) -> Plan:
    """Plan the statements and their consequences.

    ``refusals``: codes of problems with the choice, not with reaching the source. The plan holds
    these; every other ``SourceProblem`` is raised.
    """
    try:
        alteration = ask_source(slot, read)
    except SourceProblem as error:
        if error.code not in refusals:
            raise
        return Plan(title=title, on=slot.source.name, refusal=error)
    return Plan(
        title=title,
        on=slot.source.name,
        statements=tuple(
            Statement(sql=text, needs=_NEEDS, costs=TABLES_COST) for text in texts_of(alteration)
        ),
        consequences=tuple(consequences(alteration)),
    )


def ask_source(slot: Slot, read: Callable[[Connection], Answer]) -> Answer:
    """Run ``read`` on the slot's source, read-only. Raises the errors of ``read``."""
    with reading(full_conninfo(slot.source), deadline_seconds=_ALTER_SECONDS) as connection:
        return read(connection)


def run_together(slot: Slot, alteration: Alteration) -> None:
    """Run all statements in one transaction. Raises ``SourceProblem``."""
    if not alteration.statements:
        return
    conninfo = full_conninfo(slot.source)
    with writing(conninfo, deadline_seconds=_ALTER_SECONDS) as connection:
        try:
            with connection.transaction():
                for statement in alteration.statements:
                    connection.execute(statement)
        except psycopg.errors.InsufficientPrivilege as error:
            raise SourceProblem("missing_right", first_line(error), f"It needs {_NEEDS}") from None
        except psycopg.errors.LockNotAvailable:
            raise SourceProblem(
                "locked",
                "a table is locked by VACUUM, ANALYZE or ALTER TABLE",
                "Try again when it has ended; nothing was changed",
            ) from None
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise
            remedy = "Nothing was changed; try again"
            raise SourceProblem("failed", first_line(error), remedy) from None


def texts_of(alteration: Alteration) -> list[str]:
    """Return the SQL text of the statements."""
    return [statement.as_string(None) for statement in alteration.statements]

"""Transactions that creating a slot would wait for: all that have an xid, in every database."""

from dataclasses import dataclass

from replview.catalog.connections import Connection
from replview.catalog.queries import Query

OPEN_TRANSACTIONS = Query(
    name="open_transactions",
    about="Sessions with an xid, of all databases; anyone may read who and how long, not what.",
    sql="""
        SELECT pid, datname AS database, usename AS role, application_name, state,
               extract(epoch FROM clock_timestamp() - xact_start)::float AS age_seconds
          FROM pg_stat_activity
         WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
         ORDER BY xact_start
    """,
)
PREPARED_TRANSACTIONS = Query(
    name="prepared_transactions",
    about="Transactions prepared and not yet finished, of all databases; anyone may read it.",
    sql="""
        SELECT gid, database, owner AS role,
               extract(epoch FROM clock_timestamp() - prepared)::float AS age_seconds
          FROM pg_prepared_xacts
         ORDER BY prepared
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that holds an xid: in a session (``pid``) or prepared (``gid``)."""

    database: str | None
    role: str | None
    #: None where the role may not see it.
    age_seconds: float | None
    pid: int | None = None
    gid: str | None = None
    application_name: str | None = None
    #: ``active``, ``idle in transaction``, ``prepared`` …
    state: str | None = None

    def __str__(self) -> str:
        who = f"{self.role or 'unknown role'} in {self.database or 'unknown database'}"
        age = "for an unknown time" if self.age_seconds is None else f"for {self.age_seconds:.0f} s"
        if self.gid is not None:
            return f"prepared transaction {self.gid} ({who}, {age})"
        name = f", {self.application_name}" if self.application_name else ""
        return f"process {self.pid} ({who}{name}, {self.state or 'state unknown'}, {age})"


def read_open_transactions(connection: Connection) -> list[OpenTransaction]:
    """What a slot created now would wait for, the oldest first, prepared ones last."""
    sessions = [OpenTransaction(**row) for row in OPEN_TRANSACTIONS.rows(connection)]
    prepared = PREPARED_TRANSACTIONS.rows(connection)
    return sessions + [OpenTransaction(**row, state="prepared") for row in prepared]

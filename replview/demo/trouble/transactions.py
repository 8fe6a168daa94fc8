"""Transactions that nobody ends: one prepared, one idle in its session."""

from collections.abc import Iterator
from contextlib import suppress

from psycopg import errors

from replview.demo.trouble.trouble import Trouble
from replview.demo.workload.notes import INSERT_NOTE
from replview.store.models import AlertRule

GID = "trouble_forgotten"
_SESSION = "transaction"


class PreparedTransaction(Trouble):
    """Two notes, prepared, and the transaction manager that would decide has gone."""

    name = "prepared-transaction"
    rules = (
        {"name": "demo: prepared for over 5 s", "kind": AlertRule.Kind.PREPARED_AGE,
         "threshold": 5.0},
    )  # fmt: skip

    def make(self) -> Iterator[bool]:
        """Prepare it; it needs no keeping up."""
        self.end()
        with self.place.shop("prepared") as connection:
            connection.execute("BEGIN")
            for subject in ("a settlement", "another settlement"):
                connection.execute(INSERT_NOTE, (subject, "trouble", "prepared, then forgotten"))
            connection.execute(f"PREPARE TRANSACTION '{GID}'")
        while True:
            yield True

    def end(self) -> None:
        """Roll it back."""
        with self.place.shop("prepared") as connection, suppress(errors.UndefinedObject):
            connection.execute(f"ROLLBACK PREPARED '{GID}'")


class LongTransaction(Trouble):
    """A session that wrote a note and then waits, its transaction open."""

    name = "long-transaction"
    rules = (
        {"name": "demo: transaction open for over 5 s", "kind": AlertRule.Kind.LONG_TRANSACTION,
         "threshold": 5.0},
    )  # fmt: skip

    def make(self) -> Iterator[bool]:
        """Hold the session; it ends with us."""
        with self.place.shop(_SESSION) as connection:
            connection.execute("BEGIN")
            connection.execute(INSERT_NOTE, ("a long day", "trouble", "written, never committed"))
            try:
                while not connection.closed:
                    # As an application would that went to lunch: idle in transaction.
                    yield True
                    connection.execute("SELECT 1")
            finally:
                with suppress(errors.Error):
                    connection.rollback()

    def end(self) -> None:
        """End the session, should it have outlived the process that held it."""
        with self.place.shop("end") as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 3000) FROM pg_stat_activity"
                " WHERE application_name = %s AND datname = current_database()",
                (f"trouble {_SESSION}",),
            )

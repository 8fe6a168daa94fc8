"""This module makes troubles of changes: a flood, open transactions, schema changes, poison."""

from collections.abc import Iterator
from contextlib import suppress

import psycopg
from psycopg import errors, sql

from replview.demo.trouble.place import (
    MB,
    OUR_SLOT,
    RETAINED,
    SOURCE_NAME,
    CannotMake,
    Trouble,
    number,
)
from replview.demo.workload.catalogue import INSERT_NOTE
from replview.demo.workload.seed import PRICES
from replview.store.connecting import connect_store, orm_connection
from replview.store.models import Quarantine
from replview.store.quarantine import decide

#: The trouble is refused above this: a table has 1,600 column numbers, and each run takes one.
_MAX_COLUMN_NUMBERS = 1_200
_POISON_MESSAGE = "This note is poison: the store refuses it."
GID = "trouble_forgotten"
_SESSION = "transaction"
#: WAL that the slot is made to retain: enough to be visible, and soon caught up.
BEHIND_BYTES = 24 * MB
ALERT_BYTES = 16 * MB
#: The most WAL that a flood writes, because the store keeps what is received.
MOST_BYTES = 300 * MB
_PIECE_ROWS = 2_000
_POSITION = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
#: The update skips rows that the workload has locked.
_REPRICE = (
    "UPDATE price_list SET updated_at = clock_timestamp() WHERE id IN (SELECT id FROM price_list"
    " WHERE id BETWEEN %s AND %s FOR UPDATE SKIP LOCKED)"
)


class SchemaChange(Trouble):
    """A column is added to a table that others may depend on, and dropped at the end."""

    name = "schema-change"

    def make(self) -> Iterator[bool]:
        """Add the column, between two rows that show the old and the new shape."""
        with self.place.shop("schema") as connection:
            numbers = "SELECT relnatts FROM pg_class WHERE oid = 'receipts'::regclass"
            if (number(connection, numbers) or 0) > _MAX_COLUMN_NUMBERS:
                raise CannotMake("The table has had too many columns: start anew with --data.")
            # A row of the old shape comes first, so that the next row shows a new shape.
            _touch(connection)
            connection.execute("ALTER TABLE receipts ADD COLUMN IF NOT EXISTS cashier text")
            _touch(connection)
        while True:
            yield True

    def end(self) -> None:
        """Drop the column."""
        with self.place.shop("schema") as connection:
            present = connection.execute(
                "SELECT FROM pg_attribute WHERE attrelid = to_regclass('receipts')"
                " AND attname = 'cashier' AND NOT attisdropped"
            ).fetchone()
            if present is not None:
                connection.execute("ALTER TABLE receipts DROP COLUMN cashier")
                _touch(connection)


class PoisonChange(Trouble):
    """The store refuses a row: its slot waits for a decision, and nothing is skipped."""

    name = "poison-change"

    def make(self) -> Iterator[bool]:
        """Add a constraint to the store that the row violates, and write the row."""
        self.end()
        with connect_store("trouble") as store:
            store.execute("SET lock_timeout = '5s'")
            # Existing rows are not validated: they do not matter, and may be many.
            constraint = sql.SQL(
                "ALTER TABLE change ADD CONSTRAINT trouble_poison"
                " CHECK (new ->> 'body' IS DISTINCT FROM {}) NOT VALID"
            )
            store.execute(constraint.format(_POISON_MESSAGE))
        with self.place.shop("poison") as connection:
            connection.execute(INSERT_NOTE, ("poison", "trouble", _POISON_MESSAGE))
        while True:
            yield bool(self._waiting())

    def end(self) -> None:
        """Drop the constraint, and decide on each waiting row to try again."""
        with connect_store("trouble") as store:
            store.execute("SET lock_timeout = '5s'")
            refuses = "SELECT FROM pg_constraint WHERE conname = 'trouble_poison'"
            if store.execute(refuses).fetchone() is not None:
                store.execute("ALTER TABLE change DROP CONSTRAINT IF EXISTS trouble_poison")
        for row in self._waiting():
            if row.relation == "public.audit_notes":
                with orm_connection():
                    decide(row.pk, Quarantine.Decision.RETRY, "the demo")

    def _waiting(self) -> list[Quarantine]:
        """Return the refused rows without a decision."""
        with orm_connection():
            rows = Quarantine.objects.filter(slot__name=OUR_SLOT, slot__source__name=SOURCE_NAME)
            rows = rows.filter(settled_at=None, decision=Quarantine.Decision.NONE)
            return list(rows.defer("raw"))


def _touch(connection: psycopg.Connection) -> None:
    """Insert a row, because the stream announces a new shape with the first change in it."""
    connection.execute(
        "INSERT INTO receipts (order_id, till, lines, total) VALUES (1, 'trouble', '{}', 0)"
    )


class PreparedTransaction(Trouble):
    """A transaction is prepared, and the transaction manager that would end it is gone."""

    name = "prepared-transaction"
    rules = (
        {"name": "demo: prepared for over 5 s", "kind": "prepared_age", "threshold": 5.0},
    )  # fmt: skip

    def make(self) -> Iterator[bool]:
        """Prepare the transaction, which then needs no process."""
        self.end()
        with self.place.shop("prepared") as connection:
            connection.execute("BEGIN")
            for subject in ("a settlement", "another settlement"):
                connection.execute(INSERT_NOTE, (subject, "trouble", "prepared, then forgotten"))
            connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(GID))
        while True:
            yield True

    def end(self) -> None:
        """Roll the transaction back."""
        with self.place.shop("prepared") as connection, suppress(errors.UndefinedObject):
            connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(GID))


class LongTransaction(Trouble):
    """A session writes a note and then waits with its transaction open."""

    name = "long-transaction"
    rules = (
        {"name": "demo: transaction open for over 5 s", "kind": "long_transaction",
         "threshold": 5.0},
    )  # fmt: skip

    def make(self) -> Iterator[bool]:
        """Write a note and keep the transaction open, idle most of the time."""
        with self.place.shop(_SESSION) as connection:
            connection.execute("BEGIN")
            connection.execute(INSERT_NOTE, ("a long day", "trouble", "written, never committed"))
            try:
                while not connection.closed:
                    # The session is idle in transaction.
                    yield True
                    connection.execute("SELECT 1")
            finally:
                with suppress(errors.Error):
                    connection.rollback()

    def end(self) -> None:
        """End the session, in case it outlived its process."""
        with self.place.shop("end") as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 3000) FROM pg_stat_activity"
                " WHERE application_name = %s AND datname = current_database()",
                (f"trouble {_SESSION}",),
            )


class Flood(Trouble):
    """Many updates put replview's slot behind, and keep it there."""

    name = "flood"
    lasts_seconds = 120.0
    pause_seconds = 0.02
    rules = (
        {"name": "demo: over 16 MB of WAL retained", "kind": "retained_wal",
         "threshold": float(ALERT_BYTES), "clear_threshold": float(ALERT_BYTES), "slot": OUR_SLOT},
    )  # fmt: skip

    def make(self) -> Iterator[bool]:
        """Update rows until the flood has written ``MOST_BYTES`` of WAL."""
        with self.place.shop("flood") as connection:
            start_bytes, first = number(connection, _POSITION) or 0, 0
            behind = False
            while (number(connection, _POSITION) or 0) - start_bytes < MOST_BYTES:
                retained = number(connection, RETAINED, OUR_SLOT)
                if retained is None:
                    raise CannotMake("replview's slot is not there, or lost.")
                if retained < BEHIND_BYTES:
                    connection.execute(_REPRICE, (first + 1, first + _PIECE_ROWS))
                    first = (first + _PIECE_ROWS) % PRICES
                behind = behind or retained >= ALERT_BYTES
                yield behind

    def end(self) -> None:
        """Do nothing, because the flood ends with its session."""

    def is_over(self) -> bool:
        """Return whether the receiver has caught up, and the slot releases the WAL.

        A slot's restart_lsn moves when the server logs the running transactions. The server does so
        every 15 s; this method does it more often.
        """
        with self.place.shop("flood") as connection:
            connection.execute("SELECT pg_log_standby_snapshot()")
            retained = number(connection, RETAINED, OUR_SLOT)
            return retained is None or retained < ALERT_BYTES

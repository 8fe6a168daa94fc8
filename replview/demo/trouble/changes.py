"""Changes that make trouble: a table with another shape, a row that cannot be stored."""

from collections.abc import Iterator

import psycopg

from replview.demo.trouble.place import OUR_SLOT, SOURCE_NAME
from replview.demo.trouble.trouble import CannotMake, Trouble
from replview.demo.workload.notes import INSERT_NOTE
from replview.store.connecting import connect_store, orm_connection
from replview.store.models import Quarantine
from replview.store.quarantine import decide

#: A table has 1,600 column numbers, and each press takes one.
_MOST_COLUMN_NUMBERS = 1_200
_POISON = "This note is poison: the store refuses it."


class SchemaChange(Trouble):
    """A column more on a table that others may depend on; taken away again at the end."""

    name = "schema-change"

    def make(self) -> Iterator[bool]:
        """Add the column, and write a row that shows it."""
        with self.place.shop("schema") as connection:
            row = connection.execute(
                "SELECT relnatts FROM pg_class WHERE oid = 'receipts'::regclass"
            ).fetchone()
            if row is None or row[0] > _MOST_COLUMN_NUMBERS:
                raise CannotMake("The table has had too many columns: start anew with --data.")
            # A row of the old shape first: only then is the next one another.
            _touch(connection)
            connection.execute("ALTER TABLE receipts ADD COLUMN IF NOT EXISTS cashier text")
            _touch(connection)
        while True:
            yield True

    def end(self) -> None:
        """Drop the column; that, too, is a change of schema."""
        with self.place.shop("schema") as connection:
            present = connection.execute(
                "SELECT FROM pg_attribute WHERE attrelid = to_regclass('receipts')"
                " AND attname = 'cashier' AND NOT attisdropped"
            ).fetchone()
            if present is not None:
                connection.execute("ALTER TABLE receipts DROP COLUMN cashier")
                _touch(connection)


class PoisonChange(Trouble):
    """A row that the store refuses: its slot waits for a decision, nothing is skipped."""

    name = "poison-change"

    def make(self) -> Iterator[bool]:
        """Let the store refuse one row, and write it."""
        self.end()
        with connect_store("trouble") as store:
            store.execute("SET lock_timeout = '5s'")
            # Not validated: what is there already is nobody's concern, and may be much.
            store.execute(
                "ALTER TABLE change ADD CONSTRAINT trouble_poison"
                f" CHECK (new ->> 'body' IS DISTINCT FROM '{_POISON}') NOT VALID"
            )
        with self.place.shop("poison") as connection:
            connection.execute(INSERT_NOTE, ("poison", "trouble", _POISON))
        while True:
            yield bool(self._waiting())

    def end(self) -> None:
        """Let the store take it, and decide as somebody would who mended the cause: try again."""
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
        """What nobody has decided about yet."""
        with orm_connection():
            rows = Quarantine.objects.filter(
                slot__name=OUR_SLOT,
                slot__source__name=SOURCE_NAME,
                settled_at__isnull=True,
                decision=Quarantine.Decision.NONE,
            )
            return list(rows.defer("raw"))


def _touch(connection: psycopg.Connection) -> None:
    """A row of the new shape: the stream tells of a shape with the first change in it."""
    connection.execute(
        "INSERT INTO receipts (order_id, till, lines, total) VALUES (1, 'trouble', '{}', 0)"
    )

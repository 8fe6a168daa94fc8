"""One slot under test: its rows in the store, its receivers, and what its log says."""

import itertools
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from django.db import connections, models

from decoder.scalars import LSN
from replview.store.models import Slot, Source
from tests.support.crash_stores import CrashStore
from tests.support.receiver_process import ReceiverProcess
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for, wait_while_it_moves

_numbers = itertools.count(1)


@dataclass
class ReceivedSlot:
    """A slot on a source, known to a store."""

    store: CrashStore
    source: SourceDatabase
    name: str
    slot_id: int
    folder: Path
    receivers: list[ReceiverProcess] = field(default_factory=list)

    def start(self, owner: str = "first", **environment: str) -> ReceiverProcess:
        """A further receiver, which may find the slot taken."""
        log = self.folder / f"{self.name}-{owner}.log"
        receiver = ReceiverProcess(self.store, self.slot_id, owner, log, environment)
        self.receivers.append(receiver)
        return receiver

    def end(self) -> None:
        """End every receiver that is left."""
        for receiver in self.receivers:
            receiver.end()

    def row(self) -> dict[str, Any]:
        """The slot's row."""
        [row] = self.store.rows(
            "SELECT *, checkpoint_lsn::text AS checkpoint FROM slot WHERE id = %s", [self.slot_id]
        )
        return row

    def streaming(self, owner: str | None = None, seconds: float = 60.0) -> float:
        """Wait until a receiver (this one) streams; how many seconds that took."""
        begun = time.monotonic()

        def is_live() -> bool:
            row = self.row()
            return row["state"] == "streaming" and owner in (None, row["lease_owner"])

        wait_for(is_live, seconds, lambda: f"{self.name} streams to {owner}: {self._state()}")
        return time.monotonic() - begun

    def _state(self) -> str:
        """Return the slot's row, the store's sessions and the logs, for a failure's message."""
        row = self.row()
        sessions = self.store.rows(
            "SELECT pid, application_name, state, wait_event_type, wait_event, query_start, "
            "left(query, 60) AS query FROM pg_stat_activity WHERE datname = current_database()"
        )
        logs = [f"{one.owner}: {one.said()[-1500:]}" for one in self.receivers]
        shown = ("state", "epoch", "lease_owner", "heartbeat_at", "problem_cause")
        return "\n".join([str({n: row[n] for n in shown}), *map(str, sessions), *logs])

    def stored_lsn(self) -> LSN:
        """Everything up to here is in the store."""
        checkpoint = self.row()["checkpoint"]
        return LSN.parse(checkpoint) if checkpoint else LSN(0)

    def confirmed_lsn(self) -> LSN:
        """Return the position that the source has as confirmed."""
        with self.source.connect() as connection:
            row = connection.execute(
                "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s",
                [self.name],
            ).fetchone()
        assert row is not None
        return LSN.parse(row[0])

    def caught_up(self, still_seconds: float = 60.0) -> None:
        """Wait until all that is committed on the source is stored; by now nothing else writes."""
        with self.source.connect() as connection:
            # A commit has the WAL flushed, which a ROLLBACK alone leaves for later.
            connection.execute("COMMENT ON SCHEMA public IS 'all is written'")
            row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert row is not None
        target = LSN.parse(row[0])
        wait_while_it_moves(lambda: self.stored_lsn() >= target, self.stored_lsn, still_seconds)

    def transactions(self, *states: str) -> list[dict[str, Any]]:
        """Return the transactions of all incarnations in the order of history, open ones last."""
        return self.store.rows(
            """
            SELECT t.*, i.number AS incarnation, t.end_lsn - '0/0' AS end_position
            FROM transaction t JOIN slot_incarnation i ON i.id = t.incarnation_id
            WHERE i.slot_id = %s AND (%s::text[] = '{}' OR t.state = ANY(%s::text[]))
            ORDER BY i.number, t.commit_seq NULLS LAST, t.id
            """,
            [self.slot_id, list(states), list(states)],
        )

    def incarnations(self) -> list[dict[str, Any]]:
        """Return the slot's incarnations, first to last."""
        return self.store.rows(
            "SELECT *, started_lsn::text AS started FROM slot_incarnation WHERE slot_id = %s "
            "ORDER BY number",
            [self.slot_id],
        )

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The lines of its log, oldest first."""
        return self.store.rows(
            "SELECT * FROM slot_event WHERE slot_id = %s AND (%s::text[] = '{}' OR "
            "kind = ANY(%s::text[])) ORDER BY at, id",
            [self.slot_id, list(kinds), list(kinds)],
        )

    def sentences(self) -> str:
        """The log as one text, for messages of assertions too."""
        return "\n".join(f"{event['kind']}: {event['message']}" for event in self.events())

    def says(self, *words: str, seconds: float = 60.0) -> None:
        """Wait until the log has a line with all these words."""

        def said() -> bool:
            lines = self.sentences().splitlines()
            return any(all(word in line for word in words) for line in lines)

        wait_for(said, seconds, f"{words} in the log of {self.name}:\n{self.sentences()}")

    def point_at(self, source: SourceDatabase, dsn: str = "") -> None:
        """The source is found somewhere else from now on."""
        self.source = source
        self.store.run(
            "UPDATE source SET conninfo = %s WHERE id = (SELECT source_id FROM slot WHERE id = %s)",
            [dsn or source.dsn, self.slot_id],
        )

    def free_lease(self) -> None:
        """A killed receiver's lease runs out now instead of in six seconds."""
        self.store.run("UPDATE slot SET heartbeat_at = NULL WHERE id = %s", [self.slot_id])


def make_slot(
    store: CrashStore,
    source: SourceDatabase,
    folder: Path,
    *,
    name: str = "",
    dsn: str = "",
    two_phase: bool = True,
    failover: bool = False,
    **columns: Any,
) -> ReceivedSlot:
    """Make publication and slot on the source, and make them known to the store."""
    name = name or f"crash_{next(_numbers)}"
    with source.connect() as connection:
        connection.execute(f"CREATE PUBLICATION {name} FOR ALL TABLES")
        create_slot(connection, name, two_phase=two_phase, failover=failover)
    with store.connect() as connection:
        owner = insert(connection, Source(name=name, conninfo=dsn or source.dsn))
        slot = Slot(source_id=owner, name=name, publications=[name], **columns)
        return ReceivedSlot(store, source, name, insert(connection, slot), folder)


def create_slot(
    connection: psycopg.Connection[Any], name: str, *, two_phase: bool, failover: bool = False
) -> None:
    """Create a pgoutput slot; one that is synchronised to standbys needs PostgreSQL 17."""
    options = ", true" if failover else ""
    connection.execute(
        f"SELECT pg_create_logical_replication_slot(%s, 'pgoutput', false, %s{options})",
        [name, two_phase],
    )


def insert(connection: psycopg.Connection[Any], row: models.Model) -> int:
    """Insert a model's row into a store that Django does not know; returns its key."""
    values = {
        column.column: column.get_db_prep_save(column.pre_save(row, True), connections["default"])
        for column in row._meta.concrete_fields
        if not column.primary_key
    }
    names = ", ".join(f'"{name}"' for name in values)
    places = ", ".join(["%s"] * len(values))
    found = connection.execute(
        f"INSERT INTO {row._meta.db_table} ({names}) VALUES ({places}) RETURNING id",
        list(values.values()),
    ).fetchone()
    assert found is not None
    return int(found[0])

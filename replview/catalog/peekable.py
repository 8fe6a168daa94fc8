"""This module says which slots of a server can be peeked without moving them, and at what cost."""

from dataclasses import dataclass

import psycopg

from decoder.scalars import LSN
from replview.catalog.connections import Connection, Query
from replview.catalog.publications import read_publications
from replview.catalog.server import read_position
from replview.catalog.slots import SlotFacts, read_slots
from replview.text.formats import bytes_words

#: Output plugins whose output replview can read.
PLUGINS = ("pgoutput", "test_decoding", "wal2json")

PLACE = Query(
    name="place",
    about="Where we are: database, version, recovery; anyone may read it.",
    sql="""
        SELECT current_database() AS database, pg_is_in_recovery() AS in_recovery,
               current_setting('server_version_num')::int AS version
    """,
)
SUBSCRIPTIONS = Query(
    name="subscriptions",
    about="Publications by slot, of subscriptions in the same cluster; anyone may read these "
    "columns.",
    sql="SELECT subslotname, subpublications FROM pg_subscription WHERE subslotname IS NOT NULL",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekableServer:
    """A server with all of its slots and the position of its WAL."""

    database: str
    version: int
    in_recovery: bool
    position: LSN | None
    slots: list[SlotFacts]
    #: Names of the database's publications.
    publications: list[str]
    #: Publications by slot, where a subscription of the same cluster reads it.
    subscribed: dict[str, list[str]]

    def slot(self, name: str) -> SlotFacts | None:
        """Return the slot of this name; None where there is none."""
        return next((slot for slot in self.slots if slot.slot_name == name), None)

    def refusal(self, slot: SlotFacts) -> str:
        """Return in a few words why the slot cannot be peeked; empty where it can."""
        return next((reason for holds, reason in self._reasons(slot) if holds), "")

    def _reasons(self, slot: SlotFacts) -> list[tuple[bool, str]]:
        plugin, database = slot.plugin or "", slot.database or ""
        return [
            (slot.slot_type != "logical", "a physical slot sends WAL, not changes of rows"),
            (slot.active, f"another session is reading it (pid {slot.active_pid or 'unknown'})"),
            (database != self.database,
             f"it belongs to database {database}, and this source connects to {self.database}"),
            (plugin not in PLUGINS, f"replview cannot read the output plugin {plugin}"),
            (slot.wal_status == "lost", "it is lost: the server has removed WAL it needed"),
            (bool(slot.conflicting), "a recovery conflict on this standby invalidated it"),
            (bool(slot.invalidation_reason), f"it is invalidated ({slot.invalidation_reason})"),
            (bool(slot.synced) and self.in_recovery,
             "it is synchronized from the primary: peek into the primary's slot"),
            (self.in_recovery and self.version < 160000,
             "logical decoding on a standby needs PostgreSQL 16"),
            (plugin == "pgoutput" and not self.publications,
             "pgoutput needs a publication, and this database has none"),
        ]  # fmt: skip

    def used_by(self, slot: SlotFacts, ours: list[str]) -> list[str]:
        """Return the existing publications that the reader of a slot uses; empty: unknown.

        These are ``ours`` where replview reads the slot, and otherwise those of a subscription.
        """
        used = ours or self.subscribed.get(slot.slot_name, [])
        return [name for name in used if name in self.publications]

    def cost(self, slot: SlotFacts, max_seconds: float) -> str:
        """Return a sentence on what peeking costs the server."""
        size = slot.retained_wal_bytes
        reads = "an unknown amount" if size is None else bytes_words(size)
        return (
            f"PostgreSQL decodes {reads} of WAL, from restart_lsn {slot.restart_lsn or 'unknown'} "
            f"to the current position; this takes one backend, up to {max_seconds:g} seconds and "
            "temporary disk space, and does not advance the slot"
        )


def read_place(connection: Connection) -> PeekableServer:
    """Read all slots of the server, and what is needed to peek one."""
    place = PLACE.row(connection)
    return PeekableServer(
        **place,
        position=read_position(connection),
        slots=read_slots(connection),
        publications=[publication.name for publication in read_publications(connection)],
        subscribed=_read_subscribed(connection),
    )


def _read_subscribed(connection: Connection) -> dict[str, list[str]]:
    try:
        rows = SUBSCRIPTIONS.rows(connection)
    except psycopg.errors.InsufficientPrivilege:
        return {}
    return {row["subslotname"]: list(row["subpublications"]) for row in rows}

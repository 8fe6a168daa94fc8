"""Which slots of a server can be looked into without moving them, and what that costs it."""

from dataclasses import dataclass

import psycopg

from decoder.scalars import LSN
from replview.catalog.connections import Connection, Query
from replview.catalog.publications import read_publications
from replview.catalog.server import read_position
from replview.catalog.slots import SlotFacts, read_slots

#: What we can read the output of.
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
class Place:
    """A server as its slots are looked at: all of them, and where its WAL stands."""

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
        return next((slot for slot in self.slots if slot.slot_name == name), None)

    def refusal(self, slot: SlotFacts) -> str:
        """Why the slot cannot be looked into, in a few words; empty where it can."""
        return next((words for holds, words in self._reasons(slot) if holds), "")

    def _reasons(self, slot: SlotFacts) -> list[tuple[bool, str]]:
        plugin, own = slot.plugin or "", slot.database or ""
        return [
            (slot.slot_type != "logical", "physical: it has WAL, but no changes of rows"),
            (slot.active, f"active (pid {slot.active_pid or 'unknown'}): only its reader may look"),
            (own != self.database, f"in database {own}: this source reads {self.database}"),
            (plugin not in PLUGINS, f"plugin {plugin} is not one replview can read"),
            (slot.wal_status == "lost", "lost: the WAL it needs is gone"),
            (bool(slot.conflicting), "invalidated by a conflict on this standby"),
            (bool(slot.invalidation_reason), f"invalidated ({slot.invalidation_reason})"),
            (bool(slot.synced) and self.in_recovery,
             "synchronized from the primary: look into it there"),
            (self.in_recovery and self.version < 160000,
             "on a standby: decoding there needs PostgreSQL 16"),
            (plugin == "pgoutput" and not self.publications,
             "pgoutput needs a publication, and this database has none"),
        ]  # fmt: skip

    def used_by(self, slot: SlotFacts, ours: list[str]) -> list[str]:
        """The publications its reader is known to use, as far as they exist: ``ours`` where
        replview reads it, else those of a subscription. Empty: unknown.
        """
        used = ours or self.subscribed.get(slot.slot_name, [])
        return [name for name in used if name in self.publications]

    def cost(self, slot: SlotFacts, max_seconds: float) -> str:
        """What a look costs the server, in a sentence."""
        reads = _gigabytes(slot.retained_wal_bytes)
        return (
            f"PostgreSQL decodes from restart_lsn {slot.restart_lsn or 'unknown'} ({reads} of WAL "
            f"to read: current position less restart_lsn); it uses one backend, up to "
            f"{max_seconds:g} seconds and temporary space; the slot is not moved"
        )


def read_place(connection: Connection) -> Place:
    """All slots of the server, and what a look into one needs to know."""
    place = PLACE.row(connection)
    return Place(
        **place,
        position=read_position(connection),
        slots=read_slots(connection),
        publications=[item.name for item in read_publications(connection)],
        subscribed=_read_subscribed(connection),
    )


def _read_subscribed(connection: Connection) -> dict[str, list[str]]:
    try:
        rows = SUBSCRIPTIONS.rows(connection)
    except psycopg.errors.InsufficientPrivilege:
        return {}
    return {row["subslotname"]: list(row["subpublications"]) for row in rows}


def _gigabytes(size: int | None) -> str:
    """``3.4 GB``, ``12 MB``, ``84 kB``; at least ``1 kB``, and unknown says so."""
    if size is None:
        return "an unknown amount"
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{max(size >> 10, 1)} kB"

"""Opening a session: who the server is, which life of the slot this is, where to start."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from decoder.binary import UserType
from decoder.scalars import LSN
from replview.catalog.columns import format_types
from replview.catalog.connections import connect
from replview.catalog.problems import SourceTrouble, Trouble
from replview.catalog.server import ServerFacts, read_server_facts
from replview.catalog.slots import SlotFacts, read_slots
from replview.catalog.tables import primary_key_columns
from replview.catalog.user_types import read_user_types
from replview.receiver.options import StreamOptions, choose
from replview.receiver.problems import lost
from replview.receiver.session import ReplicationSession, SystemIdentity
from replview.store.incarnations import Incarnation, SlotRow, begin, log_event, resume
from replview.store.lease import Lease

#: Oldest server whose pgoutput this reads.
OLDEST_VERSION = 100000


@dataclass(slots=True)
class OpenSession:
    """A started stream and what is needed to decode and store it."""

    session: ReplicationSession
    options: StreamOptions
    incarnation: Incarnation
    system_identifier: str
    #: Python's name of the encoding that text arrives in.
    encoding: str
    source: "SourceCatalog"
    #: What types that are not built in are made of; needed to read a binary stream.
    user_types: Mapping[int, UserType] = field(default_factory=dict)
    #: Some transaction was stored: the next trouble is a new one.
    made_progress: bool = False

    def close(self) -> None:
        """Close all connections to the source."""
        self.session.close()
        self.source.close()


class SourceCatalog:
    """An ordinary connection to the source, opened when first asked, for what no stream tells."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection[Any] | None = None

    def connection(self) -> psycopg.Connection[Any]:
        """The connection; opened again if it was lost."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._conninfo)
        return self._connection

    def facts(self, slot_name: str) -> tuple[ServerFacts, SlotFacts | None]:
        """The server, and the slot if it is there."""
        connection = self.connection()
        slots = [facts for facts in read_slots(connection) if facts.slot_name == slot_name]
        return read_server_facts(connection), slots[0] if slots else None

    def primary_key(self, relation_oid: int) -> Sequence[str] | None:
        """The table's primary key now; None where the catalog cannot be asked."""
        with suppress(psycopg.Error):
            return primary_key_columns(self.connection(), relation_oid)
        return None

    def type_names(self, wanted: Sequence[tuple[int, int]]) -> Mapping[tuple[int, int], str]:
        """Types as SQL writes them; empty where the catalog cannot be asked."""
        with suppress(psycopg.Error):
            return format_types(self.connection(), wanted)
        return {}

    def user_types(self) -> dict[int, UserType]:
        """Enums, domains, arrays, composites and ranges of the database."""
        rows = read_user_types(self.connection())
        return {row.oid: UserType(row.kind, row.over_oid) for row in rows}

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()


def open_session(
    store: psycopg.Connection[Any], lease: Lease, slot: SlotRow, conninfo: str
) -> OpenSession:
    """Connect and start streaming where the store ends. Raises ``psycopg.Error`` or
    ``SourceTrouble``.
    """
    catalog = SourceCatalog(conninfo)
    session: ReplicationSession | None = None
    try:
        server, facts = catalog.facts(slot.name)
        _check(server, facts, slot)
        sql_ascii = server.encoding == "SQL_ASCII"
        session = ReplicationSession(conninfo, client_encoding="SQL_ASCII" if sql_ascii else "UTF8")
        identity = session.identify()
        _note_server(store, slot, server, identity)
        if slot.temporary:
            two_phase = bool(slot.options.get("two_phase", True)) and server.version >= 150000
            two_phase = two_phase and server.max_prepared_transactions > 0
            started = session.create_temporary_slot(slot.name, two_phase=two_phase)
            incarnation = _temporary_life(store, lease, slot, identity, started)
        else:
            assert facts is not None
            two_phase = bool(facts.two_phase)
            incarnation = _life(store, lease, slot, identity, facts)
        options = choose(
            server.version,
            slot.publications,
            slot.options,
            slot_two_phase=two_phase,
            owned=slot.owned,
        )
        session.start(slot.name, incarnation.checkpoint_lsn, options.as_arguments())
    except BaseException:
        if session is not None:
            session.close()
        catalog.close()
        raise
    return OpenSession(
        session,
        options,
        incarnation,
        identity.system_identifier,
        "utf-8",
        catalog,
        catalog.user_types() if options.binary else {},
    )


def _check(server: ServerFacts, facts: SlotFacts | None, slot: SlotRow) -> None:
    """Name what would fail anyway, before the server says it in its own words."""
    if server.version < OLDEST_VERSION:
        raise SourceTrouble(
            Trouble(
                "unsupported",
                f"PostgreSQL {server.version_text} has no logical replication with pgoutput",
                "replview needs PostgreSQL 10 or later, and is tested with 15, 16 and 18",
            )
        )
    if server.wal_level != "logical":
        raise SourceTrouble(
            Trouble(
                "wal_level",
                f"the server's wal_level is {server.wal_level}, not logical",
                "ALTER SYSTEM SET wal_level = 'logical', then restart the server",
            )
        )
    if slot.temporary:
        return
    if facts is None:
        raise SourceTrouble(
            Trouble(
                "slot_missing",
                f"the slot {slot.name} is not on the source any more",
                "Remove it here (replview slot remove) and add it again; the changes in between "
                "are not to be had",
            )
        )
    if facts.wal_status == "lost" or facts.invalidation_reason:
        raise SourceTrouble(lost(slot.name, facts.invalidation_reason))
    if facts.plugin != slot_plugin(slot):
        raise SourceTrouble(
            Trouble(
                "slot_other_plugin",
                f"the slot {slot.name} speaks {facts.plugin}, not pgoutput",
                "Add a slot of its own for replview",
            )
        )
    if facts.database != server.database:
        raise SourceTrouble(
            Trouble(
                "slot_other_database",
                f"the slot {slot.name} belongs to another database of this server",
                "Give the source the DSN of that database",
            )
        )


def slot_plugin(slot: SlotRow) -> str:
    """The output plugin this receiver reads."""
    return "pgoutput"


def _note_server(
    store: psycopg.Connection[Any], slot: SlotRow, server: ServerFacts, identity: SystemIdentity
) -> None:
    """Keep what the source is, for the pages."""
    store.execute(
        """
        UPDATE source SET server_version = %s, system_identifier = %s, timeline = %s,
            encoding = %s, in_recovery = %s, max_slot_wal_keep_bytes = %s, checked_at = now()
        WHERE id = %s
        """,
        [
            server.version,
            identity.system_identifier,
            identity.timeline,
            server.encoding,
            server.in_recovery,
            server.max_slot_wal_keep_bytes,
            slot.source_id,
        ],
    )


def _temporary_life(
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: SlotRow,
    identity: SystemIdentity,
    started: LSN,
) -> Incarnation:
    """Each connection of a temporary slot is a life of its own; the time between is a gap."""
    incarnation = begin(
        store,
        lease,
        slot,
        system_identifier=identity.system_identifier,
        timeline=identity.timeline,
        started_lsn=started,
        reason="temporary",
    )
    if slot.incarnation_id is not None:
        log_event(
            store,
            slot.id,
            "gap",
            "The connection was lost and with it the temporary slot: what was committed until "
            "the new one began was not seen.",
            incarnation_id=incarnation.id,
            lsn=started,
            detail={"from_lsn": str(slot.checkpoint_lsn or ""), "to_lsn": str(started)},
        )
    return incarnation


def _life(
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: SlotRow,
    identity: SystemIdentity,
    facts: SlotFacts,
) -> Incarnation:
    """The current life, or a new one where LSNs no longer compare or history was skipped."""
    confirmed = facts.confirmed_flush_lsn or LSN(0)
    reason = _reason_for_new_life(slot, identity, confirmed)
    if reason is None:
        return resume(store, lease, slot)
    incarnation = begin(
        store,
        lease,
        slot,
        system_identifier=identity.system_identifier,
        timeline=identity.timeline,
        started_lsn=confirmed,
        reason=reason,
    )
    if slot.incarnation_id is not None:
        log_event(
            store,
            slot.id,
            "gap",
            _GAPS[reason],
            incarnation_id=incarnation.id,
            lsn=confirmed,
            detail={"from_lsn": str(slot.checkpoint_lsn or ""), "to_lsn": str(confirmed)},
        )
    return incarnation


_GAPS = {
    "re-pointed": "The source is another cluster now: a new record begins here.",
    "timeline": "The source went to another timeline (a failover or a restore): a new record "
    "begins here.",
    "advanced": "The slot stands beyond our record (advanced by somebody else, or created anew): "
    "what was committed in between was not seen.",
}


def _reason_for_new_life(slot: SlotRow, identity: SystemIdentity, confirmed: LSN) -> str | None:
    """Why the current life cannot go on; None if it can."""
    if slot.incarnation_id is None:
        return "created" if slot.owned else "adopted"
    if slot.system_identifier != identity.system_identifier:
        return "re-pointed"
    if slot.timeline != identity.timeline:
        return "timeline"
    if slot.checkpoint_lsn is not None and confirmed > slot.checkpoint_lsn:
        return "advanced"
    return None

"""Open a session: identify the server, check the slot, find the position to start from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import psycopg

from decoder.binary import UserType
from replview.catalog.connections import cut_after
from replview.catalog.problems import SourceProblem
from replview.catalog.server import ServerFacts
from replview.catalog.slots import SlotFacts
from replview.receiver.connecting import codec_of, encodings_for
from replview.receiver.incarnation import SystemIdentity, incarnation_of, temporary_incarnation
from replview.receiver.plugins import Decoder, StreamOptions, choose, new_decoder, plugin_arguments
from replview.receiver.problems import lost, no_logical, trouble
from replview.receiver.sessions.pacing import WalEnd
from replview.receiver.sessions.polling import PollingSession
from replview.receiver.sessions.walsender import ReplicationSession
from replview.receiver.source_catalog import NamedTables, SourceCatalog
from replview.store.write.incarnations import SessionIncarnation, SlotRow
from replview.store.write.lease import Lease

#: One connection that returns the changes of one slot, without ever blocking for long. Changes come
#: in portions: at the beginning of each, the server sends relations, types and open streams anew. A
#: walsender's session is a single portion.
SourceSession = PollingSession | ReplicationSession
#: Oldest server version whose pgoutput can be decoded.
OLDEST_VERSION = 100000
#: Seconds after which a source that does not identify itself or start a stream is given up.
_ANSWER_SECONDS = 60.0


@dataclass(slots=True)
class OpenSession:
    """A started stream, and what is needed to decode and store it."""

    session: SourceSession
    options: StreamOptions
    incarnation: SessionIncarnation
    system_identifier: str
    #: Python's name of the encoding of received text.
    encoding: str
    source: SourceCatalog
    plugin: str
    #: ``slot.options``.
    wanted: Mapping[str, object]
    #: Tables of plugins that do not send oids.
    tables: NamedTables
    #: The end of the server's WAL: nothing beyond it is stored.
    wal_end: WalEnd
    #: User-defined types by oid, which decoding a binary stream needs.
    user_types: Mapping[int, UserType] = field(default_factory=dict)
    #: True once a transaction was stored: the pauses after problems begin anew then.
    made_progress: bool = False

    def new_decoder(self) -> Decoder:
        """Return a new decoder for the stream, or for a portion of it."""
        return new_decoder(
            self.plugin,
            self.options,
            self.encoding,
            wanted=self.wanted,
            tables=self.tables,
            user_types=self.user_types,
        )

    def close(self) -> None:
        """Close all connections to the source."""
        self.session.close()
        self.source.close()


def open_session(
    store: psycopg.Connection[Any], lease: Lease, slot: SlotRow, conninfo: str
) -> OpenSession:
    """Stream from the stored checkpoint. Raises ``psycopg.Error``, ``SourceProblem``."""
    catalog = SourceCatalog(conninfo)
    session: SourceSession | None = None
    try:
        server, facts = catalog.facts(slot.name)
        _check(server, facts, slot)
        client_encoding, encoding = _encodings(server, slot)
        # A temporary slot exists as long as the walsender's session that created it.
        polled = slot.interface == "sql" and not slot.temporary
        session_class = PollingSession if polled else ReplicationSession
        session = session_class(conninfo, client_encoding=client_encoding)
        identity = _identify(session, slot)
        _note_source(store, slot, server, identity, catalog.published_tables(slot.publications))
        if isinstance(session, ReplicationSession) and slot.temporary:
            can_prepare = bool(slot.options.get("two_phase", True)) and server.version >= 150000
            two_phase = can_prepare and server.max_prepared_transactions > 0
            started = session.create_temporary_slot(slot.name, two_phase=two_phase)
            incarnation = temporary_incarnation(store, lease, slot, identity, started)
        else:
            facts = _free(catalog, slot, facts)
            two_phase, recovering = bool(facts.two_phase), bool(server.in_recovery)
            fork_of = partial(session.fork_point, identity.timeline)
            incarnation = incarnation_of(
                store, lease, slot, identity, facts, in_recovery=recovering, fork_of=fork_of
            )
        options = _options(server, slot, two_phase)
        user_types = _start(session, slot, catalog, incarnation, options)
    except BaseException:
        if session is not None:
            session.close()
        catalog.close()
        raise
    return OpenSession(
        session, options, incarnation, identity.system_identifier, encoding, catalog,
        slot.plugin, slot.options, NamedTables(catalog.named_table),
        WalEnd(identity.xlog_position, catalog.position), user_types,
    )  # fmt: skip


def _encodings(server: ServerFacts, slot: SlotRow) -> tuple[str, str]:
    client_encoding, encoding = encodings_for(server.encoding)
    if slot.plugin != "pgoutput":
        # The other plugins write in the database's encoding, whatever the session's is.
        encoding = codec_of(server.encoding)
    return client_encoding, encoding


def _identify(session: SourceSession, slot: SlotRow) -> SystemIdentity:
    """Return the server's identity; one that hides its identifier counts as the known server."""
    with cut_after(_ANSWER_SECONDS, session.connection):
        identity = session.identify()
    identifier = identity.system_identifier or slot.system_identifier or "unknown"
    return replace(identity, system_identifier=identifier)


def _options(server: ServerFacts, slot: SlotRow, two_phase: bool) -> StreamOptions:
    options = slot.options
    return choose(
        server.version, slot.publications, options, slot_two_phase=two_phase, owned=slot.owned
    )


def _start(
    session: SourceSession,
    slot: SlotRow,
    catalog: SourceCatalog,
    incarnation: SessionIncarnation,
    options: StreamOptions,
) -> Mapping[int, UserType]:
    """Start the stream at the stored checkpoint; return the types that a binary stream needs."""
    binary = options.binary and slot.plugin == "pgoutput"
    user_types = catalog.user_types() if binary else {}
    arguments = plugin_arguments(slot.plugin, options, slot.options)
    with cut_after(_ANSWER_SECONDS, session.connection):
        session.start(slot.name, incarnation.checkpoint_lsn, arguments)
    return user_types


def _check(server: ServerFacts, facts: SlotFacts | None, slot: SlotRow) -> None:
    """Raise ``SourceProblem`` for what would fail anyway, with a clearer text than the server's."""
    if server.version < OLDEST_VERSION:
        raise SourceProblem(
            "unsupported",
            f"PostgreSQL {server.version_text} has no logical replication with pgoutput",
            "replview needs PostgreSQL 10 or later, and is tested with 12 to 18",
        )
    if server.wal_level != "logical":
        raise no_logical(server.wal_level)
    if slot.temporary:
        return
    if facts is None:
        raise trouble("slot_missing", slot=slot.name)
    if facts.wal_status == "lost" or facts.invalidation_reason:
        raise lost(slot.name, facts.invalidation_reason)
    if facts.plugin != slot.plugin:
        raise SourceProblem(
            "slot_other_plugin",
            f"the output plugin of slot {slot.name} is {facts.plugin}, not {slot.plugin} as before",
            "Create another slot for replview",
        )
    if facts.database != server.database:
        raise SourceProblem(
            "slot_other_database",
            f"the slot {slot.name} belongs to another database of this server",
            "Give the source the DSN of that database",
        )


def _free(catalog: SourceCatalog, slot: SlotRow, facts: SlotFacts | None) -> SlotFacts:
    """Return the slot's facts once no session reads it: until then its position may change."""
    assert facts is not None
    if facts.active:
        # The reader may have been the receiver's previous session, which has just closed.
        _, facts = catalog.facts(slot.name)
    if facts is None or facts.active:
        raise trouble("slot_in_use", slot=slot.name)
    return facts


def _note_source(
    store: psycopg.Connection[Any],
    slot: SlotRow,
    server: ServerFacts,
    identity: SystemIdentity,
    published_tables: int | None,
) -> None:
    """Store the server's facts, and the number of published tables, for the pages."""
    store.execute(
        """
        UPDATE source SET server_version = %s, system_identifier = %s, timeline = %s,
            encoding = %s, in_recovery = %s, max_slot_wal_keep_bytes = %s,
            idle_slot_timeout_seconds = %s, hot_standby_feedback = %s, checked_at = now()
        WHERE id = %s
        """,
        [server.version, identity.system_identifier, identity.timeline, server.encoding,
         server.in_recovery, server.max_slot_wal_keep_bytes, server.idle_slot_timeout_seconds,
         server.hot_standby_feedback, slot.source_id],
    )  # fmt: skip
    store.execute(
        "UPDATE slot SET published_tables = %s WHERE id = %s", [published_tables, slot.id]
    )

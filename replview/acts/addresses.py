"""An address tried before it is used: which server and database it leads to, and what may be done
there.
"""

from dataclasses import dataclass, field

import psycopg

from replview.catalog.connections import connected
from replview.catalog.problems import SourceProblem, explain
from replview.catalog.server import ServerFacts, read_server_facts
from replview.catalog.slots import SlotFacts, read_slots
from replview.receiver.sessions.interface import SystemIdentity
from replview.receiver.sessions.walsender import ReplicationSession
from replview.store.models import Slot, Source, SourceLook
from replview.store.reachable import check_address

#: For everything that is asked of a server that is tried.
_DEADLINE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Tried:
    """What a server told. Holds no secret."""

    server: ServerFacts
    #: By name.
    slots: dict[str, SlotFacts]
    #: Whether the connection was encrypted.
    tls: bool
    #: As a walsender's session is told; None: not tried, or refused.
    identity: SystemIdentity | None = None
    #: Why no walsender's session can be had; None: it can, or was not tried.
    replication: SourceProblem | None = None
    #: Where its present timeline left earlier ones: ``{timeline: LSN}``.
    forks: dict[int, int] = field(default_factory=dict)


def try_address(
    conninfo: str, *, replication: bool, timelines: frozenset[int] = frozenset()
) -> Tried:
    """Connect and look; nothing is changed there. Raises ``SourceProblem`` and ``DSNError``.

    ``timelines``: those of which it is asked where they were left.
    """
    check_address(conninfo)
    try:
        with connected(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            server = read_server_facts(connection)
            slots = {slot.slot_name: slot for slot in read_slots(connection)}
            tls = connection.pgconn.ssl_in_use
    except psycopg.Error as error:
        raise explain(error, conninfo) from None
    if not replication:
        return Tried(server, slots, tls)
    try:
        session = ReplicationSession(conninfo)
        try:
            identity = session.identify()
            forks = {
                timeline: int(fork)
                for timeline in timelines
                if timeline != identity.timeline
                and (fork := session.fork_point(identity.timeline, timeline)) is not None
            }
        finally:
            session.close()
    except psycopg.Error as error:
        return Tried(server, slots, tls, replication=explain(error, conninfo))
    return Tried(server, slots, tls, identity=identity, forks=forks)


def needs_walsender(source: Source) -> bool:
    """Whether any of its slots is read through a replication connection."""
    return bool(
        Slot.objects.filter(source=source, interface=Slot.Interface.WALSENDER)
        .exclude(desired=Slot.Desired.REMOVING)
        .exists()
    )


def check_same_place(source: Source, tried: Tried) -> None:
    """Raise ``SourceProblem`` unless it is the server and the database that the source is, as far
    as both are told.
    """
    known, told = source.system_identifier, tried.server.system_identifier
    if tried.identity is not None and tried.identity.system_identifier:
        told = tried.identity.system_identifier
    if known not in (None, "", "unknown") and told is not None and told != known:
        raise SourceProblem(
            "other_server",
            f"this is another cluster (system identifier {told}) than {source} was ({known})",
            f"To read that one from now on, move the source: replview source move {source} DSN",
        )
    database = database_of(source)
    if database is None:
        # Never sampled: its slots are of its database.
        names = Slot.objects.filter(source=source, temporary=False).values_list("name", flat=True)
        theirs = {tried.slots[name].database for name in names if name in tried.slots}
        database = next(iter(theirs - {tried.server.database}), None)
    if database is not None and database != tried.server.database:
        raise SourceProblem(
            "other_database",
            f"this is database {tried.server.database}, {source} is {database}",
            "Name that database, or add this one as a source of its own",
        )


def database_of(source: Source) -> str | None:
    """The database a source reads, as last told by its server; None: it never told."""
    look = SourceLook.objects.filter(source=source).first()
    told = (look.holders or {}).get("database") if look is not None else None
    return str(told) if told else None

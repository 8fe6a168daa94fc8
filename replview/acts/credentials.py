"""Try an address before it is used, and change the credentials of a source.

New credentials are tried on the same server and database, sealed, and then used.
"""

from dataclasses import dataclass, field
from typing import Any

import psycopg
from django.db import transaction
from django.utils import timezone
from psycopg import conninfo as libpq

from replview.acts.noting import log_slot, note_source
from replview.acts.publications import remaining_slots
from replview.catalog.connections import reading
from replview.catalog.plan.plan import Plan
from replview.catalog.problems import SourceProblem, explain
from replview.catalog.server import ServerFacts, read_server_facts
from replview.catalog.slots import SlotFacts, read_slots
from replview.receiver.incarnation import SystemIdentity
from replview.receiver.sessions.walsender import ReplicationSession
from replview.store.dsn import address_of, full_conninfo, resolve, set_dsn
from replview.store.models import Slot, Source, SourceLook
from replview.store.reachable import DSNError, check_address
from replview.store.slot_control import reopen_all

#: Deadline of all queries to the server that is tried.
_DEADLINE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Tried:
    """The answers of a server. Holds no secret."""

    server: ServerFacts
    #: The server's slots by name.
    slots: dict[str, SlotFacts]
    #: True when the connection was encrypted.
    tls: bool
    #: The answer of IDENTIFY_SYSTEM; None where not tried, or refused.
    identity: SystemIdentity | None = None
    #: Why no replication connection is possible; None where it is, or was not tried.
    replication: SourceProblem | None = None
    #: The ends of earlier timelines in its current one: ``{timeline: LSN}``.
    forks: dict[int, int] = field(default_factory=dict)


def try_address(
    conninfo: str, *, replication: bool, timelines: frozenset[int] = frozenset()
) -> Tried:
    """Connect and read facts without any change. Raises ``SourceProblem``, ``DSNError``.

    ``timelines``: the server is asked where these ended.
    """
    check_address(conninfo)
    with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
        server = read_server_facts(connection)
        slots = {slot.slot_name: slot for slot in read_slots(connection)}
        tls = connection.pgconn.ssl_in_use
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
    """Return whether any slot of the source is read through a replication connection."""
    return remaining_slots(source).filter(interface=Slot.Interface.WALSENDER).exists()


def check_same_place(source: Source, tried: Tried) -> None:
    """Raise ``SourceProblem`` unless this is the cluster and database of the source.

    An unknown identifier or database is not compared.
    """
    known_identifier, identifier = source.system_identifier, tried.server.system_identifier
    if tried.identity is not None and tried.identity.system_identifier:
        identifier = tried.identity.system_identifier
    if known_identifier not in (None, "", "unknown") and identifier not in (None, known_identifier):
        raise SourceProblem(
            "other_server",
            f"this is not the cluster of {source}: its system identifier is {identifier}, not "
            f"{known_identifier}",
            f"To read this cluster from now on, move the source: replview source move {source} DSN",
        )
    database = database_of(source)
    if database is None:
        # The source was never sampled, so take the database of its slots.
        names = Slot.objects.filter(source=source, temporary=False).values_list("name", flat=True)
        slot_databases = {tried.slots[name].database for name in names if name in tried.slots}
        database = next(iter(slot_databases - {tried.server.database}), None)
    if database is not None and database != tried.server.database:
        raise SourceProblem(
            "other_database",
            f"this is database {tried.server.database}, but {source} is database {database}",
            f"Give the address of database {database}, or add this database as another source",
        )


def database_of(source: Source) -> str | None:
    """Return the database that the source's server last reported; None where it never did."""
    sampled = SourceLook.objects.filter(source=source).first()
    database = (sampled.holders or {}).get("database") if sampled is not None else None
    return str(database) if database else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The new credentials; an empty field stays as it is. ``repr()`` shows no secret."""

    #: A whole address, in the form that ``source add`` takes.
    dsn: str = field(default="", repr=False)
    #: The role to connect as.
    user: str = ""
    password: str = field(default="", repr=False)
    #: The place of a password that is kept elsewhere: ``env:NAME`` or ``file:/path``.
    password_ref: str = ""

    @property
    def given(self) -> bool:
        """Return whether any field is new."""
        return bool(self.dsn or self.user or self.password or self.password_ref)


def plan_credentials(source: Source) -> Plan:
    """Plan the change of credentials without asking the source."""
    running = Slot.objects.filter(source=source, desired=Slot.Desired.RUNNING).count()
    receivers = {0: "No receiver is running", 1: "Its receiver reconnects"}
    return Plan(
        title=f"Change the credentials of {source}",
        on=source.name,
        consequences=(
            "replview tries the new credentials first. They must lead to the same cluster and "
            "database and, if a slot is read through a replication connection, allow one. "
            "Credentials that do not work are not stored.",
            f"{receivers.get(running, f'Its {running} receivers reconnect')}"
            f"{' within two seconds; no change is lost' if running else ''}. The next sample uses "
            "the new credentials; no worker restarts.",
            "The password is encrypted with this instance's key and never shown again. The former "
            "password is deleted here. The server's password does not change: change it there "
            "with ALTER ROLE … PASSWORD.",
        ),
    )


def set_credentials(source: Source, new: Credentials, *, by: str) -> Tried:
    """Try the credentials, then seal and store them.

    Raises ``SourceProblem`` and ``DSNError``, and changes nothing then.
    """
    candidate = _candidate(source, new)
    tried = try_address(full_conninfo(candidate), replication=needs_walsender(source))
    check_same_place(source, tried)
    if tried.replication is not None:
        raise tried.replication.anew()
    take_into_use(source, candidate)
    given_fields = [
        name for name in ("dsn", "user", "password", "password_ref") if getattr(new, name)
    ]
    write_down(
        source, by, "credentials", "The credentials of the source were changed.", what=given_fields
    )
    return tried


def take_into_use(source: Source, candidate: Source, **facts: Any) -> None:
    """Give the source the candidate's address, and make its receivers reconnect.

    Raises ``SourceProblem`` where the address was changed while the candidate was tried.
    """
    former, address = address_of(source), address_of(candidate)
    no_problem = {"problem_code": "", "problem_cause": "", "problem_remedy": ""}
    with transaction.atomic():
        unchanged = Source.objects.filter(pk=source.pk, **former)
        if not unchanged.update(**address, **no_problem, **facts):
            raise SourceProblem(
                "changed",
                f"another user has changed the address of {source} in the meantime",
                "Nothing was changed: check the address and try again",
            )
        # Do this in the same transaction, so that no receiver starts with the former address.
        reopen_all(source.pk)
    source.refresh_from_db()


def write_down(source: Source, by: str, act: str, message: str, **detail: Any) -> None:
    """Record a change of the address in the source's row, its slots' logs and the access record."""
    Source.objects.filter(pk=source.pk).update(credentials_at=timezone.now(), credentials_by=by)
    for slot in remaining_slots(source):
        log_slot(slot, act, message, by=by)
    note_source(source, act, by=by, **detail)


def candidate_of(source: Source, dsn: str, password_ref: str = "") -> Source:
    """Return an unsaved copy of the source with this address. Raises ``DSNError``."""
    candidate = Source(pk=source.pk, name=source.name)
    set_dsn(candidate, dsn, password_ref, known=source.conninfo, known_ref=source.password_ref)
    return candidate


def _candidate(source: Source, new: Credentials) -> Source:
    if not new.given:
        raise DSNError("no new credentials: give a user, a password, a password reference or a DSN")
    if new.password and new.password_ref:
        raise DSNError("give either a password or a password reference, not both")
    if new.dsn:
        if new.user or new.password:
            raise DSNError(
                "a DSN contains the user and password: give either a DSN, or a user and password"
            )
        return candidate_of(source, new.dsn, new.password_ref)
    if source.conninfo.startswith("env:"):
        raise DSNError(
            f"the whole DSN of {source} is in the environment ({source.conninfo}): change it there "
            "and restart replview, or give a DSN here"
        )
    parts = libpq.conninfo_to_dict(resolve(source.conninfo))
    if new.user:
        parts["user"] = new.user
    if new.password:
        return candidate_of(source, libpq.make_conninfo("", **parts, password=new.password))
    candidate = candidate_of(source, libpq.make_conninfo("", **parts), new.password_ref)
    if not new.password_ref:
        # Only the role is new, so keep the password.
        candidate.sealed_password, candidate.password_ref = (
            source.sealed_password,
            source.password_ref,
        )
    return candidate

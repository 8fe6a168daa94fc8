"""Views of the list of sources, grouped by server, and of one source.

A source's page shows its server, its slots and their readers, its subscribers, and publications.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from replview.access.page import GET, OF_SOURCE, VIEWER, Nav, page
from replview.access.rights import Role, may
from replview.acts.publications import PublicationView, publications_of
from replview.catalog.peekable import PLUGINS
from replview.catalog.problems import SourceProblem
from replview.health.fleet import Fleet, SlotView, SourceView
from replview.health.server_slot import ServerSlot
from replview.health.servers import Cluster, LogicalPair, Server, clusters_of, feeds_of
from replview.health.slot_steps import drop_statement
from replview.health.subscriptions import SubscriptionView, read_subscriptions
from replview.health.watched import OtherView
from replview.store.models import Slot, Source, SourceLook, WatchedSubscription
from replview.ui.managed import EXPECTED, source_for, trouble_of
from replview.ui.shell import fleet_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReader:
    """The reader of a slot, as far as it is known; users choose all these names."""

    #: ``replview``, an application_name, or a subscription's name; empty when unknown.
    name: str = ""
    #: Kind of the reader, such as ``subscription of warehouse``; empty when unknown.
    kind: str = ""
    #: Process id of the walsender while the slot is active.
    pid: int | None = None
    #: Role and address, such as ``reporting from 10.0.0.7``.
    origin: str = ""
    #: True when the subscription is inferred from the slot's name, not reported by the server.
    inferred: bool = False


class Readers:
    """The known subscriptions, by the slot that they read from."""

    def __init__(self) -> None:
        rows = WatchedSubscription.objects.filter(gone_at=None).select_related("source")
        self._by_slot: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for row in rows:
            facts: Mapping[str, object] = row.facts if isinstance(row.facts, dict) else {}
            name = facts.get("subslotname")
            if isinstance(name, str) and name:
                self._by_slot[name].append((row.name, row.source.name))

    def of(self, server: ServerSlot | None, *, ours: bool) -> SlotReader:
        """Return the reader of a slot as it was last seen."""
        if server is None:
            return SlotReader(name="replview" if ours else "")
        application, origin, pid = "", "", None
        if server.active:
            application, pid = server.text("application_name"), server.number("active_pid")
            origin_parts = (server.text("usename"), server.text("client_addr"))
            origin = " from ".join(part for part in origin_parts if part)
        candidates = [
            candidate
            for candidate in self._by_slot[server.name]
            if candidate[1] != server.source.name
        ]
        if ours:
            return SlotReader(name="replview", pid=pid, origin=origin)
        if len(candidates) == 1:
            # A subscription reports its slot's name, but not its publisher.
            subscription, source = candidates[0]
            return SlotReader(name=subscription, kind=f"subscription of {source}", pid=pid,
                              origin=origin, inferred=application != subscription)  # fmt: skip
        kind = "standby or archiver" if server.physical and application else ""
        return SlotReader(name=application, kind=kind, pid=pid, origin=origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class OurSlot:
    """A slot that replview receives."""

    view: SlotView
    reader: SlotReader

    @property
    def stopped(self) -> bool:
        """Return whether the slot is stopped."""
        return self.view.slot.desired == Slot.Desired.STOPPED

    @property
    def leaving(self) -> bool:
        """Return whether the slot is being removed, or is temporary."""
        return self.view.slot.desired == Slot.Desired.REMOVING or self.view.slot.temporary


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSlot:
    """A slot that replview does not receive."""

    view: OtherView
    reader: SlotReader
    #: Statement that drops a slot without reader, to copy; replview never runs it.
    drop: str
    #: True when the slot can be adopted: logical, of this database, and not being read.
    adoptable: bool


@dataclass(slots=True, kw_only=True)
class SourcePage:
    """The page of one source."""

    view: SourceView
    cluster: Cluster
    server: Server
    #: Name of the database as the server reported it; empty before that.
    database: str
    #: The way replview signs in, such as ``a password, encrypted with this instance's key``.
    credentials: str
    ours: list[OurSlot] = field(default_factory=list)
    others: list[OtherSlot] = field(default_factory=list)
    feeds: list[LogicalPair] = field(default_factory=list)
    subscriptions: list[SubscriptionView] = field(default_factory=list)

    @property
    def source(self) -> Source:
        """Return the source."""
        return self.view.source

    @property
    def siblings(self) -> list[SourceView]:
        """Return the other sources of the same cluster."""
        return [source for source in self.cluster.sources if source is not self.view]


def build_page(fleet: Fleet, source: Source) -> SourcePage:
    """Build the page of a source from the fleet's state."""
    view = next(candidate for candidate in fleet.sources if candidate.source.pk == source.pk)
    cluster = next(candidate for candidate in clusters_of(fleet) if view in candidate.sources)
    server = next(candidate for candidate in cluster.servers if view in candidate.sources)
    look = SourceLook.objects.filter(source=source).only("holders").first()
    database = str(((look.holders if look else None) or {}).get("database") or "")
    readers = Readers()
    return SourcePage(
        view=view,
        cluster=cluster,
        server=server,
        database=database,
        credentials=credentials_words(source),
        ours=[OurSlot(view=slot, reader=readers.of(slot.server, ours=True)) for slot in view.slots],
        others=[_other_slot(other, readers, database, fleet.now) for other in view.others],
        feeds=feeds_of(fleet).get(source.name, []),
        subscriptions=read_subscriptions({source.pk: source}, fleet.now, fleet.stale_after),
    )


def credentials_words(source: Source) -> str:
    """Return in words how replview signs in, without a secret."""
    if source.conninfo.startswith("env:"):
        return f"the connection string is in the variable {source.conninfo.removeprefix('env:')}"
    kind, _, place = source.password_ref.partition(":")
    if kind in ("env", "file"):
        return f"a password in the {'variable' if kind == 'env' else 'file'} {place}"
    if source.sealed_password:
        return "a password, encrypted with this instance's key"
    for parameter, place in (
        ("service=", "a service file of replview's user"),
        ("passfile=", "a password file of replview's user"),
        ("sslcert=", "a client certificate"),
    ):
        if parameter in source.conninfo:
            return place
    return "no password: pg_hba.conf, or ~/.pgpass of replview's user"


def _other_slot(view: OtherView, readers: Readers, database: str, now: datetime) -> OtherSlot:
    server = view.server
    # Trust only a recent sample: the slot may be read again since an old one.
    unread = server.active is False and server.fresh(now) and not server.synced
    logical = not server.physical and server.plugin in PLUGINS
    return OtherSlot(
        view=view,
        reader=readers.of(server, ours=False),
        drop=drop_statement(server) if unread else "",
        adoptable=unread
        and logical
        and not view.lost
        and not server.temporary
        and database in ("", server.database),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesPage:
    """The list of all sources, grouped by cluster, worst first."""

    #: Worst level of all sources; ``idle`` without a source.
    level: str
    title: str
    cause: str
    next_step: str
    clusters: list[Cluster]
    #: Logical replication between sources, by name of either source.
    feeds: dict[str, list[LogicalPair]]


def list_sources(fleet: Fleet) -> SourcesPage:
    """Build the list of all sources."""
    empty = not fleet.sources
    return SourcesPage(
        level="idle" if empty else fleet.sources[0].level,
        title="No sources yet." if empty else fleet.source_count(),
        cause="Nothing is read or recorded." if empty else fleet.summary_sentence(),
        next_step="add one." if empty else "",
        clusters=clusters_of(fleet),
        feeds=feeds_of(fleet),
    )


@page(GET, role=VIEWER, nav=Nav(group="", label="Sources", icon="source", count="sources"))
def sources(request: HttpRequest) -> HttpResponse:
    """Show a block for each source, worst first, with its slots; group sources by cluster."""
    content = {"page": list_sources(fleet_of(request)), "is_admin": may(request.user, Role.ADMIN)}
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "sources/list.html" if htmx else "sources/sources.html", content)


@page(GET, role=VIEWER, nav="sources", of=OF_SOURCE)
def source(request: HttpRequest, source_name: str) -> HttpResponse:
    """Show one source; for htmx only the part that is refreshed."""
    row = source_for(request, source_name, Role.VIEWER)
    fleet = fleet_of(request)
    content = {
        "page": build_page(fleet, row),
        "is_admin": may(request.user, Role.ADMIN, row.pk),
        "is_operator": may(request.user, Role.OPERATOR, row.pk),
    }
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "sources/_source.html" if htmx else "sources/source.html", content)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationsPage:
    """The publications of a source's database."""

    source: Source
    views: tuple[PublicationView, ...] = ()
    #: The problem that prevented reading them; None without one.
    trouble: SourceProblem | None = None


def read_publications_page(source: Source) -> PublicationsPage:
    """Read the publications, or return the problem that prevents it."""
    try:
        return PublicationsPage(source=source, views=tuple(publications_of(source)))
    except EXPECTED as error:
        return PublicationsPage(source=source, trouble=trouble_of(error))


@page(GET, role=VIEWER, nav="sources", of=OF_SOURCE)
def publications(request: HttpRequest, source_name: str) -> HttpResponse:
    """Show the current publications of the source's database, as a part of its page."""
    row = source_for(request, source_name, Role.VIEWER)
    page = read_publications_page(row)
    htmx = request.headers.get("HX-Request") == "true"
    template = "sources/_publications.html" if htmx else "sources/publications.html"
    return render(request, template, {"page": page})

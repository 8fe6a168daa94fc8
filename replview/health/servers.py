"""This module groups sources by cluster and server, and finds the logical pairs between them.

A primary and its standbys share a system identifier. The start time of a server tells which of them
a source connects to.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from replview.health.fleet import Fleet, SourceView
from replview.store.models import SourceLook, WatchedSubscription
from replview.store.same_server import server_of
from replview.text.formats import plural, version_words


@dataclass(slots=True, kw_only=True)
class Server:
    """A running server: a primary or a standby."""

    sources: list[SourceView] = field(default_factory=list)

    @property
    def standby(self) -> bool | None:
        """Return whether the server is a standby; None: never reached."""
        return self.sources[0].source.in_recovery

    @property
    def role(self) -> str:
        """Return ``primary``, ``standby`` or ``not reached yet``."""
        if self.standby is None:
            return "not reached yet"
        return "standby" if self.standby else "primary"

    @property
    def version(self) -> str:
        """Return ``PG 18.4``."""
        return version_words(self.sources[0].source.server_version)


@dataclass(slots=True, kw_only=True)
class Cluster:
    """A cluster is all servers with one system identifier: the primary, then its standbys."""

    #: None where it is unknown; the cluster then has one source.
    system_identifier: str | None
    servers: list[Server] = field(default_factory=list)

    @property
    def sources(self) -> list[SourceView]:
        """Return the sources of all servers of the cluster."""
        return [view for server in self.servers for view in server.sources]

    @property
    def anchor(self) -> int:
        """Return a number that is unique among clusters, for ids in the page."""
        return min(view.source.pk for view in self.sources)

    @property
    def paired(self) -> bool:
        """Return whether both a primary and a standby of the cluster are known."""
        return len({server.standby for server in self.servers} - {None}) > 1

    @property
    def alone(self) -> bool:
        """Return whether the cluster has only one source, so that the page needs no group."""
        return len(self.sources) == 1

    @property
    def words(self) -> str:
        """Return ``1 primary, 2 standbys, 3 sources``."""
        primaries = sum(1 for server in self.servers if server.standby is False)
        standbys = sum(1 for server in self.servers if server.standby)
        unknown = len(self.servers) - primaries - standbys
        parts = [
            plural(number, *noun)
            for number, noun in (
                (primaries, ("primary", "primaries")),
                (standbys, ("standby", "standbys")),
                (unknown, ("server not reached yet", "servers not reached yet")),
            )
            if number
        ]
        return ", ".join([*parts, plural(len(self.sources), "source")])


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalPair:
    """A logical pair: a subscription of one source that reads a slot of another."""

    subscription: str
    #: The source whose database subscribes.
    subscriber: str
    #: The slot that the subscription reads, and the source that has it.
    slot: str
    publisher: str


def clusters_of(fleet: Fleet) -> list[Cluster]:
    """Return the clusters, worst first by the worst source of each."""
    looks = SourceLook.objects.only("source_id", "holders").in_bulk()
    clusters: dict[Hashable, Cluster] = {}
    for view in fleet.sources:
        identifier = view.source.system_identifier
        is_known = identifier not in (None, "", "unknown")
        key: Hashable = ("cluster", identifier) if is_known else ("alone", view.source.pk)
        cluster = clusters.setdefault(
            key, Cluster(system_identifier=identifier if is_known else None)
        )
        _server_for(cluster, view, looks).sources.append(view)
    for cluster in clusters.values():
        cluster.servers.sort(key=lambda server: server.standby is not False)
    return list(clusters.values())


def _server_for(cluster: Cluster, view: SourceView, looks: Mapping[int, SourceLook]) -> Server:
    """Return the server that the source connects to, or a new one where that is unknown."""
    key = server_of(view.source, looks)
    for server in cluster.servers:
        if key is not None and server_of(server.sources[0].source, looks) == key:
            return server
    server = Server()
    cluster.servers.append(server)
    return server


def feeds_of(fleet: Fleet) -> dict[str, list[LogicalPair]]:
    """Return the logical pairs, under the subscriber's name and under the publisher's.

    The connection string of a subscription is secret, so the publisher is the only other source
    that has a slot of the subscription's slot name.
    """
    slots: dict[str, set[str]] = defaultdict(set)
    for view in fleet.views:
        source, _, name = view.full_name.rpartition("/")
        slots[name].add(source)
    pairs: dict[str, list[LogicalPair]] = defaultdict(list)
    for row in WatchedSubscription.objects.filter(gone_at=None).select_related("source"):
        facts = row.facts if isinstance(row.facts, dict) else {}
        slot = facts.get("subslotname")
        publishers = slots.get(slot, set()) - {row.source.name} if isinstance(slot, str) else set()
        if len(publishers) == 1:
            (publisher,) = publishers
            pair = LogicalPair(subscription=row.name, subscriber=row.source.name, slot=str(slot),
                               publisher=publisher)  # fmt: skip
            pairs[row.source.name].append(pair)
            pairs[publisher].append(pair)
    return pairs

"""Sources grouped by the cluster they are databases of, replication pairs tied together.

A primary and its standbys share a system identifier; which running server a source leads to is told
by when that was started.
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
    """One running server: a primary or a standby."""

    sources: list[SourceView] = field(default_factory=list)

    @property
    def standby(self) -> bool | None:
        """Whether it is a standby; None where it was never asked."""
        return self.sources[0].source.in_recovery

    @property
    def role(self) -> str:
        """``primary``, ``standby``, ``not reached yet``."""
        if self.standby is None:
            return "not reached yet"
        return "standby" if self.standby else "primary"

    @property
    def version(self) -> str:
        """``PG 18.4``."""
        return version_words(self.sources[0].source.server_version)


@dataclass(slots=True, kw_only=True)
class Cluster:
    """One system identifier: its primary, then its standbys."""

    #: None: not reported, so it stands alone.
    system_identifier: str | None
    servers: list[Server] = field(default_factory=list)

    @property
    def sources(self) -> list[SourceView]:
        return [view for server in self.servers for view in server.sources]

    @property
    def anchor(self) -> int:
        """Return a number that no other has, for ids in the page."""
        return min(view.source.pk for view in self.sources)

    @property
    def paired(self) -> bool:
        """Whether a primary and a standby of it are both known."""
        return len({server.standby for server in self.servers} - {None}) > 1

    @property
    def alone(self) -> bool:
        """Whether it has one source only, so that nothing is to be grouped."""
        return len(self.sources) == 1

    @property
    def words(self) -> str:
        """``1 primary, 2 standbys``, ``1 primary, 3 databases``."""
        primaries = sum(1 for server in self.servers if server.standby is False)
        standbys = sum(1 for server in self.servers if server.standby)
        unknown = len(self.servers) - primaries - standbys
        parts = [
            plural(number, *words)
            for number, words in (
                (primaries, ("primary", "primaries")),
                (standbys, ("standby", "standbys")),
                (unknown, ("server not reached yet", "servers not reached yet")),
            )
            if number
        ]
        return ", ".join([*parts, plural(len(self.sources), "source")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A logical pair: a subscription of one source that reads a slot of another."""

    subscription: str
    #: The source whose database subscribes.
    subscriber: str
    #: The slot it reads, and where a slot of that name is.
    slot: str
    publisher: str


def clusters_of(fleet: Fleet) -> list[Cluster]:
    """Worst first, as the sources are."""
    looks = SourceLook.objects.only("source_id", "holders").in_bulk()
    found: dict[Hashable, Cluster] = {}
    for view in fleet.sources:
        known = view.source.system_identifier
        is_known = known not in (None, "", "unknown")
        key: Hashable = ("cluster", known) if is_known else ("alone", view.source.pk)
        cluster = found.setdefault(key, Cluster(system_identifier=known if is_known else None))
        _server_for(cluster, view, looks).sources.append(view)
    for cluster in found.values():
        cluster.servers.sort(key=lambda server: server.standby is not False)
    return list(found.values())


def _server_for(cluster: Cluster, view: SourceView, looks: Mapping[int, SourceLook]) -> Server:
    """The running server it leads to; where that is not reported, one of its own."""
    key = server_of(view.source, looks)
    for server in cluster.servers:
        if key is not None and server_of(server.sources[0].source, looks) == key:
            return server
    server = Server()
    cluster.servers.append(server)
    return server


def feeds_of(fleet: Fleet) -> dict[str, list[Feed]]:
    """Return logical pairs by the subscriber's and by the publisher's name. Where a subscription
    reads is not reported (its address is secret): a slot of its name on exactly one other source.
    """
    slots: dict[str, set[str]] = defaultdict(set)
    for view in fleet.views:
        source, _, name = view.full_name.rpartition("/")
        slots[name].add(source)
    found: dict[str, list[Feed]] = defaultdict(list)
    for row in WatchedSubscription.objects.filter(gone_at=None).select_related("source"):
        facts = row.facts if isinstance(row.facts, dict) else {}
        slot = facts.get("subslotname")
        publishers = slots.get(slot, set()) - {row.source.name} if isinstance(slot, str) else set()
        if len(publishers) == 1:
            (publisher,) = publishers
            feed = Feed(subscription=row.name, subscriber=row.source.name, slot=str(slot),
                        publisher=publisher)  # fmt: skip
            found[row.source.name].append(feed)
            found[publisher].append(feed)
    return found

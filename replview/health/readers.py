"""Who reads a slot, by the names that servers tell: an application, a subscription, replview."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from replview.health.server_slot import ServerSlot
from replview.store.models import WatchedSubscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """As far as it is known; every word of it is a name somebody gave."""

    #: ``replview``, an application_name, a subscription's name; empty: nobody known.
    name: str = ""
    #: ``subscription of warehouse``: what it is; empty: just a name.
    kind: str = ""
    #: Process on the source, where somebody reads at this moment.
    pid: int | None = None
    #: ``reporting from 10.0.0.7``: role and address.
    origin: str = ""
    #: Inferred from a name that is the same, and not told by the server.
    inferred: bool = False


class Readers:
    """The subscriptions that are known, asked by the slot they read from."""

    def __init__(self) -> None:
        rows = WatchedSubscription.objects.filter(gone_at=None).select_related("source")
        self._by_slot: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for row in rows:
            facts: Mapping[str, object] = row.facts if isinstance(row.facts, dict) else {}
            name = facts.get("subslotname")
            if isinstance(name, str) and name:
                self._by_slot[name].append((row.name, row.source.name))

    def of(self, server: ServerSlot | None, *, ours: bool) -> Reader:
        """Of a slot as last seen."""
        if server is None:
            return Reader(name="replview" if ours else "")
        told = server.text("application_name") if server.active else ""
        pid = server.number("active_pid") if server.active else None
        origin = _origin(server) if server.active else ""
        found = [one for one in self._by_slot[server.name] if one[1] != server.source.name]
        if ours:
            return Reader(name="replview", pid=pid, origin=origin)
        if len(found) == 1:
            # Which publisher it subscribes to is not told: the slot's name is all there is.
            subscription, source = found[0]
            return Reader(name=subscription, kind=f"subscription of {source}", pid=pid,
                          origin=origin, inferred=told != subscription)  # fmt: skip
        kind = "standby or archiver" if server.physical and told else ""
        return Reader(name=told, kind=kind, pid=pid, origin=origin)


def _origin(server: ServerSlot) -> str:
    role, address = server.text("usename"), server.text("client_addr")
    return f"{role} from {address}" if role and address else role or address

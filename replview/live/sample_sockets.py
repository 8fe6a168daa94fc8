"""The WebSocket of the lag page: tells a browser that sources were sampled, never what was seen.

From the browser: ``watch`` {sources}, ``ping`` {t}. To the browser: ``watching`` {sources},
``sampled`` {source}, ``pong``.
"""

from replview.live.hub import Hub
from replview.live.signing_in import seen_of
from replview.live.watch_sockets import WatchSocket


class SampleSocket(WatchSocket):
    """One browser looking at samples of some sources."""

    things, told_type, thing = "sources", "sampled", "source"

    async def shown(self, identifiers: list[int]) -> list[int]:
        """Sources that are seen."""
        return await seen_of(self.scope, identifiers)

    def hear(self, hub: Hub, identifier: int) -> None:
        """Each new sample of a source."""
        hub.watch_samples(identifier, self.changed)

    async def forget(self, hub: Hub) -> None:
        """None of any source."""
        await hub.unwatch_samples(self.changed)

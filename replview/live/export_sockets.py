"""The WebSocket of the export pages: tells a browser that exports went on, never how far.

From the browser: ``watch`` {exports}, ``ping`` {t}. To the browser: ``watching`` {exports},
``went_on`` {export}, ``pong``.
"""

from replview.live.hub import Hub
from replview.live.watch_sockets import WatchSocket


class ExportSocket(WatchSocket):
    """One browser looking at some exports."""

    things, told_type, thing = "exports", "went_on", "export"

    def hear(self, hub: Hub, identifier: int) -> None:
        """Each step of an export."""
        hub.watch_export(identifier, self.changed)

    async def forget(self, hub: Hub) -> None:
        """None of any export."""
        await hub.unwatch_exports(self.changed)

"""The WebSocket of the export pages: tells a browser that exports went on, never how far.

From the browser: ``watch`` {exports}, ``ping`` {t}. To the browser: ``watching`` {exports},
``went_on`` {export}, ``pong``.
"""

from typing import Any

from channels.auth import get_user
from channels.db import database_sync_to_async

from replview.access.rights import visible_sources
from replview.live.hub import Hub
from replview.live.watch_sockets import WatchSocket
from replview.store.models import Export
from replview.store.models.seen import only_of


@database_sync_to_async
def _seen(user: Any, identifiers: list[int]) -> list[int]:
    with only_of(lambda: visible_sources(user)):
        found = set(Export.objects.filter(pk__in=identifiers).values_list("pk", flat=True))
    return [one for one in identifiers if one in found]


class ExportSocket(WatchSocket):
    """One browser looking at some exports."""

    things, told_type, thing = "exports", "went_on", "export"

    async def shown(self, identifiers: list[int]) -> list[int]:
        """Exports of sources that are seen."""
        user = self.scope.get("user") or await get_user(self.scope)
        return await _seen(user, identifiers)

    def hear(self, hub: Hub, identifier: int) -> None:
        """Each step of an export."""
        hub.watch_export(identifier, self.changed)

    async def forget(self, hub: Hub) -> None:
        """None of any export."""
        await hub.unwatch_exports(self.changed)

"""The WebSockets that only report that an export or a source's samples changed.

From the browser: ``watch`` {things}; to the browser: ``watching`` {things}, and one message for
each change.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from channels.auth import get_user
from channels.db import database_sync_to_async
from django.contrib.auth.models import User

from replview.access.page import OPERATOR, VIEWER, page
from replview.access.rights import visible_sources
from replview.live import events
from replview.live.allowed import seen_of
from replview.live.hub import end, the_hub
from replview.live.json_socket import JSONSocket
from replview.live.watcher import now_ms
from replview.store.models import Export
from replview.store.models.seen import only_of


class WatchSocket(JSONSocket):
    """The socket of one browser that watches several objects of one kind."""

    #: Most objects to watch; a page shows fewer.
    most = 50
    #: The field of the objects in ``watch`` and ``watching``.
    things = ""
    #: The type of the message about a change, and its field with the object.
    change_type = ""
    thing = ""
    #: Returns the channel layer's group of an object's watchers.
    group_of: Callable[[int], str]

    async def connect(self) -> None:
        """Accept the socket and start its tasks."""
        self.waiting: set[int] = set()
        self.woken = asyncio.Event()
        await self.accept()
        self.open = True
        self.tasks = [
            asyncio.create_task(self._send_changes()),
            asyncio.create_task(self.watch_session()),
        ]

    async def disconnect(self, code: int) -> None:
        """Stop watching and end the tasks."""
        self.open = False
        await the_hub().unwatch(self.changed)
        await end(*self.tasks)

    async def hear(self, message: dict[str, Any]) -> None:
        """Watch these objects from now on, and no others."""
        if message["type"] != "watch":
            raise ValueError("not a message")
        identifiers = await self.shown(
            [int(number) for number in message[self.things]][: self.most]
        )
        await the_hub().unwatch(self.changed)
        for identifier in identifiers:
            the_hub().watch(self.group_of(identifier), self.changed)
        await self.send_json({"type": "watching", self.things: identifiers})

    async def shown(self, identifiers: list[int]) -> list[int]:
        """Return the objects among these that the account may see."""
        raise NotImplementedError

    def changed(self, identifier: int) -> None:
        """Note a change that the hub reports; repeated changes before a send become one."""
        self.waiting.add(identifier)
        self.woken.set()

    async def _send_changes(self) -> None:
        with contextlib.suppress(Exception):
            while True:
                await self.woken.wait()
                self.woken.clear()
                changed, self.waiting = self.waiting, set()
                for identifier in sorted(changed):
                    await self.send_json(
                        {"type": self.change_type, self.thing: identifier, "server_ms": now_ms()}
                    )


def _seen_exports(user: User, identifiers: list[int]) -> list[int]:
    with only_of(lambda: visible_sources(user)):
        visible = set(Export.objects.filter(pk__in=identifiers).values_list("pk", flat=True))
    return [identifier for identifier in identifiers if identifier in visible]


@page(role=OPERATOR)
class ExportSocket(WatchSocket):
    """The socket of one browser that watches some exports."""

    things, change_type, thing = "exports", "went_on", "export"
    group_of = staticmethod(events.export_group_of)

    async def shown(self, identifiers: list[int]) -> list[int]:
        """Return the exports among these that the account may see."""
        user = self.scope.get("user") or await get_user(self.scope)
        visible: list[int] = await database_sync_to_async(_seen_exports)(user, identifiers)
        return visible


@page(role=VIEWER)
class SampleSocket(WatchSocket):
    """The socket of one browser that watches the samples of some sources."""

    things, change_type, thing = "sources", "sampled", "source"
    group_of = staticmethod(events.source_group_of)

    async def shown(self, identifiers: list[int]) -> list[int]:
        """Return the sources among these that the account may see."""
        return await seen_of(self.scope, identifiers)

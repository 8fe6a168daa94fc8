"""A WebSocket that tells a browser that something it watches has changed, never how.

From the browser: ``watch`` {things}, ``ping`` {t}. To the browser: ``watching`` {things}, a message
a change, ``pong``.
"""

import asyncio
import contextlib
from typing import Any

import orjson
from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from replview.access.rights import visible_sources
from replview.live import events
from replview.live.allowed import seen_of, signed_in, until_signed_out
from replview.live.hub import Hub, end, the_hub
from replview.live.watcher import now_ms
from replview.store.models import Export
from replview.store.models.seen import only_of

#: More than a page shows.
_MOST = 50
_MESSAGE_LIMIT = 4_000


class WatchSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One browser looking at some things of one kind."""

    #: What is watched, in ``watch`` and ``watching``.
    things = ""
    #: The type of the message about a change, and the name of what changed.
    change_type = ""
    thing = ""
    # Sockets are woken by the hub, in memory: none has a channel of its own.
    channel_layer_alias = "none"

    async def connect(self) -> None:
        """Let in who is signed in."""
        self.tasks: list[asyncio.Task[None]] = []
        self.waiting: set[int] = set()
        self.woken = asyncio.Event()
        self.open = False
        await self.accept()
        if not await signed_in(self.scope):
            await self.close(events.NOT_SIGNED_IN)
            return
        self.open = True
        self.tasks = [
            asyncio.create_task(self._tell()),
            asyncio.create_task(self._watch_session()),
        ]

    async def disconnect(self, code: int) -> None:
        """Hear no more of any."""
        self.open = False
        await self.forget(the_hub())
        await end(*self.tasks)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """One message of the browser."""
        if not self.open:
            return
        try:
            if text_data is None or len(text_data) > _MESSAGE_LIMIT:
                raise ValueError("not a message")
            message = orjson.loads(text_data)
            if message["type"] == "ping":
                await self._send({"type": "pong", "t": message.get("t"), "server_ms": now_ms()})
            elif message["type"] == "watch":
                await self._watch([int(one) for one in message[self.things]][:_MOST])
            else:
                raise ValueError("not a message")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            await self.close(events.NOT_UNDERSTOOD)

    async def shown(self, identifiers: list[int]) -> list[int]:
        """Those of them that whoever asks may know of."""
        raise NotImplementedError

    def hear(self, hub: Hub, identifier: int) -> None:
        """Have ``changed`` called with each change of this one."""
        raise NotImplementedError

    async def forget(self, hub: Hub) -> None:
        """Have it called no longer."""
        raise NotImplementedError

    def changed(self, identifier: int) -> None:
        """From the hub: note it; several of one before it is sent are one."""
        self.waiting.add(identifier)
        self.woken.set()

    async def _watch(self, identifiers: list[int]) -> None:
        hub = the_hub()
        identifiers = await self.shown(identifiers)
        await self.forget(hub)
        for identifier in identifiers:
            self.hear(hub, identifier)
        await self._send({"type": "watching", self.things: identifiers})

    async def _tell(self) -> None:
        with contextlib.suppress(Exception):
            while True:
                await self.woken.wait()
                self.woken.clear()
                changed, self.waiting = self.waiting, set()
                for identifier in sorted(changed):
                    await self._send(
                        {"type": self.change_type, self.thing: identifier, "server_ms": now_ms()}
                    )

    async def _watch_session(self) -> None:
        await until_signed_out(self.scope)
        await self.close(events.NOT_SIGNED_IN)

    async def _send(self, message: dict[str, Any]) -> None:
        await self.send(text_data=orjson.dumps(message).decode())


def _seen(user: Any, identifiers: list[int]) -> list[int]:
    with only_of(lambda: visible_sources(user)):
        found = set(Export.objects.filter(pk__in=identifiers).values_list("pk", flat=True))
    return [one for one in identifiers if one in found]


class ExportSocket(WatchSocket):
    """One browser looking at some exports."""

    things, change_type, thing = "exports", "went_on", "export"

    async def shown(self, identifiers: list[int]) -> list[int]:
        """Exports of sources that are seen."""
        user = self.scope.get("user") or await get_user(self.scope)
        found: list[int] = await database_sync_to_async(_seen)(user, identifiers)
        return found

    def hear(self, hub: Hub, identifier: int) -> None:
        """Each step of an export."""
        hub.watch_export(identifier, self.changed)

    async def forget(self, hub: Hub) -> None:
        """None of any export."""
        await hub.unwatch_exports(self.changed)


class SampleSocket(WatchSocket):
    """One browser looking at samples of some sources."""

    things, change_type, thing = "sources", "sampled", "source"

    async def shown(self, identifiers: list[int]) -> list[int]:
        """Sources that are seen."""
        return await seen_of(self.scope, identifiers)

    def hear(self, hub: Hub, identifier: int) -> None:
        """Each new sample of a source."""
        hub.watch_samples(identifier, self.changed)

    async def forget(self, hub: Hub) -> None:
        """None of any source."""
        await hub.unwatch_samples(self.changed)

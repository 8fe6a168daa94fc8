"""The WebSocket of the lag page: tells a browser that sources were sampled, never what was seen.

From the browser: ``watch`` {sources}, ``ping`` {t}. To the browser: ``watching`` {sources},
``sampled`` {source}, ``pong``.
"""

import asyncio
import contextlib
from typing import Any

import orjson
from channels.generic.websocket import AsyncWebsocketConsumer

from replview.live import events
from replview.live.ending import end
from replview.live.hub import the_hub
from replview.live.signing_in import signed_in, until_signed_out
from replview.live.watcher import now_ms

#: More than a page can draw.
_MOST_SOURCES = 50
_MESSAGE_LIMIT = 4_000


class SampleSocket(AsyncWebsocketConsumer):
    """One browser looking at samples of some sources."""

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
        """Hear no more of any source."""
        self.open = False
        await the_hub().unwatch_samples(self._sampled)
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
                await self._watch([int(one) for one in message["sources"]][:_MOST_SOURCES])
            else:
                raise ValueError("not a message")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            await self.close(events.NOT_UNDERSTOOD)

    async def _watch(self, sources: list[int]) -> None:
        hub = the_hub()
        await hub.unwatch_samples(self._sampled)
        for source_id in sources:
            hub.watch_samples(source_id, self._sampled)
        await self._send({"type": "watching", "sources": sources})

    def _sampled(self, source_id: int) -> None:
        """From the hub: note it; several of one source before it is sent are one."""
        self.waiting.add(source_id)
        self.woken.set()

    async def _tell(self) -> None:
        with contextlib.suppress(Exception):
            while True:
                await self.woken.wait()
                self.woken.clear()
                sources, self.waiting = self.waiting, set()
                for source_id in sorted(sources):
                    await self._send(
                        {"type": "sampled", "source": source_id, "server_ms": now_ms()}
                    )

    async def _watch_session(self) -> None:
        await until_signed_out(self.scope)
        await self.close(events.NOT_SIGNED_IN)

    async def _send(self, message: dict[str, Any]) -> None:
        await self.send(text_data=orjson.dumps(message).decode())

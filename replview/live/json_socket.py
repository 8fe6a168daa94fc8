"""A WebSocket that speaks JSON, open as long as its account may have it.

``ping`` {t} is answered by ``pong``.
"""

from typing import Any

import orjson
from channels.generic.websocket import AsyncWebsocketConsumer

from replview.live import events
from replview.live.allowed import until_signed_out
from replview.live.watcher import now_ms


class JSONSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One browser; each message has a ``type``, and one that is not understood ends the socket."""

    # Sockets are woken by the hub, in memory: none has a channel of its own.
    channel_layer_alias = "none"
    #: Characters of a message.
    most_characters = 4_000
    #: Until whoever opened it was let in, and after the end, nothing is listened to.
    open = False

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if not self.open:
            return
        try:
            if text_data is None or len(text_data) > self.most_characters:
                raise ValueError("not a message")
            message = orjson.loads(text_data)
            if message["type"] == "ping":
                answer = {"type": "pong", "t": message.get("t"), "server_ms": now_ms()}
                await self.send_json(answer)
            else:
                await self.hear(message)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            await self.close(events.NOT_UNDERSTOOD)

    async def hear(self, message: dict[str, Any]) -> None:
        """Handle a message other than ``ping``. Raises ``KeyError`` and the like if malformed."""
        raise NotImplementedError

    async def send_json(self, message: dict[str, Any]) -> None:
        await self.send(text_data=orjson.dumps(message).decode())

    async def watch_session(self, source_id: int | None = None) -> None:
        """Close the socket once its session has ended, or its source is seen no more."""
        await until_signed_out(self.scope, source_id)
        await self.close(events.NOT_SIGNED_IN)

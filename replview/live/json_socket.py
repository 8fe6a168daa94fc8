"""A WebSocket that exchanges JSON and stays open as long as its session lasts.

It answers ``ping`` {t} with ``pong``.
"""

from typing import Any

import orjson
from channels.generic.websocket import AsyncWebsocketConsumer

from replview.live import events
from replview.live.allowed import until_signed_out
from replview.live.watcher import now_ms


class JSONSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """The socket of one browser. Each message has a ``type``; an invalid one closes the socket."""

    # The hub wakes sockets in memory, so they need no channel of their own.
    channel_layer_alias = "none"
    #: Most characters of a message.
    most_characters = 4_000
    #: False before the account was admitted and after the end: messages are ignored then.
    open = False

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Answer a ``ping``, and pass any other message to ``hear``."""
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
        """Handle a message other than ``ping``. Raises e.g. ``KeyError`` if it is malformed."""
        raise NotImplementedError

    async def send_json(self, message: dict[str, Any]) -> None:
        """Send a message as JSON text."""
        await self.send(text_data=orjson.dumps(message).decode())

    async def watch_session(self, source_id: int | None = None) -> None:
        """Close the socket once its session has ended, or its source is no longer visible."""
        await until_signed_out(self.scope, source_id)
        await self.close(events.NOT_SIGNED_IN)

"""Sockets to the real ASGI application, as a browser uses them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from asgiref.testing import ApplicationCommunicator


class WebsocketCommunicator(ApplicationCommunicator):
    """Speaks ASGI's WebSocket messages. (Channels' own needs Daphne to be installed.)"""

    async def connect(self, timeout: float = 5) -> tuple[bool, int | None]:
        """Connect; return whether the application accepted, and otherwise its close code."""
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(timeout)
        return answer["type"] == "websocket.accept", answer.get("code")

    async def send_to(self, text_data: str) -> None:
        """A text message to the application."""
        await self.send_input({"type": "websocket.receive", "text": text_data})

    async def receive_from(self, timeout: float = 5) -> str:
        """The application's next text message."""
        answer = await self.receive_output(timeout)
        assert answer["type"] == "websocket.send", answer
        return answer["text"]

    async def disconnect(self, timeout: float = 5) -> None:
        """Go away."""
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(timeout)


class Socket:
    """A socket as a browser uses it."""

    def __init__(self, communicator: WebsocketCommunicator) -> None:
        self.communicator = communicator

    async def send(self, **message: Any) -> None:
        """Send one message."""
        await self.communicator.send_to(text_data=json.dumps(message))

    async def receive(self, kind: str, *, timeout: float = 5) -> dict[str, Any]:
        """The next message of a kind; others are passed over."""
        while True:
            message = json.loads(await self.communicator.receive_from(timeout=timeout))
            if message["type"] == kind:
                return message

    async def rows(self, wanted: int) -> list[dict[str, Any]]:
        """The rows of as many batches as hold so many."""
        found: list[dict[str, Any]] = []
        async with asyncio.timeout(10):
            while len(found) < wanted:
                found.extend((await self.receive("batch")).get("rows", []))
        return found

    async def start(self, **options: Any) -> dict[str, Any]:
        """Begin; returns the history, or what was missed."""
        await self.send(type="start", **options)
        return await self.receive("caught_up" if options.get("cursor") else "history")


def communicator(slot_id: int, cookie: str, origin: str = "http://localhost") -> Any:
    """A connection to the application, not yet open."""
    from replview.asgi import application

    scope = {
        "type": "websocket",
        "path": f"/ws/live/{slot_id}/",
        "query_string": b"",
        "headers": [
            (b"host", b"localhost"),
            (b"origin", origin.encode()),
            (b"cookie", cookie.encode()),
        ],
        "subprotocols": [],
    }
    return WebsocketCommunicator(application, scope)


@asynccontextmanager
async def connected(slot_id: int, cookie: str) -> AsyncIterator[Socket]:
    """An open socket, closed in the end."""
    opened = communicator(slot_id, cookie)
    accepted, _ = await opened.connect(timeout=5)
    assert accepted
    yield Socket(opened)
    await opened.disconnect(timeout=5)

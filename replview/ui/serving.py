"""Limit requests around the application in a web process, and reduce garbage collection.

A request that is larger, or takes longer to arrive, than any form of replview is cut off. Django
would first write a body of any length to disk. Therefore this stands before it, under ASGI.
"""

import asyncio
import gc
from collections.abc import Mapping

from django.urls import get_resolver

from replview.access.shares import Application, AsgiScope, Receive, Send, refuse

#: Most bytes accepted; Django's own limit applies only to what it parses.
MOST_BYTES = 1_100_000
#: Most seconds until the whole body has arrived.
PATIENCE_SECONDS = 30.0


class BoundedRequests:
    """The ASGI application around another one that refuses large and slow bodies."""

    def __init__(
        self,
        application: Application,
        most_bytes: int = MOST_BYTES,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._application = application
        self._most_bytes = most_bytes
        self._patience_seconds = patience_seconds

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Refuse a request whose Content-Length is too large; count the bytes of any other."""
        lengths = (value for name, value in scope.get("headers", ()) if name == b"content-length")
        if int(next((value[:20] for value in lengths if value.isdigit()), 0)) > self._most_bytes:
            await refuse(send, 413, b"The request is too large.")
            return
        body = _Body(receive, self._most_bytes, self._patience_seconds)
        begun = False

        async def watch(message: Mapping[str, object]) -> None:
            nonlocal begun
            if body.refused:
                return  # because refuse() answers below
            begun = True
            await send(message)

        await self._application(scope, body.receive, watch)
        if body.refused and not begun:
            await refuse(send, *body.refused)


class _Body:
    """The body of a request, counted while it is passed on."""

    def __init__(self, receive: Receive, most_bytes: int, patience_seconds: float) -> None:
        self._receive = receive
        self._left = most_bytes
        self._until = asyncio.get_running_loop().time() + patience_seconds
        self._whole = False
        self.refused: tuple[int, bytes] | None = None

    async def receive(self) -> dict[str, object]:
        """Return the next piece. A refused request looks disconnected to the application."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            return self._refuse(408, b"The request took too long to arrive.")
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._left < 0:
                return self._refuse(413, b"The request is too large.")
        return message

    def _refuse(self, status: int, text: bytes) -> dict[str, object]:
        self.refused = status, text
        return {"type": "http.disconnect"}


def spare_what_stays() -> None:
    """Import all pages and exclude existing objects from garbage collection.

    Call it at a process's start, before its first request.
    """
    # This loads the addresses, and with them the views.
    get_resolver().url_patterns  # noqa: B018
    gc.collect()
    gc.freeze()

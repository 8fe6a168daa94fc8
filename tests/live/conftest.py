"""A fed store, a signed-in session, and sockets to the real ASGI application."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.db import connection
from django.test import Client

from tests.support.feeder import Feeder
from tests.support.people import make_user


def store_dsn() -> str:
    """The test database's address."""
    given = connection.settings_dict
    return (
        f"host={given['HOST']} port={given['PORT']} user={given['USER']}"
        f" password={given['PASSWORD']} dbname={given['NAME']}"
    )


class RecordingPublisher:
    """Takes wake-ups for tests that send none."""

    def wake(self, *arguments: Any, **options: Any) -> None:
        """Forget it."""

    def slot_changed(self, slot_id: int) -> None:
        """Forget it."""

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def quiet_feeder(transactional_db: None) -> Iterator[Feeder]:
    """A feeder that sends no wake-ups."""
    feeder = Feeder(store_dsn(), publisher=RecordingPublisher())
    yield feeder
    feeder.close()


@pytest.fixture
def feeder(transactional_db: None, channel_layer_on_redis: None) -> Iterator[Feeder]:
    """A feeder whose wake-ups go through a real Redis."""
    feeder = Feeder(store_dsn())
    yield feeder
    feeder.close()


@pytest.fixture
def cookie(transactional_db: None) -> str:
    """The cookie of a signed-in session."""
    user = make_user("watcher", password="watcher-password")
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


class WebsocketCommunicator(ApplicationCommunicator):
    """Speaks ASGI's WebSocket messages. (Channels' own needs Daphne to be installed.)"""

    async def connect(self, timeout: float = 5) -> tuple[bool, int | None]:
        """Whether the application accepted, else its close code."""
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

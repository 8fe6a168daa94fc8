"""Whoever watches an export hears that it went on, and nobody of another one."""

import asyncio

import pytest

from replview.asgi import application
from replview.live.publisher import Publisher
from replview.store.models import Export
from tests.support.history_rows import History
from tests.support.sockets import Socket, WebsocketCommunicator

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_exports_watchers_are_woken(cookie: str, channel_layer_on_redis: None) -> None:
    mine, other = (
        Export.objects.create(
            slot=History(name).slot, slot_name="x", slice={}, target="/x", requested_by="watcher",
            requested_how="page",
        ).pk
        for name in ("one", "two")
    )  # fmt: skip

    async def watch(wakes: Publisher) -> int:
        scope = {
            "type": "websocket", "path": "/ws/exports/", "query_string": b"", "subprotocols": [],
            "headers": [(b"host", b"localhost"), (b"origin", b"http://localhost"),
                        (b"cookie", cookie.encode())],
        }  # fmt: skip
        opened = WebsocketCommunicator(application, scope)
        assert (await opened.connect())[0]
        socket = Socket(opened)
        await socket.send(type="watch", exports=[mine, 987_654])
        # The socket does not mention exports that are missing or not visible to this account.
        assert (await socket.receive("watching"))["exports"] == [mine]
        heard = asyncio.ensure_future(socket.receive("went_on", timeout=20))
        # The channel layer knows of the membership a moment later.
        while not heard.done():
            wakes.export_changed(other)
            wakes.export_changed(mine)
            await asyncio.sleep(0.1)
        await opened.disconnect()
        return heard.result()["export"]

    wakes = Publisher()
    try:
        assert asyncio.run(watch(wakes)) == mine
    finally:
        wakes.close()

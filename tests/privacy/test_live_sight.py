"""Live sockets search with the eyes of whoever opened them."""

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.test import Client

from replview.access.mask_making import add_rule, unsaved_rule
from replview.store.models import MaskRule, Source
from tests.support.fed_store import RecordingPublisher, store_dsn
from tests.support.fed_store import quiet_feeder as quiet_feeder  # a fixture
from tests.support.feeder import Feeder, NewChange, NewTransaction
from tests.support.people import make_user
from tests.support.sockets import communicator, connected

pytestmark = pytest.mark.asyncio


def _cookie(**account) -> str:
    client = Client()
    client.force_login(make_user(**account))
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


cookie_of = sync_to_async(_cookie)


async def _found(feeder: Feeder, cookie: str, text: str) -> list[int]:
    async with connected(feeder.slot_id, cookie) as socket:
        return [row["seq"] for row in (await socket.start(filters={"q": text}))["rows"]]


async def test_a_text_is_found_by_who_may_see_it(quiet_feeder: Feeder) -> None:
    feeder = quiet_feeder
    order = NewChange("orders", "I", {"id": "1", "status": "wombat", "note": "dingo"})
    await sync_to_async(feeder.commit)(NewTransaction([order]))
    source = await Source.objects.aget()
    admin = await cookie_of(name="root", role="admin")
    eve = await cookie_of(name="eve", role="viewer", sources=[source], tables=["public.stock"])

    assert await _found(feeder, admin, "wombat") == [1]
    assert await _found(feeder, eve, "wombat") == []
    # A table's name is no value.
    assert await _found(feeder, eve, "orders") == [1]

    await sync_to_async(add_rule)(
        unsaved_rule(table="orders", column="status", when=MaskRule.When.DISPLAY)
    )
    assert await _found(feeder, admin, "wombat") == []
    assert await _found(feeder, admin, "dingo") == [1]


async def test_the_slot_of_a_source_one_does_not_see_is_none(quiet_feeder: Feeder) -> None:
    other = await Source.objects.acreate(name="other", conninfo="")
    eve = await cookie_of(name="eve", role="viewer", sources=[other])
    opened = communicator(quiet_feeder.slot_id, eve)
    assert (await opened.connect())[0]
    message = await opened.receive_output(timeout=5)
    assert (message["type"], message["code"]) == ("websocket.close", 4404)


async def test_nor_is_its_history_told_by_a_socket_of_another(quiet_feeder: Feeder) -> None:
    hidden = quiet_feeder
    order = NewChange("orders", "I", {"id": "1", "status": "wombat"})
    await sync_to_async(hidden.commit)(NewTransaction([order]))
    mine = await sync_to_async(Feeder)(
        store_dsn(), source="other", slot="mine", publisher=RecordingPublisher()
    )
    try:
        await sync_to_async(mine.commit)(NewTransaction([order]))
        source = await Source.objects.aget(name="other")
        eve = await cookie_of(name="eve", role="viewer", sources=[source])
        async with connected(mine.slot_id, eve) as socket:
            assert len((await socket.start())["rows"]) == 1
            for incarnation, told in ((mine.incarnation_id, 1), (hidden.incarnation_id, 0)):
                await socket.send(type="older", incarnation=incarnation, before=99)
                assert len((await socket.receive("older"))["rows"]) == told
                await socket.send(type="fill", incarnation=incarnation, after=0, up_to=99, id="x")
                assert len((await socket.receive("filled"))["rows"]) == told
    finally:
        mine.close()

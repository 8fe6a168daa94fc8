"""The socket: who may watch, what they get, and that nothing is missing in silence."""

import asyncio
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session

from replview.access.accounts import change_password
from replview.access.session_policy import ACTIVE_AT
from replview.live import allowed
from replview.live.hub import the_hub
from replview.live.publisher import Publisher
from tests.support.feeder import Feeder, NewChange, NewTransaction, single
from tests.support.sockets import Socket, communicator, connected

pytestmark = pytest.mark.django_db(transaction=True)


async def commit(feeder: Feeder, *transactions: NewTransaction, **options: Any) -> list[int]:
    """Off the event loop, as a receiver in another process."""
    return await asyncio.to_thread(feeder.commit, *transactions, **options)


async def close_code(opened: Any) -> int:
    """The code the server closes with."""
    accepted, _ = await opened.connect(timeout=5)
    assert accepted
    return (await opened.receive_output(timeout=5))["code"]


async def test_it_asks_for_a_login(feeder: Feeder) -> None:
    assert await close_code(communicator(feeder.slot_id, "")) == 4401


async def test_it_knows_its_slots(feeder: Feeder, cookie: str) -> None:
    assert await close_code(communicator(999, cookie)) == 4404


@pytest.mark.parametrize(
    "origin",
    ["https://elsewhere.example", "null", "", "http://localhost.elsewhere.example", "http://@x"],
)
async def test_another_site_s_page_may_not_watch(feeder: Feeder, cookie: str, origin: str) -> None:
    opened = communicator(feeder.slot_id, cookie, origin=origin)
    accepted, _ = await opened.connect(timeout=5)

    assert not accepted


async def test_it_ends_with_its_session(feeder: Feeder, cookie: str, monkeypatch) -> None:
    monkeypatch.setattr(allowed, "SESSION_SECONDS", 0.05)
    opened = communicator(feeder.slot_id, cookie)
    await opened.connect(timeout=5)
    await database_sync_to_async(Session.objects.all().delete)()
    message = await opened.receive_output(timeout=5)

    assert (message["type"], message["code"]) == ("websocket.close", 4401)


async def test_it_ends_at_once_with_its_account(feeder: Feeder, cookie: str) -> None:
    opened = communicator(feeder.slot_id, cookie)
    await opened.connect(timeout=5)
    user = await User.objects.aget(username="watcher")
    await asyncio.sleep(0.3)
    await database_sync_to_async(change_password)(user, "another-long-odd-0815", by_owner=True)
    sender = Publisher()
    sender.account_changed(user.pk)
    await asyncio.to_thread(sender.close)
    message = await opened.receive_output(timeout=5)

    assert (message["type"], message["code"]) == ("websocket.close", 4401)


def _be_idle(seconds: int) -> None:
    """Have the one session look unused for so long."""
    session = SessionStore(Session.objects.get().session_key)
    session[ACTIVE_AT] -= seconds
    session.save()


async def test_a_login_that_is_over_opens_none(feeder: Feeder, cookie: str, settings) -> None:
    settings.SESSION_IDLE_SECONDS = 60
    await database_sync_to_async(_be_idle)(61)
    assert await close_code(communicator(feeder.slot_id, cookie)) == 4401


async def test_what_it_does_not_understand_ends_it(feeder: Feeder, cookie: str) -> None:
    for text in ("{", "[]", '{"type": "nonsense"}', '{"type": "ack", "n": "x"}', '{"type": []}'):
        opened = communicator(feeder.slot_id, cookie)
        await opened.connect(timeout=5)
        await opened.send_to(text_data=text)
        message = await opened.receive_output(timeout=5)
        assert (message["type"], message["code"]) == ("websocket.close", 4400), text


async def test_a_commit_arrives(feeder: Feeder, cookie: str) -> None:
    await commit(feeder, single())
    async with connected(feeder.slot_id, cookie) as socket:
        history = await socket.start(cursor=None)
        await commit(feeder, single())
        (row,) = await socket.rows(1)

    assert [row["seq"] for row in history["rows"]] == [1]
    assert (row["seq"], row["state"]) == (2, "committed")
    assert row["tables"] == ["public.payments"]
    assert '<code class="cut">payments</code>' in row["cells"]


async def test_the_store_is_read_once_for_many_sockets(feeder: Feeder, cookie: str) -> None:
    opened = [communicator(feeder.slot_id, cookie) for _ in range(8)]
    for each in opened:
        await each.connect(timeout=5)
    many = [Socket(each) for each in opened]
    for socket in many:
        await socket.start(cursor=None)
    feed = the_hub().feed(feeder.slot_id)
    assert feed is not None
    before = feed.reads
    await commit(feeder, single())
    for socket in many:
        assert len(await socket.rows(1)) == 1

    assert feed.reads - before <= 2  # one for the wake-up, perhaps one of the poll
    for each in opened:
        await each.disconnect()
    assert the_hub().feed(feeder.slot_id) is None


async def test_a_lost_wake_up_is_made_good_by_the_poll(feeder: Feeder, cookie: str) -> None:
    async with connected(feeder.slot_id, cookie) as socket:
        await socket.start(cursor=None)
        await asyncio.sleep(0.3)
        await commit(feeder, single(), wake=False)

        assert [row["seq"] for row in await socket.rows(1)] == [1]


async def test_what_was_missed_is_filled(feeder: Feeder, cookie: str) -> None:
    await commit(feeder, *(single() for _ in range(61)))
    cursor = {"incarnation": feeder.incarnation_id, "commit_seq": 0}
    async with connected(feeder.slot_id, cookie) as socket:
        answer = await socket.start(cursor=cursor)
        await commit(feeder, single())
        live = await socket.rows(1)

    assert [row["seq"] for row in answer["rows"]] == list(range(1, 62))
    assert (answer["missed"], answer["searched_to"]) == (61, 0)
    assert [row["seq"] for row in live] == [62]


async def test_what_is_too_much_to_fill_is_named(feeder: Feeder, cookie: str) -> None:
    await commit(feeder, *(single() for _ in range(1200)))
    cursor = {"incarnation": feeder.incarnation_id, "commit_seq": 100}
    async with connected(feeder.slot_id, cookie) as socket:
        answer = await socket.start(cursor=cursor)
        first = [row["seq"] for row in answer["rows"]]
        await socket.send(
            type="fill", id="gap", after=100, up_to=answer["searched_to"],
            incarnation=feeder.incarnation_id,
        )  # fmt: skip
        more = await socket.receive("filled")

    assert first == list(range(701, 1201))
    assert answer["searched_to"] == 700
    assert [row["seq"] for row in more["rows"]] == list(range(201, 701))
    assert (more["id"], more["searched_to"]) == ("gap", 200)


async def test_a_new_incarnation_of_the_slot_is_reported(feeder: Feeder, cookie: str) -> None:
    async with connected(feeder.slot_id, cookie) as socket:
        answer = await socket.start(cursor={"incarnation": 12345, "commit_seq": 7})

    assert answer["new_incarnation"] is True


async def test_a_browser_that_does_not_keep_up_is_told_how_many_were_folded(
    feeder: Feeder, cookie: str
) -> None:
    async with connected(feeder.slot_id, cookie) as socket:
        await socket.start(cursor=None, acks=True)
        seen: list[int] = []
        for _ in range(30):
            await commit(feeder, *(single() for _ in range(20)))
            await asyncio.sleep(0.03)
        numbers = []
        for _ in range(4):
            batch = await socket.receive("batch")
            numbers.append(batch["n"])
            seen.extend(row["seq"] for row in batch.get("rows", []))
        # Four are under way: nothing more comes until it says it has shown them.
        assert await socket.communicator.receive_nothing(timeout=0.5)
        await socket.send(type="ack", n=numbers[-1])
        batch = await socket.receive("batch")

    folded = batch["folded"]
    assert folded["exact"]
    assert folded["from"] == seen[-1] + 1
    assert folded["count"] == folded["to"] - folded["from"] + 1
    assert batch["rows"][0]["seq"] == folded["to"] + 1


async def test_filters_are_applied_on_the_server(feeder: Feeder, cookie: str) -> None:
    update = NewChange("orders", "U", {"id": "1", "status": "shipped"})
    message = NewChange(None, "M", {"prefix": "p", "content": "hello"})
    await commit(
        feeder,
        single(),
        NewTransaction([update], actor="alice", grade="claimed"),
        NewTransaction([update], origin="pos"),
        NewTransaction([message], state="message"),
        NewTransaction([update], state="aborted"),
    )
    wanted = {
        "tables": ("public.payments", [1]),
        "ops": ("U", [2, 3, "aborted"]),
        "actor": ("alice", [2]),
        "origin": ("pos", [3]),
        "q": ("SHIPPED", [2, 3, "aborted"]),
        "states": ("message", [4]),
    }
    async with connected(feeder.slot_id, cookie) as socket:
        await socket.start(cursor=None)
        for word, (value, expected) in wanted.items():
            await socket.send(type="filters", filters={word: value})
            rows = (await socket.receive("history"))["rows"]
            found = [row["seq"] if row["placed"] else row["state"] for row in rows]
            assert sorted(map(str, found)) == sorted(map(str, expected)), word


async def test_live_rows_are_filtered_too(feeder: Feeder, cookie: str) -> None:
    async with connected(feeder.slot_id, cookie) as socket:
        await socket.start(cursor=None, filters={"q": "needle"})
        await commit(
            feeder,
            single(),
            NewTransaction([NewChange("orders", "I", {"id": "1", "note": "a needle here"})]),
        )
        rows = await socket.rows(1)

    assert [row["seq"] for row in rows] == [2]


async def test_a_pause_counts_and_a_new_start_fills(feeder: Feeder, cookie: str) -> None:
    async with connected(feeder.slot_id, cookie) as socket:
        history = await socket.start(cursor=None)
        await socket.send(type="pause")
        await socket.send(type="ping", t=1)
        await socket.receive("pong")
        await commit(feeder, *(single() for _ in range(7)))
        held = 0
        while held < 7:
            batch = await socket.receive("batch")
            assert "rows" not in batch
            held = batch.get("held", held)
        answer = await socket.start(cursor=history["cursor"])

    assert [row["seq"] for row in answer["rows"]] == list(range(1, 8))


async def test_open_transactions_grow_and_drop_into_the_list(feeder: Feeder, cookie: str) -> None:
    opened = await asyncio.to_thread(
        feeder.open,
        NewTransaction(state="streaming", streamed=True, counts={"price_list": [0, 10, 0, 0]}),
    )
    async with connected(feeder.slot_id, cookie) as socket:
        await socket.start(cursor=None)
        while not (batch := await socket.receive("batch")).get("open"):
            pass
        (first,) = batch["open"]
        await asyncio.to_thread(feeder.grow, opened, "price_list", 90)
        while (batch := await socket.receive("batch")).get("open", [first])[0]["changes"] == 10:
            pass
        grown = batch["open"][0]
        await asyncio.to_thread(feeder.end, opened, "aborted")
        (ended,) = await socket.rows(1)

    assert (first["state"], grown["changes"]) == ("streaming", 100)
    assert (ended["id"], ended["state"]) == (str(opened), "aborted")
    assert ended["placed"] is False


@pytest.mark.parametrize("states", ["open", "streaming", "streaming,prepared"])
async def test_open_ones_are_shown_when_only_they_are_asked_for(
    feeder: Feeder, cookie: str, states: str
) -> None:
    await commit(feeder, *(single() for _ in range(5)))
    counts = {"price_list": [0, 10, 0, 0]}
    opened = NewTransaction(state="streaming", streamed=True, counts=counts)
    await asyncio.to_thread(feeder.open, opened)
    async with connected(feeder.slot_id, cookie) as socket:
        history = await socket.start(cursor=None, filters={"states": states})
        while not (batch := await socket.receive("batch")).get("open"):
            pass

    assert (history["rows"], history["searched_to"]) == ([], 0)
    assert [row["state"] for row in batch["open"]] == ["streaming"]


async def test_the_number_of_published_tables_is_told(feeder: Feeder, cookie: str) -> None:
    await asyncio.to_thread(
        feeder.connection.execute, "UPDATE slot SET published_tables = 7 WHERE id = %s",
        [feeder.slot_id],
    )  # fmt: skip
    async with connected(feeder.slot_id, cookie) as socket:
        await socket.start(cursor=None)
        while not (slot := (await socket.receive("batch")).get("slot")):
            pass

    assert slot["published_tables"] == 7


async def test_lines_of_the_slot_s_log_come_in_order(feeder: Feeder, cookie: str) -> None:
    await commit(feeder, single())
    await asyncio.to_thread(feeder.event, "gap", "Slot re-created; not recorded")
    await commit(feeder, single())
    async with connected(feeder.slot_id, cookie) as socket:
        history = await socket.start(cursor=None)
        await asyncio.to_thread(feeder.event, "schema", "orders changed: version 2")
        while not (batch := await socket.receive("batch")).get("markers"):
            pass

    assert [(m["what"], m["seq"]) for m in history["markers"]] == [("gap", 1)]
    assert [(m["what"], m["seq"]) for m in batch["markers"]] == [("schema", 2)]


async def test_older_ones_are_read_from_the_store(feeder: Feeder, cookie: str) -> None:
    await commit(feeder, *(single() for _ in range(450)))
    async with connected(feeder.slot_id, cookie) as socket:
        history = await socket.start(cursor=None)
        await socket.send(type="older", before=251, incarnation=feeder.incarnation_id)
        older = await socket.receive("older")

    assert [history["rows"][0]["seq"], history["rows"][-1]["seq"]] == [251, 450]
    assert [older["rows"][0]["seq"], older["rows"][-1]["seq"]] == [51, 250]

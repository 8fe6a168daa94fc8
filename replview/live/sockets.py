"""The WebSocket of the live page: who may watch, and what a browser may ask for.

From the browser: ``start`` {cursor, filters, acks}, ``filters`` {filters}, ``pause``, ``older``
{before}, ``fill`` {after, up_to, id}, ``ack`` {n}, ``ping`` {t}. To the browser: ``history``,
``caught_up``, ``batch``, ``older``, ``filled``, ``pong``.
"""

import asyncio
import contextlib
import logging
from typing import Any

import orjson
from channels.auth import get_user
from channels.db import DatabaseSyncToAsync
from channels.generic.websocket import AsyncWebsocketConsumer

from replview.access.visibility import use_visibility
from replview.jobs import drafts
from replview.live import events, reading, stretches
from replview.live.allowed import signed_in, until_signed_out, visibility_of
from replview.live.filters import Filters
from replview.live.hub import Feed, end, the_hub
from replview.live.stretches import Stretch
from replview.live.watcher import Watcher, cursor_of, now_ms
from replview.store.models import Slot
from replview.store.write.access_record import Action, Via, Visit, first_look, note, use_visit

log = logging.getLogger(__name__)

#: Transactions sent when a page opens, and with each "load older".
HISTORY_ROWS = 200
#: Transactions filled in at once after a lost connection or a pause.
FILL_ROWS = 500
_MESSAGE_LIMIT = 64_000


class LiveSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One browser watching one slot."""

    # Sockets are woken by the hub, in memory: none has a channel of its own.
    channel_layer_alias = "none"

    async def connect(self) -> None:
        """Let in who is signed in and asks for a slot there is."""
        self.slot_id = int(self.scope["url_route"]["kwargs"]["slot_id"])
        self.feed: Feed | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.watcher = Watcher(self.send_json)
        await self.accept()
        if not await signed_in(self.scope):
            await self.close(events.NOT_SIGNED_IN)
            return
        visibility = self.watcher.visibility = await visibility_of(self.scope)
        if not await reading.shown_slot(self.slot_id, visibility):
            await self.close(events.NO_SUCH_SLOT)
        else:
            await note_opened(self.scope, self.slot_id)
            self.feed = await the_hub().subscribe(self.slot_id, self.watcher)
            self.tasks = [
                asyncio.create_task(self._until_closed(self.watcher.send_batches())),
                asyncio.create_task(self._until_closed(self._watch_session())),
                asyncio.create_task(
                    self._until_closed(keep_watched(self.slot_id, self.scope["user"].pk))
                ),
            ]

    async def disconnect(self, code: int) -> None:
        """Leave the feed and end this socket's tasks."""
        if self.feed is not None:
            await the_hub().unsubscribe(self.slot_id, self.watcher)
        await end(*self.tasks)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """One message of the browser."""
        if self.feed is None:
            return
        try:
            if text_data is None or len(text_data) > _MESSAGE_LIMIT:
                raise ValueError("not a message")
            message = orjson.loads(text_data)
            handler = self._handlers[message["type"]]
            with use_visibility(self.watcher.visibility):
                await handler(self, message, self.feed)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            await self.close(events.NOT_UNDERSTOOD)

    async def send_json(self, message: dict[str, Any]) -> None:
        """Send one message to the browser."""
        await self.send(text_data=orjson.dumps(message).decode())

    async def _start(self, message: dict[str, Any], feed: Feed) -> None:
        """Begin, or go on from a cursor: nothing between it and now is left out in silence."""
        self.watcher.acknowledges = bool(message.get("acks"))
        self.watcher.filters = Filters.from_words(message.get("filters") or {})
        cursor = message.get("cursor")
        if not cursor:
            await self._send_history(feed)
            return
        # News from here on waits in the mailbox; what was before is read from the store.
        self.watcher.start(feed)
        now = cursor_of(feed)
        incarnation_id, seen = int(cursor["incarnation"]), int(cursor["commit_seq"])
        if incarnation_id != now["incarnation"]:
            await self.send_json({"type": "caught_up", "new_life": True, "cursor": now})
            await self._send_history(feed)
            return
        missed = max(0, now["commit_seq"] - seen)
        found = None
        if missed:
            found = await stretches.between(
                self.slot_id,
                incarnation_id,
                seen,
                now["commit_seq"],
                self.watcher.filters,
                FILL_ROWS,
            )
        await self.send_json(
            {
                "type": "caught_up",
                "cursor": now,
                "after": seen,
                "missed": missed,
                **_rows(found),
            }
        )
        self.watcher.go()

    async def _change_filters(self, message: dict[str, Any], feed: Feed) -> None:
        self.watcher.filters = Filters.from_words(message.get("filters") or {})
        await self._send_history(feed)

    async def _send_history(self, feed: Feed) -> None:
        """The last transactions the filters let through; live ones follow without a hole."""
        self.watcher.start(feed)
        now = cursor_of(feed)
        found = None
        if now["incarnation"]:
            found = await stretches.before(
                self.slot_id,
                now["incarnation"],
                now["commit_seq"] + 1,
                self.watcher.filters,
                HISTORY_ROWS,
            )
        await self.send_json(
            {"type": "history", "cursor": now, "server_ms": now_ms(), **_rows(found)}
        )
        self.watcher.go()

    async def _pause(self, message: dict[str, Any], feed: Feed) -> None:
        self.watcher.hold()

    async def _older(self, message: dict[str, Any], feed: Feed) -> None:
        found = await stretches.before(
            self.slot_id,
            int(message["incarnation"]),
            int(message["before"]),
            self.watcher.filters,
            HISTORY_ROWS,
        )
        await self.send_json({"type": "older", **_rows(found)})

    async def _fill(self, message: dict[str, Any], feed: Feed) -> None:
        after, up_to = int(message["after"]), int(message["up_to"])
        incarnation_id = int(message["incarnation"])
        found = await stretches.between(
            self.slot_id, incarnation_id, after, up_to, self.watcher.filters, FILL_ROWS
        )
        await self.send_json(
            {"type": "filled", "id": str(message.get("id", "")), "after": after, **_rows(found)}
        )

    async def _ack(self, message: dict[str, Any], feed: Feed) -> None:
        self.watcher.acknowledge(int(message["n"]))

    async def _ping(self, message: dict[str, Any], feed: Feed) -> None:
        await self.send_json({"type": "pong", "t": message.get("t"), "server_ms": now_ms()})

    _handlers = {
        "start": _start,
        "filters": _change_filters,
        "pause": _pause,
        "older": _older,
        "fill": _fill,
        "ack": _ack,
        "ping": _ping,
    }

    async def _watch_session(self) -> None:
        """Close the socket once its session has ended, or its source is seen no more."""
        slot = await reading.slot_in_thread(self.slot_id)
        await until_signed_out(self.scope, None if slot is None else slot.source_id)
        await self.close(events.NOT_SIGNED_IN)

    async def _until_closed(self, work: Any) -> None:
        """Run a task of this socket; a connection that went away ends it quietly."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # Each server says in its own way that the browser is gone.
            log.info("live socket ends: %s", type(error).__name__)
            with contextlib.suppress(Exception):
                await self.close()


def _rows(found: Stretch | None) -> dict[str, Any]:
    if found is None:
        return {"rows": [], "markers": [], "searched_to": 0, "searched": 0}
    return {
        "rows": [summary.data for summary in found.rows],
        "markers": found.markers,
        "searched_to": found.searched_to,
        "searched": found.searched,
    }


async def note_opened(scope: dict[str, Any], slot_id: int) -> None:
    """Somebody watches this slot from now on."""
    user = scope.get("user") or await get_user(scope)
    address = str((scope.get("client") or ("",))[0] or "")
    await _in_thread(user, address, slot_id)


def _note(user: Any, address: str, slot_id: int) -> None:
    slot = Slot.objects.select_related("source").filter(pk=slot_id).first()
    if slot is None or not first_look((Action.VIEWED_ROWS, user.pk, address, "live", slot_id)):
        return
    with use_visit(Visit(lambda: user, via=Via.SOCKET, address=address, page=lambda: "live")):
        note(Action.VIEWED_ROWS, subject=f"{slot}, live", source_id=slot.source_id)


_in_thread = DatabaseSyncToAsync(_note, thread_sensitive=False)


#: Often enough for a watch that ends after a minute without.
SAW_SECONDS = 10.0

_saw = DatabaseSyncToAsync(drafts.saw, thread_sensitive=False)


async def keep_watched(slot_id: int, user_id: int | None) -> None:
    """Say so from time to time; returns at once for any other slot, and when the watch is over."""
    while user_id is not None and await _saw(slot_id, user_id):
        await asyncio.sleep(SAW_SECONDS)

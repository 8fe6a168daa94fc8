"""The WebSockets: that of the live page, and those that say only that something has changed.

Of the live page, from the browser: ``start`` {cursor, filters, acks}, ``filters`` {filters},
``pause``, ``older`` {before}, ``fill`` {after, up_to, id}, ``ack`` {n}. To the browser:
``history``, ``caught_up``, ``batch``, ``older``, ``filled``. Of the others, from the browser:
``watch`` {things}; to the browser: ``watching`` {things}, and a message a change. Of all:
``ping`` {t}, answered by ``pong``.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import orjson
from channels.auth import get_user
from channels.db import DatabaseSyncToAsync, database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth.models import User
from django.urls import URLPattern, path

from replview.access.page import OPERATOR, VIEWER, page
from replview.access.rights import visible_sources
from replview.access.visibility import use_visibility
from replview.jobs import drafts
from replview.live import events, reading, stretches
from replview.live.allowed import guarded, seen_of, until_signed_out, visibility_of
from replview.live.filters import LiveFilter
from replview.live.hub import Feed, end, the_hub
from replview.live.stretches import Stretch
from replview.live.watcher import Watcher, cursor_of, now_ms
from replview.store.models import Export, Slot
from replview.store.models.seen import only_of
from replview.store.read.visibility import Visibility
from replview.store.write.access_record import Action, Via, Visit, is_new, note, use_visit

log = logging.getLogger(__name__)
#: Transactions sent when a page opens, and with each "load older".
HISTORY_ROWS = 200
#: Transactions filled in at once after a lost connection or a pause.
FILL_ROWS = 500
#: Often enough for a watch that ends after a minute without.
SAW_SECONDS = 10.0
_saw = DatabaseSyncToAsync(drafts.saw, thread_sensitive=False)


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


class WatchSocket(JSONSocket):
    """One browser looking at some things of one kind."""

    #: More than a page shows.
    most = 50
    #: What is watched, in ``watch`` and ``watching``.
    things = ""
    #: The type of the message about a change, and the name of what changed.
    change_type = ""
    thing = ""
    #: The channel layer's group of those who watch one of them.
    group_of: Callable[[int], str]

    async def connect(self) -> None:
        self.waiting: set[int] = set()
        self.woken = asyncio.Event()
        await self.accept()
        self.open = True
        self.tasks = [
            asyncio.create_task(self._send_changes()),
            asyncio.create_task(self.watch_session()),
        ]

    async def disconnect(self, code: int) -> None:
        self.open = False
        await the_hub().unwatch(self.changed)
        await end(*self.tasks)

    async def hear(self, message: dict[str, Any]) -> None:
        """Watch these objects from now on, and no others."""
        if message["type"] != "watch":
            raise ValueError("not a message")
        identifiers = await self.shown([int(one) for one in message[self.things]][: self.most])
        await the_hub().unwatch(self.changed)
        for identifier in identifiers:
            the_hub().watch(self.group_of(identifier), self.changed)
        await self.send_json({"type": "watching", self.things: identifiers})

    async def shown(self, identifiers: list[int]) -> list[int]:
        """Return those of them that the account may see."""
        raise NotImplementedError

    def changed(self, identifier: int) -> None:
        """From the hub: note it; several of one before it is sent are one."""
        self.waiting.add(identifier)
        self.woken.set()

    async def _send_changes(self) -> None:
        with contextlib.suppress(Exception):
            while True:
                await self.woken.wait()
                self.woken.clear()
                changed, self.waiting = self.waiting, set()
                for identifier in sorted(changed):
                    await self.send_json(
                        {"type": self.change_type, self.thing: identifier, "server_ms": now_ms()}
                    )


def _seen_exports(user: User, identifiers: list[int]) -> list[int]:
    with only_of(lambda: visible_sources(user)):
        found = set(Export.objects.filter(pk__in=identifiers).values_list("pk", flat=True))
    return [one for one in identifiers if one in found]


@page(role=OPERATOR)
class ExportSocket(WatchSocket):
    """One browser looking at some exports."""

    things, change_type, thing = "exports", "went_on", "export"
    group_of = staticmethod(events.export_group_of)

    async def shown(self, identifiers: list[int]) -> list[int]:
        user = self.scope.get("user") or await get_user(self.scope)
        found: list[int] = await database_sync_to_async(_seen_exports)(user, identifiers)
        return found


@page(role=VIEWER)
class SampleSocket(WatchSocket):
    """One browser looking at samples of some sources."""

    things, change_type, thing = "sources", "sampled", "source"
    group_of = staticmethod(events.source_group_of)

    async def shown(self, identifiers: list[int]) -> list[int]:
        return await seen_of(self.scope, identifiers)


@page(role=VIEWER)
class LiveSocket(JSONSocket):
    """One browser watching one slot."""

    most_characters = 64_000

    async def connect(self) -> None:
        self.slot_id = int(self.scope["url_route"]["kwargs"]["slot_id"])
        self.feed: Feed | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.watcher = Watcher(self.send_json)
        await self.accept()
        visibility = self.watcher.visibility = await visibility_of(self.scope)
        slot = await reading.shown_slot(self.slot_id, visibility)
        self.watcher.tells_sizes = not await database_sync_to_async(_is_restricted)(visibility)
        if slot is None:
            await self.close(events.NO_SUCH_SLOT)
            return
        await note_opened(self.scope, slot)
        self.feed = await the_hub().subscribe(self.slot_id, self.watcher)
        self.open = True
        works = (
            self.watcher.send_batches(),
            self.watch_session(slot.source_id),
            keep_watched(self.slot_id, self.scope["user"].pk),
        )
        self.tasks = [asyncio.create_task(self._until_closed(work)) for work in works]

    async def disconnect(self, code: int) -> None:
        if self.feed is not None:
            await the_hub().unsubscribe(self.slot_id, self.watcher)
        await end(*self.tasks)

    async def hear(self, message: dict[str, Any]) -> None:
        assert self.feed is not None
        with use_visibility(self.watcher.visibility):
            await self._handlers[message["type"]](self, message, self.feed)

    async def _start(self, message: dict[str, Any], feed: Feed) -> None:
        """Begin, or go on from a cursor: nothing between it and now is left out in silence."""
        self.watcher.acknowledges = bool(message.get("acks"))
        self.watcher.filters = LiveFilter.from_words(message.get("filters") or {})
        cursor = message.get("cursor")
        if not cursor:
            await self._send_history(feed)
            return
        # News from here on waits in the mailbox; what was before is read from the store.
        self.watcher.start(feed)
        now = cursor_of(feed)
        incarnation_id, seen = int(cursor["incarnation"]), int(cursor["commit_seq"])
        if incarnation_id != now["incarnation"]:
            await self.send_json({"type": "caught_up", "new_incarnation": True, "cursor": now})
            await self._send_history(feed)
            return
        missed = max(0, now["commit_seq"] - seen)
        found = None
        if missed:
            up_to, filters = now["commit_seq"], self.watcher.filters
            found = await stretches.between(
                self.slot_id, incarnation_id, seen, up_to, filters, FILL_ROWS
            )
        state = {"type": "caught_up", "cursor": now, "after": seen, "missed": missed}
        await self.send_json({**state, **_rows(found)})
        self.watcher.go()

    async def _change_filters(self, message: dict[str, Any], feed: Feed) -> None:
        self.watcher.filters = LiveFilter.from_words(message.get("filters") or {})
        await self._send_history(feed)

    async def _send_history(self, feed: Feed) -> None:
        """The last transactions the filters let through; live ones follow without a hole."""
        self.watcher.start(feed)
        now = cursor_of(feed)
        found = None
        if now["incarnation"]:
            found = await self._before(now["incarnation"], now["commit_seq"] + 1)
        await self.send_json(
            {"type": "history", "cursor": now, "server_ms": now_ms(), **_rows(found)}
        )
        self.watcher.go()

    async def _pause(self, message: dict[str, Any], feed: Feed) -> None:
        self.watcher.hold()

    async def _older(self, message: dict[str, Any], feed: Feed) -> None:
        found = await self._before(int(message["incarnation"]), int(message["before"]))
        await self.send_json({"type": "older", **_rows(found)})

    async def _before(self, incarnation_id: int, place: int) -> Stretch:
        found: Stretch = await stretches.before(
            self.slot_id, incarnation_id, place, self.watcher.filters, HISTORY_ROWS
        )
        return found

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

    _handlers = {
        "start": _start,
        "filters": _change_filters,
        "pause": _pause,
        "older": _older,
        "fill": _fill,
        "ack": _ack,
    }

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


def _is_restricted(visibility: Visibility) -> bool:
    return visibility.restricted


def _rows(found: Stretch | None) -> dict[str, Any]:
    found = found or Stretch([], [], searched_to=0, searched=0)
    return {
        "rows": [summary.data for summary in found.rows],
        "markers": found.markers,
        "searched_to": found.searched_to,
        "searched": found.searched,
    }


async def note_opened(scope: dict[str, Any], slot: Slot) -> None:
    user = scope.get("user") or await get_user(scope)
    address = str((scope.get("client") or ("",))[0] or "")
    await _note_in_thread(user, address, slot)


def _note(user: User, address: str, slot: Slot) -> None:
    if not is_new((Action.VIEWED_ROWS, user.pk, address, "live", slot.pk)):
        return
    with use_visit(Visit(lambda: user, via=Via.SOCKET, address=address, page=lambda: "live")):
        note(Action.VIEWED_ROWS, subject=f"{slot}, live", source_id=slot.source_id)


_note_in_thread = DatabaseSyncToAsync(_note, thread_sensitive=False)


async def keep_watched(slot_id: int, user_id: int | None) -> None:
    """Note it again from time to time, until the watch is over; of another slot return at once."""
    while user_id is not None and await _saw(slot_id, user_id):
        await asyncio.sleep(SAW_SECONDS)


def _socket(route: str, consumer: object) -> URLPattern:
    return path(route, guarded(consumer))  # type: ignore[arg-type]


websocket_urlpatterns = [
    _socket("ws/live/<int:slot_id>/", LiveSocket),
    _socket("ws/samples/", SampleSocket),
    _socket("ws/exports/", ExportSocket),
]

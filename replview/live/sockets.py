"""The WebSocket of the live page, and the addresses of all sockets.

From the browser: ``start`` {cursor, filters, acks}, ``filters`` {filters}, ``pause``, ``older``
{before}, ``fill`` {after, up_to, id}, ``ack`` {n}. To the browser: ``history``, ``caught_up``,
``batch``, ``older``, ``filled``.
"""

import asyncio
import contextlib
import logging
from typing import Any

from channels.auth import get_user
from channels.db import DatabaseSyncToAsync, database_sync_to_async
from django.contrib.auth.models import User
from django.urls import URLPattern, path

from replview.access.page import VIEWER, page
from replview.access.visibility import use_visibility
from replview.jobs import drafts
from replview.live import events, reading, stretches
from replview.live.allowed import guarded, visibility_of
from replview.live.filters import LiveFilter
from replview.live.hub import SlotFeed, end, the_hub
from replview.live.json_socket import JSONSocket
from replview.live.stretches import HistoryPiece
from replview.live.watch_sockets import ExportSocket, SampleSocket
from replview.live.watcher import Watcher, cursor_of, now_ms
from replview.store.models import Slot
from replview.store.read.visibility import Visibility
from replview.store.write.access_record import Action, Via, Visit, is_new, note, use_visit

log = logging.getLogger(__name__)
#: Most transactions sent when a page opens, and with each "load older".
HISTORY_ROWS = 200
#: Most transactions filled in at once after a lost connection or a pause.
FILL_ROWS = 500
#: Seconds between two marks of an open page; a watch ends after a minute without a mark.
SAW_SECONDS = 10.0
_note_open_page = DatabaseSyncToAsync(drafts.saw, thread_sensitive=False)


@page(role=VIEWER)
class LiveSocket(JSONSocket):
    """The socket of one browser that watches one slot."""

    most_characters = 64_000

    async def connect(self) -> None:
        """Accept the socket, subscribe to the slot's feed and start the tasks."""
        self.slot_id = int(self.scope["url_route"]["kwargs"]["slot_id"])
        self.feed: SlotFeed | None = None
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
        """Unsubscribe from the feed and end the tasks."""
        if self.feed is not None:
            await the_hub().unsubscribe(self.slot_id, self.watcher)
        await end(*self.tasks)

    async def hear(self, message: dict[str, Any]) -> None:
        """Pass a message to the handler of its type."""
        assert self.feed is not None
        with use_visibility(self.watcher.visibility):
            await self._handlers[message["type"]](self, message, self.feed)

    async def _start(self, message: dict[str, Any], feed: SlotFeed) -> None:
        """Begin, or continue from a cursor and report everything missed since."""
        self.watcher.acknowledges = bool(message.get("acks"))
        self.watcher.filters = LiveFilter.from_words(message.get("filters") or {})
        cursor = message.get("cursor")
        if not cursor:
            await self._send_history(feed)
            return
        # News waits in the mailbox from here on. What came before is read from the store.
        self.watcher.start(feed)
        now = cursor_of(feed)
        incarnation_id, last_seq = int(cursor["incarnation"]), int(cursor["commit_seq"])
        if incarnation_id != now["incarnation"]:
            await self.send_json({"type": "caught_up", "new_incarnation": True, "cursor": now})
            await self._send_history(feed)
            return
        missed = max(0, now["commit_seq"] - last_seq)
        piece = None
        if missed:
            up_to, filters = now["commit_seq"], self.watcher.filters
            piece = await stretches.between(
                self.slot_id, incarnation_id, last_seq, up_to, filters, FILL_ROWS
            )
        state = {"type": "caught_up", "cursor": now, "after": last_seq, "missed": missed}
        await self.send_json({**state, **self._rows(piece)})
        self.watcher.go()

    async def _change_filters(self, message: dict[str, Any], feed: SlotFeed) -> None:
        self.watcher.filters = LiveFilter.from_words(message.get("filters") or {})
        await self._send_history(feed)

    async def _send_history(self, feed: SlotFeed) -> None:
        """Send the last transactions that pass the filters; live ones follow without a gap."""
        self.watcher.start(feed)
        now = cursor_of(feed)
        piece = None
        if now["incarnation"]:
            piece = await self._before(now["incarnation"], now["commit_seq"] + 1)
        await self.send_json(
            {"type": "history", "cursor": now, "server_ms": now_ms(), **self._rows(piece)}
        )
        self.watcher.go()

    async def _pause(self, message: dict[str, Any], feed: SlotFeed) -> None:
        self.watcher.hold()

    async def _older(self, message: dict[str, Any], feed: SlotFeed) -> None:
        piece = await self._before(int(message["incarnation"]), int(message["before"]))
        await self.send_json({"type": "older", **self._rows(piece)})

    async def _before(self, incarnation_id: int, place: int) -> HistoryPiece:
        piece: HistoryPiece = await stretches.before(
            self.slot_id, incarnation_id, place, self.watcher.filters, HISTORY_ROWS
        )
        return piece

    async def _fill(self, message: dict[str, Any], feed: SlotFeed) -> None:
        after, up_to = int(message["after"]), int(message["up_to"])
        incarnation_id = int(message["incarnation"])
        piece = await stretches.between(
            self.slot_id, incarnation_id, after, up_to, self.watcher.filters, FILL_ROWS
        )
        await self.send_json(
            {
                "type": "filled",
                "id": str(message.get("id", "")),
                "after": after,
                **self._rows(piece),
            }
        )

    def _rows(self, piece: HistoryPiece | None) -> dict[str, Any]:
        piece = piece or HistoryPiece([], [], searched_to=0, searched=0)
        return {
            "rows": self.watcher.for_browser(piece.rows),
            "markers": piece.markers,
            "searched_to": piece.searched_to,
            "searched": piece.searched,
        }

    async def _ack(self, message: dict[str, Any], feed: SlotFeed) -> None:
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
        """Run a task of this socket, and close it quietly when the browser is gone."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # Each server raises its own exception when the browser is gone.
            log.info("live socket ends: %s", type(error).__name__)
            with contextlib.suppress(Exception):
                await self.close()


def _is_restricted(visibility: Visibility) -> bool:
    return visibility.restricted


async def note_opened(scope: dict[str, Any], slot: Slot) -> None:
    """Record that the account opened the live page of a slot."""
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
    """Mark a watch's page as open from time to time; return at once for any other slot."""
    while user_id is not None and await _note_open_page(slot_id, user_id):
        await asyncio.sleep(SAW_SECONDS)


def _socket(route: str, consumer: object) -> URLPattern:
    return path(route, guarded(consumer))  # type: ignore[arg-type]


websocket_urlpatterns = [
    _socket("ws/live/<int:slot_id>/", LiveSocket),
    _socket("ws/samples/", SampleSocket),
    _socket("ws/exports/", ExportSocket),
]

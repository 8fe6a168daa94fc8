"""The hub of a web process hears wake-ups, reads the store once, and notifies all sockets.

A feed is the task of one slot. The channel layer wakes it, or its own poll where a wake-up was
lost. It reads what is new in a thread and delivers it in memory. Further wake-ups during a read
coalesce into one more read.
"""

import asyncio
import contextlib
import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from channels.layers import channel_layers
from django.db import Error as DatabaseError

from replview.live import reading
from replview.live.events import SLOT, Wake, group_of
from replview.live.reading import Position, ReadResult, TextSearch
from replview.live.summaries import TableNames

log = logging.getLogger(__name__)

#: Seconds between two polls for lost wake-ups, and most seconds of age of the slot's state.
POLL_SECONDS = 2.0
#: Least seconds between two reads of one feed.
_PAUSE_SECONDS = 0.02
#: Seconds between two renewals of group memberships, because Redis may have restarted empty.
_RENEW_SECONDS = 10.0
_RATE_SECONDS = 5.0
_hubs: "WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = WeakKeyDictionary()


async def end(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancel tasks and wait for their end; cancel again where a library swallowed it."""
    running = {task for task in tasks if task is not None and not task.done()}
    while running:
        for task in running:
            task.cancel()
        done, running = await asyncio.wait(running, timeout=0.2)
        for task in done:
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not warn


class Subscriber(Protocol):
    """A watcher of a feed."""

    @property
    def search(self) -> TextSearch | None:
        """Return the text to filter by and the account's visibility; None without a text."""

    def deliver(self, news: ReadResult, feed: "SlotFeed") -> None:
        """Take the news of a feed, and return at once."""


class SlotFeed:
    """The task that reads one slot once for all its subscribers."""

    def __init__(self, slot_id: int) -> None:
        self.position = Position(slot_id=slot_id)
        self.slot: dict[str, Any] | None = None
        self.open: list[Any] = []
        self.subscribers: set[Subscriber] = set()
        self.ready = asyncio.Event()
        #: The number of reads, for tests.
        self.reads = 0
        self._names = TableNames()
        self._woken = asyncio.Event()
        self._slot_wanted = self._open_wanted = True
        #: Monotonic time of the last read of the slot's state and the open transactions.
        self._looked_at = 0.0
        self._heads: deque[tuple[float, int]] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def rate(self) -> float | None:
        """Return transactions a second over the last five seconds; None where unknown."""
        if len(self._heads) < 2 or self._heads[-1][0] - self._heads[0][0] < 0.5:
            return None
        (first_at, first), (_last_at, last) = self._heads[0], self._heads[-1]
        return round((last - first) / max(time.monotonic() - first_at, 0.5), 1)

    def note_head(self) -> None:
        """Note the time and the position, from which ``rate`` is computed."""
        now = time.monotonic()
        self._heads.append((now, self.position.commit_seq))
        # Keep the last head before the window, so that the rate stays known after a slow read.
        while len(self._heads) > 2 and now - self._heads[1][0] > _RATE_SECONDS:
            self._heads.popleft()

    def start(self) -> None:
        """Begin to read, from the end of the slot's history."""
        self._task = asyncio.create_task(self._run(), name=f"feed-{self.position.slot_id}")

    async def stop(self) -> None:
        """End the reading task."""
        await end(self._task)

    def wake(self, wake: Wake) -> None:
        """Make the feed read soon, because there is something new."""
        if wake.kind == SLOT or wake.incarnation_id not in (None, self.position.incarnation_id):
            self._slot_wanted = True
        elif not wake.open_changed and 0 < wake.commit_seq <= self.position.commit_seq:
            return
        self._open_wanted = self._open_wanted or wake.open_changed or wake.kind == SLOT
        self._woken.set()

    async def _run(self) -> None:
        while True:
            try:
                if not self.ready.is_set():
                    # Begin at the end of history: each socket reads earlier history by itself.
                    await reading.begin(self.position)
                    self.note_head()
                    self.ready.set()
                await self._read()
            except (DatabaseError, OSError) as error:
                # The store is away. The page shows the receiver's state, and the feed tries again.
                log.warning("live feed cannot read the store: %s", type(error).__name__)
                await asyncio.sleep(1)
            await asyncio.sleep(_PAUSE_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._woken.wait()
            self._woken.clear()
            if time.monotonic() - self._looked_at >= POLL_SECONDS * 0.9:
                self._slot_wanted = self._open_wanted = True

    async def _read(self) -> None:
        with_slot, with_open = self._slot_wanted, self._open_wanted
        self._slot_wanted = self._open_wanted = False
        if with_slot and with_open:
            self._looked_at = time.monotonic()
        # The thread moves a copy of the position. Until delivery the feed keeps the old one, and a
        # socket that starts meanwhile reads history up to it.
        position = replace(self.position)
        incarnation_id = position.incarnation_id
        self.reads += 1
        news = await reading.news(
            position, self._names, with_slot=with_slot, with_open=with_open, texts=self._texts()
        )
        while missing := self._texts() - news.text_hits.keys():
            # A browser began to search for this text during the read.
            await reading.more_hits(news, missing)
        self.position = position
        if self.position.incarnation_id != incarnation_id:
            self._heads.clear()
        self.note_head()
        if news.slot is not None:
            self.slot = news.slot
        if news.open is not None:
            self.open = news.open
        if not news.empty:
            for subscriber in list(self.subscribers):
                subscriber.deliver(news, self)

    def _texts(self) -> set[TextSearch]:
        return {subscriber.search for subscriber in self.subscribers if subscriber.search}


class Hub:
    """The feeds of this process and the one channel that wakes them."""

    def __init__(self) -> None:
        self._feeds: dict[int, SlotFeed] = {}
        self._listener: asyncio.Task[None] | None = None
        self._membership_changed = asyncio.Event()
        self._joined: set[str] = set()
        #: Group → functions to call with the id of what changed. They must return at once.
        self._watchers: dict[str, set[Callable[[int], None]]] = defaultdict(set)

    def feed(self, slot_id: int) -> SlotFeed | None:
        """Return the slot's feed; None where nobody watches it."""
        return self._feeds.get(slot_id)

    async def subscribe(self, slot_id: int, subscriber: Subscriber) -> SlotFeed:
        """Watch a slot, and return the feed once it has its start position."""
        feed = self._feeds.get(slot_id)
        if feed is None:
            feed = self._feeds[slot_id] = SlotFeed(slot_id)
            feed.start()
        self._start_listening()
        await feed.ready.wait()
        feed.subscribers.add(subscriber)
        return feed

    async def unsubscribe(self, slot_id: int, subscriber: Subscriber) -> None:
        """Stop watching. A feed without watchers ends; with the last feed the listener ends."""
        feed = self._feeds.get(slot_id)
        if feed is None:
            return
        feed.subscribers.discard(subscriber)
        if not feed.subscribers:
            del self._feeds[slot_id]
            await feed.stop()
        await self._stop_if_idle()

    def watch(self, group: str, callback: Callable[[int], None]) -> None:
        """Call ``callback`` with its id when the group's source, export or account changes."""
        self._watchers[group].add(callback)
        self._start_listening()

    async def unwatch(self, callback: Callable[[int], None]) -> None:
        """Stop calling ``callback``; the listener ends with the last watcher."""
        for group, watching in list(self._watchers.items()):
            watching.discard(callback)
            if not watching:
                del self._watchers[group]
        await self._stop_if_idle()

    def _start_listening(self) -> None:
        """Listen, and join the groups that are needed now."""
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen(), name="live-hub")
        self._membership_changed.set()

    async def _stop_if_idle(self) -> None:
        if not (self._feeds or self._watchers) and self._listener is not None:
            listener, self._listener = self._listener, None
            await end(listener)

    async def _listen(self) -> None:
        """Receive wake-ups; while Redis is away the feeds poll."""
        while True:
            layer = channel_layers.make_backend("default")
            try:
                await self._receive_wakes(layer)
            except Exception as error:
                # The layer raises many types: OSError, redis errors, timeouts.
                log.warning("live wake-ups cannot be heard (%s); polling", type(error).__name__)
                await asyncio.sleep(1)
            finally:
                if hasattr(layer, "close_pools"):
                    with contextlib.suppress(Exception):
                        await layer.close_pools()

    async def _receive_wakes(self, layer: Any) -> None:
        channel = await layer.new_channel("live")
        joiner = asyncio.create_task(self._join(layer, channel))
        hearing: asyncio.Task[Any] | None = None
        try:
            while True:
                hearing = asyncio.create_task(layer.receive(channel))
                done, _ = await asyncio.wait({hearing, joiner}, return_when=asyncio.FIRST_COMPLETED)
                if joiner in done:
                    joiner.result()
                wake = Wake.from_message(await hearing)
                for callback in list(self._watchers.get(wake.group, ())):
                    callback(wake.source_id or wake.export_id or wake.account_id)
                if feed := self._feeds.get(wake.slot_id):
                    feed.wake(wake)
        finally:
            await end(joiner, hearing)
            with contextlib.suppress(Exception):
                async with asyncio.timeout(1):
                    for group in self._joined:
                        await layer.group_discard(group, channel)

    async def _join(self, layer: Any, channel: str) -> None:
        """Join the groups of everything watched, and renew the membership."""
        while True:
            self._membership_changed.clear()
            groups = {*map(group_of, self._feeds), *self._watchers}
            for group in self._joined - groups:
                await layer.group_discard(group, channel)
            self._joined = groups
            for group in groups:
                await layer.group_add(group, channel)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RENEW_SECONDS):
                    await self._membership_changed.wait()


def the_hub() -> Hub:
    """Return the hub of the running event loop; a web process has one."""
    loop = asyncio.get_running_loop()
    return _hubs.setdefault(loop, Hub())

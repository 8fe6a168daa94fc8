"""The publisher sends wake-ups to web processes, without ever making the receiver wait.

``wake()`` only notes the latest cursor of a slot. A thread with its own event loop sends it:
the first at once, later ones at most ``sends_per_second`` a slot, the latest cursor winning. While
Redis is away wake-ups are dropped; web processes find the changes by polling the store.
"""

import asyncio
import contextlib
import logging
import threading
import time
from typing import Any

from channels.layers import channel_layers
from channels_redis.core import RedisChannelLayer

from replview.live.events import ACCOUNT, EXPORT, SAMPLE, SLOT, Wake
from replview.store.identity import redis_prefix

log = logging.getLogger(__name__)

#: Seconds after which a send is given up, because Redis is away.
_SEND_TIMEOUT_SECONDS = 2.0

#: Seconds without any send after a failed one.
_BACK_OFF_SECONDS = 1.0

#: Seconds after which a web process without a renewed membership is removed.
_MEMBER_SECONDS = 60

#: Seconds in which closing may send what is pending.
_FLUSH_SECONDS = 1.5

_publisher_lock = threading.Lock()


class InstanceChannelLayer(RedisChannelLayer):  # type: ignore[misc]
    """Channels' layer on Redis, under this instance's own keys (``store.identity``).

    The prefix is computed at the first use, because the settings are read without a store.
    """

    def __init__(self, *args: Any, prefix: str | None = None, **options: Any) -> None:
        super().__init__(*args, prefix=prefix or redis_prefix(), **options)


class Publisher:
    """A sender of coalesced wake-ups, in a thread of its own; safe to call from any thread."""

    def __init__(self, layer: Any = None, *, sends_per_second: float = 20.0) -> None:
        self._layer = layer
        self._interval_seconds = 1.0 / sends_per_second
        self._lock = threading.Lock()
        self._pending: dict[str, Wake] = {}
        self._last_sent: dict[str, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._woken: asyncio.Event | None = None
        self._closing = False
        self._away = False

    def wake(
        self, slot_id: int, incarnation_id: int | None, commit_seq: int, open_changed: bool = False
    ) -> None:
        """Note that the store holds something new of a slot; return at once."""
        self._note(Wake(slot_id=slot_id, incarnation_id=incarnation_id, commit_seq=commit_seq,
                        open_changed=open_changed))  # fmt: skip

    def slot_changed(self, slot_id: int) -> None:
        """Note that a slot's state changed or its log got a line; return at once."""
        self._note(Wake(slot_id=slot_id, kind=SLOT))

    def source_sampled(self, source_id: int) -> None:
        """Note that a source's slots have new samples; return at once."""
        self._note(Wake(source_id=source_id, kind=SAMPLE))

    def export_changed(self, export_id: int) -> None:
        """Note that an export made progress or ended; return at once."""
        self._note(Wake(export_id=export_id, kind=EXPORT))

    def account_changed(self, account_id: int) -> None:
        """Note that an account's rights changed, or it was signed out; return at once."""
        self._note(Wake(account_id=account_id, kind=ACCOUNT))

    def close(self) -> None:
        """Send what is pending (for at most 1.5 s) and end the thread."""
        with self._lock:
            self._closing = True
            thread = self._thread
            if self._loop is not None and self._woken is not None:
                self._loop.call_soon_threadsafe(self._woken.set)
        if thread is not None:
            thread.join(timeout=_FLUSH_SECONDS + _SEND_TIMEOUT_SECONDS)

    def _note(self, wake: Wake) -> None:
        with self._lock:
            if self._closing:
                return
            earlier = self._pending.get(wake.group)
            self._pending[wake.group] = earlier.merged_with(wake) if earlier else wake
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="live-publisher", daemon=True
                )
                self._thread.start()
            elif earlier is None and self._loop is not None and self._woken is not None:
                self._loop.call_soon_threadsafe(self._woken.set)

    def _run(self) -> None:
        asyncio.run(self._send_until_closed())

    async def _send_until_closed(self) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._woken = asyncio.Event()
        layer = self._layer or channel_layers.make_backend("default")
        # Hubs renew their membership every 10 s, so a killed web process is removed soon.
        layer.group_expiry = _MEMBER_SECONDS
        try:
            while True:
                due, wait_seconds = self._take_due()
                for wake in due:
                    await self._send(layer, wake)
                if due:
                    continue
                if self._closing and wait_seconds is None:
                    return
                await self._sleep(wait_seconds)
        finally:
            with self._lock:
                self._loop = None
            if hasattr(layer, "close_pools"):
                await layer.close_pools()

    def _take_due(self) -> tuple[list[Wake], float | None]:
        """Return the wake-ups to send now, and the seconds until the next; None without one."""
        now = time.monotonic()
        with self._lock:
            waits = {
                group: 0.0
                if self._closing
                else self._last_sent.get(group, 0.0) + self._interval_seconds - now
                for group in self._pending
            }
            due = [self._pending.pop(group) for group, wait in waits.items() if wait <= 0]
        # A send that no longer holds back the next one of its group is forgotten.
        recent = now - self._interval_seconds
        self._last_sent = {group: at for group, at in self._last_sent.items() if at > recent}
        self._last_sent |= {wake.group: now for wake in due}
        return due, min((wait for wait in waits.values() if wait > 0), default=None)

    async def _sleep(self, seconds: float | None) -> None:
        assert self._woken is not None
        # A new wake-up, or closing, ends the sleep early.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()

    async def _send(self, layer: Any, wake: Wake) -> None:
        """Send one wake-up; drop it when Redis is away."""
        try:
            await asyncio.wait_for(
                layer.group_send(wake.group, wake.to_message()), _SEND_TIMEOUT_SECONDS
            )
        except Exception as error:
            # The layer raises many types (OSError, redis errors, a full channel). Live is optional.
            if not self._away:
                log.warning("live wake-ups cannot be sent (%s); pages poll", type(error).__name__)
            self._away = True
            if not self._closing:
                await asyncio.sleep(_BACK_OFF_SECONDS)
        else:
            if self._away:
                log.info("live wake-ups are sent again")
            self._away = False


_publisher: Publisher | None = None


def publisher() -> Publisher:
    """Return the publisher of this process; wake-ups of all slots share its thread."""
    global _publisher
    with _publisher_lock:
        if _publisher is None:
            _publisher = Publisher()
        return _publisher

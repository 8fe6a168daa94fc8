"""Browsers on the live socket: each speaks as ``static/js/live_page`` does, and notes what comes.

A batch is acknowledged 50 ms after it came, about when a browser has drawn it. A row counts as
received when its batch has arrived.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.benchmarks.processes import Failed
from tests.benchmarks.stack import Stack

_DRAW_SECONDS = 0.05
_PING_SECONDS = 5.0


@dataclass
class Browser:
    """One socket, read by a thread of its own until ``close``."""

    stack: Stack
    #: Milliseconds from commit to receipt, one a transaction.
    latencies_ms: list[float] = field(default_factory=list)
    #: Transactions named by their range instead of being sent: the page was full.
    folded: int = 0
    #: The last place in history heard of.
    commit_seq: int = 0

    def __post_init__(self) -> None:
        self._started = threading.Event()
        self._closing = False
        self._socket: ClientConnection | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._acks: list[tuple[float, int]] = []
        self._pinged_at = time.monotonic()

    def open(self) -> None:
        """Connect, and return once history has come: live transactions follow."""
        self._thread.start()
        if not self._started.wait(20):
            raise Failed("a live socket sent no history within 20 s")

    def close(self) -> None:
        """Leave the page."""
        self._closing = True
        self._thread.join(10)

    def forget(self) -> None:
        """Count anew from here."""
        self.latencies_ms = []
        self.folded = 0

    def _run(self) -> None:
        with connect(
            self.stack.socket_url,
            origin=self.stack.origin,  # type: ignore[arg-type]
            additional_headers={"Cookie": self.stack.cookie},
            max_size=None,
        ) as socket:
            self._send(socket, type="start", acks=True, cursor=None, filters={})
            while not self._closing:
                try:
                    text = socket.recv(timeout=self._until_due())
                except TimeoutError:
                    text = None
                except ConnectionClosed:
                    return
                if text is not None:
                    self._take(orjson.loads(text), time.time() * 1000)
                self._answer(socket)

    def _take(self, message: dict[str, Any], now_ms: float) -> None:
        if message["type"] == "history":
            self._started.set()
        elif message["type"] == "batch":
            for row in message.get("rows", ()):
                if row["placed"] and row["commit_ms"] is not None:
                    self.latencies_ms.append(now_ms - row["commit_ms"])
            if "folded" in message:
                self.folded += message["folded"]["count"]
            self._acks.append((time.monotonic() + _DRAW_SECONDS, message["n"]))
        if message.get("cursor"):
            self.commit_seq = message["cursor"]["commit_seq"] or 0

    def _until_due(self) -> float:
        """Return the seconds until the next acknowledgement is due; 0.5 when none is waiting."""
        due_at = self._acks[0][0] if self._acks else time.monotonic() + 0.5
        return max(0.001, due_at - time.monotonic())

    def _answer(self, socket: ClientConnection) -> None:
        now = time.monotonic()
        drawn = [number for due_at, number in self._acks if due_at <= now]
        if drawn:
            del self._acks[: len(drawn)]
            self._send(socket, type="ack", n=drawn[-1])
        if now - self._pinged_at > _PING_SECONDS:
            self._pinged_at = now
            self._send(socket, type="ping", t=now * 1000)

    @staticmethod
    def _send(socket: ClientConnection, **message: object) -> None:
        socket.send(orjson.dumps(message).decode())


@contextmanager
def browsers(stack: Stack, count: int) -> Iterator[Sequence[Browser]]:
    """Open ``count`` browsers on the slot's live page until the end of the block."""
    with ExitStack() as open_ones:
        found = []
        for _ in range(count):
            browser = Browser(stack)
            browser.open()
            open_ones.callback(browser.close)
            found.append(browser)
        yield found

"""A watcher is one browser's view of a feed: its filters, its mailbox, and its sending rate.

Batches are at least 50 ms apart. A browser that acknowledges them is never more than a few behind:
further news wait in the bounded mailbox, where the oldest are folded.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from replview.access.visibility import current_visibility
from replview.live.filters import LiveFilter
from replview.live.hub import SlotFeed
from replview.live.reading import ReadResult, TextSearch
from replview.live.summaries import Summary
from replview.store.read.visibility import Visibility

#: Most transactions that wait in the mailbox.
ROWS_LIMIT = 100
#: Most transactions in one batch: at twenty batches a second, a browser can draw so many.
BATCH_ROWS = 30
_MARKERS_LIMIT = 50

#: Seconds between two batches: at most twenty a second.
BATCH_SECONDS = 0.05

#: Most batches that an acknowledging browser may have unacknowledged.
UNACKNOWLEDGED = 4

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Mailbox:
    """The bounded queue of the next batch: rows, markers and states.

    When it is full, the oldest transactions are folded: the browser gets only their number and
    their range of commit_seq, with which it can request them.
    """

    def __init__(self, *, rows_limit: int = ROWS_LIMIT) -> None:
        self._rows_limit = rows_limit
        self._rows: deque[Summary] = deque()
        self._markers: deque[dict[str, Any]] = deque(maxlen=_MARKERS_LIMIT)
        self._folded: dict[str, Any] | None = None
        #: States of which only the latest is sent: open transactions, slot, cursor and rate.
        self._latest: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def empty(self) -> bool:
        """Return whether nothing waits."""
        return not (self._rows or self._markers or self._folded or self._latest)

    def put_rows(self, rows: Iterable[Summary]) -> None:
        """Add transactions, oldest first; fold the oldest when there are too many."""
        self._rows.extend(rows)
        while len(self._rows) > self._rows_limit:
            self._fold_row(self._rows.popleft())

    def fold(self, first: int, last: int, count: int, *, exact: bool) -> None:
        """Count transactions that will not be sent. They are later than all folded before.

        ``exact`` is false where it is unknown whether the filter lets them through.
        """
        older = self._folded
        self._folded = {
            "from": older["from"] if older else first,
            "to": last,
            "count": count + (older["count"] if older else 0),
            "exact": exact and (older is None or older["exact"]),
        }

    def _fold_row(self, row: Summary) -> None:
        if row.data["placed"]:
            self.fold(row.data["seq"], row.data["seq"], 1, exact=True)

    def skip(self, first: int, last: int) -> None:
        """Fold an unread range, together with the earlier rows that still wait."""
        for row in self._rows:
            self._fold_row(row)
        self._rows.clear()
        self.fold(first, last, last - first + 1, exact=False)

    def put_markers(self, markers: Iterable[dict[str, Any]]) -> None:
        """Add lines of the slot's log; only the last 50 are kept."""
        self._markers.extend(markers)

    def put_latest(self, **states: Any) -> None:
        """Set a value of which only the latest is sent."""
        self._latest.update(states)

    def take(self, rows: int = BATCH_ROWS) -> dict[str, Any]:
        """Return the next batch, with the oldest rows and everything else that waits."""
        batch: dict[str, Any] = {**self._latest}
        taken = [self._rows.popleft() for _ in range(min(rows, len(self._rows)))]
        if taken:
            batch["rows"] = taken
        if self._markers:
            batch["markers"] = list(self._markers)
        if self._folded:
            batch["folded"] = self._folded
        waiting, cursor = self._rows, self._latest.get("cursor")
        self._markers.clear()
        self._folded, self._latest = None, {}
        if waiting and cursor:
            # A browser that reconnects with this cursor must not miss the rows that still wait.
            next_seq = next(
                (row.data["seq"] for row in waiting if row.data["placed"]), cursor["commit_seq"] + 1
            )
            batch["cursor"] = {**cursor, "commit_seq": min(next_seq - 1, cursor["commit_seq"])}
            self._latest = {"cursor": cursor}
        return batch

    def clear(self) -> None:
        """Drop everything that waits."""
        self._rows.clear()
        self._markers.clear()
        self._folded, self._latest = None, {}


class Watcher:
    """A subscriber that sends a feed's news, filtered for one browser, in batches."""

    def __init__(self, send: Send, visibility: Visibility | None = None) -> None:
        """Take the function that sends; ``visibility`` is that of the browser's user."""
        self.filters = LiveFilter()
        self.visibility = visibility or current_visibility()
        #: False for a restricted user: a transaction's size counts tables that it may not see.
        self.tells_sizes = True
        self.mailbox = Mailbox()
        #: True when the browser sends ``ack``; else only the socket's flow control slows sending.
        self.acknowledges = False
        self._send = send
        self._held: int | None = None
        self._number = 0
        self._acknowledged = 0
        self._wanted = asyncio.Event()
        self._started = False
        self._ready = False

    @property
    def search(self) -> TextSearch | None:
        """Return the text to filter by, and the account's visibility; None without a text."""
        return (self.filters.text, self.visibility) if self.filters.text else None

    def deliver(self, news: ReadResult, feed: SlotFeed) -> None:
        """Put the news that pass the filters into the mailbox; return at once."""
        if not self._started:
            return
        hits = news.text_hits.get((self.filters.text, self.visibility))

        def through(summaries: list[Summary]) -> list[Summary]:
            return [s for s in summaries if self.filters.lets_through(s, hits)]

        rows = through([*news.ended, *news.rows])
        rows.sort(key=lambda row: (row.data["seq"], not row.data["placed"]))
        if self._held is not None:
            skipped = news.skipped[1] - news.skipped[0] + 1 if news.skipped else 0
            self._held += len(rows) + skipped
            self.mailbox.put_latest(held=self._held)
        else:
            if news.skipped:
                self.mailbox.skip(*news.skipped)
            self.mailbox.put_rows(rows)
            self.mailbox.put_markers(news.markers)
            self.mailbox.put_latest(cursor=cursor_of(feed))
        if news.open is not None:
            self.mailbox.put_latest(open=through(news.open))
        if news.slot is not None:
            self.mailbox.put_latest(slot=news.slot)
        self.mailbox.put_latest(rate=feed.rate)
        self._wanted.set()

    def for_browser(self, summaries: Iterable[Summary]) -> list[dict[str, Any]]:
        """Return the transactions with their cells, as this browser's account may see them."""
        return [summary.for_browser(tells_size=self.tells_sizes) for summary in summaries]

    def start(self, feed: SlotFeed) -> None:
        """Take news from now on, the feed's state first; ``go`` allows sending them."""
        self.mailbox.clear()
        self._held, self._started, self._ready = None, True, False
        self.mailbox.put_latest(
            slot=feed.slot,
            rate=feed.rate,
            open=[s for s in feed.open if self.filters.lets_through(s)],
        )

    def go(self) -> None:
        """Allow batches to be sent, once the earlier history has been sent."""
        self._ready = True
        self._wanted.set()

    def hold(self) -> None:
        """Count later news instead of sending them."""
        self.mailbox.clear()
        self._held = 0

    def acknowledge(self, number: int) -> None:
        """Note that the browser has received the batches up to this number."""
        self._acknowledged = max(self._acknowledged, min(number, self._number))
        self._wanted.set()

    async def send_batches(self) -> None:
        """Send the mailbox in batches, at the pace that the browser accepts."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            ahead = self._number - self._acknowledged >= UNACKNOWLEDGED
            if self.mailbox.empty or not self._ready or (self.acknowledges and ahead):
                continue
            sent_at = time.monotonic()
            batch = self.mailbox.take()
            # Rendered only now, because in a flood most transactions are folded.
            for name in ("rows", "open"):
                if name in batch:
                    batch[name] = self.for_browser(batch[name])
            self._number += 1
            await self._send({"type": "batch", "n": self._number, **batch, "server_ms": now_ms()})
            await asyncio.sleep(max(0.0, BATCH_SECONDS - (time.monotonic() - sent_at)))
            if not self.mailbox.empty:
                self._wanted.set()


def cursor_of(feed: SlotFeed) -> dict[str, Any]:
    """Return a feed's position, which a browser keeps for its next connection."""
    return {"incarnation": feed.position.incarnation_id, "commit_seq": feed.position.commit_seq}


def now_ms() -> float:
    """Return this process's time in milliseconds, for browsers to compare with their own."""
    return round(time.time() * 1000, 3)

"""What waits to be sent to one browser: bounded, whatever the browser and the stream do.

When it is full the oldest transactions are folded: counted, and named by their range of
commit_seq so that the browser can ask for them.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

#: Transactions that may wait.
ROWS_LIMIT = 100
#: The most that one batch holds: at twenty batches a second, what a browser can draw.
BATCH_ROWS = 30
_MARKERS_LIMIT = 50


class Mailbox:
    """Rows, markers and states for the next batch."""

    def __init__(self, *, rows_limit: int = ROWS_LIMIT) -> None:
        self._rows_limit = rows_limit
        self._rows: deque[dict[str, Any]] = deque()
        self._markers: deque[dict[str, Any]] = deque(maxlen=_MARKERS_LIMIT)
        self._folded: dict[str, Any] | None = None
        #: Only the latest counts: open transactions, the slot's facts, the cursor, the rate.
        self._latest: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def empty(self) -> bool:
        """Nothing worth a batch."""
        return not (self._rows or self._markers or self._folded or self._latest)

    def put_rows(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add transactions, oldest first; fold the oldest when there are too many."""
        self._rows.extend(rows)
        while len(self._rows) > self._rows_limit:
            row = self._rows.popleft()
            if row["placed"]:
                self.fold(row["seq"], row["seq"], 1, exact=True)

    def fold(self, first: int, last: int, count: int, *, exact: bool) -> None:
        """Count transactions that will not be sent. They are later than all folded before.

        ``exact`` is false where nobody looked whether the filter lets them through.
        """
        older = self._folded
        self._folded = {
            "from": older["from"] if older else first,
            "to": last,
            "count": count + (older["count"] if older else 0),
            "exact": exact and (older is None or older["exact"]),
        }

    def skip(self, first: int, last: int) -> None:
        """Fold a stretch nobody read, and with it whatever of before still waits."""
        for row in self._rows:
            if row["placed"]:
                self.fold(row["seq"], row["seq"], 1, exact=True)
        self._rows.clear()
        self.fold(first, last, last - first + 1, exact=False)

    def put_markers(self, markers: Iterable[dict[str, Any]]) -> None:
        """Add lines of the slot's log; of very many only the last."""
        self._markers.extend(markers)

    def put_latest(self, **states: Any) -> None:
        """Set what only its latest state matters of."""
        self._latest.update(states)

    def take(self, rows: int = BATCH_ROWS) -> dict[str, Any]:
        """The next batch: the oldest rows, and whatever else waits."""
        batch: dict[str, Any] = {**self._latest}
        taken = [self._rows.popleft() for _ in range(min(rows, len(self._rows)))]
        if taken:
            batch["rows"] = taken
        if self._markers:
            batch["markers"] = list(self._markers)
        if self._folded:
            batch["folded"] = self._folded
        left, cursor = self._rows, self._latest.get("cursor")
        self._markers.clear()
        self._folded = None
        self._latest = {}
        if left and cursor:
            # A browser that goes on from here must not miss what still waits.
            seen = next((row["seq"] for row in left if row["placed"]), cursor["commit_seq"] + 1)
            batch["cursor"] = {**cursor, "commit_seq": min(seen - 1, cursor["commit_seq"])}
            self._latest = {"cursor": cursor}
        return batch

    def clear(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._markers.clear()
        self._folded = None
        self._latest = {}

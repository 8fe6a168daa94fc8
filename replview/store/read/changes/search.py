"""Search a slot's history for changes, newest first, within a time budget.

The result says how far back the search went, and the place to go on from.
"""

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from replview.store.read.changes.batches import Batching, ChangeReader
from replview.store.read.changes.scan import ChangeInTransaction, ChangeScan, ScanBatch, before
from replview.store.read.changes.scan_places import ScanPosition
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.row_history.before_images import Shared
from replview.store.read.row_history.replay import BeforeImage
from replview.store.read.rows import ChangeRow, TransactionRow
from replview.store.read.session import ReadSession

#: Changes that the first read covers, few for a quick answer, and any read at most.
FIRST_READ = 2000
MOST_READ = 16_000
#: Seconds after which the next read is no larger: its duration could not be predicted.
_LONG_READ_SECONDS = 0.15


@dataclass(frozen=True, slots=True)
class FoundChanges:
    """Changes that a search found, newest first."""

    rows: list[tuple[TransactionRow, ChangeRow]]
    #: Place to go on from; None: the search reached the beginning.
    older: ScanPosition | None
    #: Time that the search went back to, by the source's clock; None: nothing was read.
    searched_back_to: dt.datetime | None
    #: True if the search reached the beginning.
    complete: bool
    #: Number of changes left out because it is unknown whether they match: the before image is
    #: unknown.
    unknown: int = 0
    #: Before images that the search read (None: unknown), and the state to share with further
    #: reads.
    before: Mapping[tuple[int, int], BeforeImage | None] = field(default_factory=dict)
    shared: Shared | None = None


def find_changes(
    session: ReadSession,
    wanted: WantedChanges,
    *,
    cursor: ScanPosition | None = None,
    limit: int = 50,
    budget_seconds: float = 1.0,
) -> FoundChanges:
    """Return the newest changes that match; ``cursor`` is where an earlier search stopped.

    Raises ``WhereProblem`` for a condition that fits no table.
    """
    started_at = time.monotonic()
    first_read = FIRST_READ if wanted.where else min(max(limit * 2, 100), FIRST_READ)
    batching = Batching(first_read, MOST_READ if wanted.where else FIRST_READ)
    scan = ChangeScan(
        session, wanted, forwards=False, place=cursor, batching=batching, enough=limit + 1
    )
    search, last_read_at = _Search(scan, limit), started_at
    for batch in scan.batches():
        search.take(batch)
        if len(search.found) > limit:
            row, change = last_shown = search.found[limit - 1]
            # Unknown changes after the page are counted with the next page.
            search.unknown -= len(before(batch.unknown, last_shown))
            search.back_to = row.moment
            incarnation = search.incarnations.get(row.incarnation_id, 0)
            return search.result(ScanPosition(incarnation, row.commit_seq or 0, change.seq))
        now = time.monotonic()
        if now - last_read_at > _LONG_READ_SECONDS:
            batching.stay()
        # Another read would exceed the budget: reads grow while nothing is found.
        if now - started_at + 2 * (now - last_read_at) >= budget_seconds:
            return search.result(batch.place)
        last_read_at = now
    return search.result(None, complete=True)


@dataclass(slots=True)
class _Search:
    """The result of a search so far, newest first."""

    scan: ChangeScan
    limit: int
    found: list[ChangeInTransaction] = field(default_factory=list)
    unknown: int = 0
    back_to: dt.datetime | None = None
    #: Numbers of the incarnations that were read, by identifier.
    incarnations: dict[int, int] = field(default_factory=dict)

    def take(self, batch: ScanBatch) -> None:
        """Add the result of one batch."""
        self.found += batch.found
        self.scan.enough = max(self.limit + 1 - len(self.found), 1)
        self.unknown += len(batch.unknown)
        if batch.row is not None:
            self.incarnations[batch.row.incarnation_id] = batch.place.incarnation
            self.back_to = batch.row.moment

    def result(self, older: ScanPosition | None, *, complete: bool = False) -> FoundChanges:
        """Return the result; the next search goes on from ``older``."""
        reader = self.scan.reader
        before, shared = (reader.before, reader.shared) if reader else ({}, None)
        rows = self.found[: self.limit]
        return FoundChanges(rows, older, self.back_to, complete, self.unknown, before, shared)


def check_where(session: ReadSession, wanted: WantedChanges) -> None:
    """Raise ``WhereProblem`` where the conditions fit none of the tables; reads no change."""
    if wanted.where and (relation_ids := wanted.relation_ids(session)) != []:
        ChangeReader(session, wanted, relation_ids, Batching())

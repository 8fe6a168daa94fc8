"""Searching a slot's history for changes, newest first, for as long as the asker wants to wait; the
answer says how far back it looked, and from where to go on.
"""

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from replview.store.read.changes.batches import Batching, ChangeReader
from replview.store.read.changes.scan import Batch, ChangeScan, Found, before
from replview.store.read.changes.scan_places import Place
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.row_history.before_images import Before, Shared
from replview.store.read.rows import ChangeRow, TransactionRow
from replview.store.read.session import ReadSession

#: Changes looked at by a read: small at first, for the answer that is near.
FIRST_READ = 2000
MOST_READ = 16_000
#: A read that took so long is not followed by a larger one: what it takes could not be foretold.
_LONG_READ_SECONDS = 0.15


@dataclass(frozen=True, slots=True)
class FoundChanges:
    """What a search found, newest first."""

    rows: list[tuple[TransactionRow, ChangeRow]]
    #: From where to go on; None: the search has come to the beginning.
    older: Place | None
    #: By the source's clock; None where nothing was looked at.
    searched_back_to: dt.datetime | None
    #: All that is older was looked at, too.
    complete: bool
    #: Changes left out because nobody knows whether they match: their before image is unknown.
    unknown: int = 0
    #: Before images the search asked for (None: nothing is known), and what more would share.
    before: Mapping[tuple[int, int], Before | None] = field(default_factory=dict)
    shared: Shared | None = None


def find_changes(
    session: ReadSession,
    wanted: WantedChanges,
    *,
    cursor: Place | None = None,
    limit: int = 50,
    budget_seconds: float = 1.0,
) -> FoundChanges:
    """Return the newest changes that match; ``cursor``: from where an earlier search stopped.
    Raises ``WhereProblem`` for a condition that fits no table.
    """
    started = time.monotonic()
    first = FIRST_READ if wanted.where else min(max(limit * 2, 100), FIRST_READ)
    batching = Batching(first, MOST_READ if wanted.where else FIRST_READ)
    scan = ChangeScan(
        session, wanted, forwards=False, place=cursor, batching=batching, enough=limit + 1
    )
    search, last = _Search(scan, limit), started
    for batch in scan.batches():
        search.take(batch)
        if len(search.found) > limit:
            row, change = last_found = search.found[limit - 1]
            # What comes after the page is told with the next one.
            search.unknown -= len(before(batch.unknown, last_found))
            search.back_to = row.moment
            incarnation = search.incarnations.get(row.incarnation_id, 0)
            return search.result(Place(incarnation, row.commit_seq or 0, change.seq))
        now = time.monotonic()
        if now - last > _LONG_READ_SECONDS:
            batching.stay()
        # One more would end after the time: batches grow while nothing is found.
        if now - started + 2 * (now - last) >= budget_seconds:
            return search.result(batch.place)
        last = now
    return search.result(None, complete=True)


@dataclass(slots=True)
class _Search:
    """What a search has found so far, newest first."""

    scan: ChangeScan
    limit: int
    found: list[Found] = field(default_factory=list)
    unknown: int = 0
    back_to: dt.datetime | None = None
    #: The numbers of the incarnations that were looked at, by their identifiers.
    incarnations: dict[int, int] = field(default_factory=dict)

    def take(self, batch: Batch) -> None:
        self.found += batch.found
        self.scan.enough = max(self.limit + 1 - len(self.found), 1)
        self.unknown += len(batch.unknown)
        if batch.row is not None:
            self.incarnations[batch.row.incarnation_id] = batch.place.incarnation
            self.back_to = batch.row.moment

    def result(self, older: Place | None, *, complete: bool = False) -> FoundChanges:
        """What was found, to go on from ``older``."""
        reader = self.scan.reader
        before, shared = (reader.before, reader.shared) if reader else ({}, None)
        rows = self.found[: self.limit]
        return FoundChanges(rows, older, self.back_to, complete, self.unknown, before, shared)


def check_where(session: ReadSession, wanted: WantedChanges) -> None:
    """Raises ``WhereProblem`` where the conditions fit none of the tables; reads no change."""
    if wanted.where and (relation_ids := wanted.relation_ids(session)) != []:
        ChangeReader(session, wanted, relation_ids, Batching())

"""The writing thread of a session stores batches of events, and reports how far it is.

Reading goes on meanwhile, so keepalives are answered on time however slow the store is. At most one
batch waits while one is written: no buffer grows without bound.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import psycopg

from decoder.events import Event, RelationSeen
from decoder.scalars import now_us
from replview.catalog.problems import SourceProblem
from replview.receiver.culprits import Unstorable
from replview.receiver.storing.batching import Recorder
from replview.receiver.storing.portions import Portion
from replview.receiver.storing.store_batch import StoreWriter
from replview.receiver.storing.table_plans import TooManyVersions
from replview.runtime.failpoints import Point, failpoint
from replview.store.write.lease import Fenced

#: Number of new tables in one store transaction: the source's catalog is queried for each, and
#: together that must take less time than after which the store counts as gone.
_MAX_TABLES = 100
#: Errors that no change of the batch can have caused.
_ERRORS_OF_NO_CHANGE = (
    Fenced, SourceProblem, TooManyVersions, psycopg.OperationalError, psycopg.InterfaceError,
)  # fmt: skip
#: Least bytes of a large value that a working store takes in a second.
_MIN_BYTES_PER_SECOND = 4_000_000
#: Called after each store transaction with the portion and the last commit_seq.
StoredListener = Callable[[Portion, int], None]
#: Raises ``SourceProblem`` where a position is beyond the end of the server's WAL.
WalCheck = Callable[[int], None]


@dataclass(slots=True)
class EventBatch:
    """Decoded events that are passed to the store together."""

    events: list[Event] = field(default_factory=list)
    frames: int = 0
    size_bytes: int = 0
    received_at_us: int = 0
    #: The server's position when the batch was handed over.
    server_lsn: int = 0
    #: Idle position that the checkpoint moves to, once everything before it is stored.
    idle_lsn: int | None = None
    #: The frames of the events, and whether they begin inside a stream block: used only if one of
    #: them cannot be stored.
    raw: list[list[bytes]] = field(default_factory=list)
    in_stream: bool = False
    #: Bytes of values that are stored apart from their rows, in addition to ``size_bytes``.
    large_bytes: int = 0


class WritingThread:
    """A thread that runs a ``StoreWriter`` beside the reading loop."""

    def __init__(
        self, writer: StoreWriter, recorder: Recorder, on_stored: StoredListener, check: WalCheck
    ) -> None:
        self._writer = writer
        self._check = check
        self._recorder = recorder
        self._on_stored = on_stored
        self._queue: queue.SimpleQueue[EventBatch | None] = queue.SimpleQueue()
        #: Number of batches handed over and not stored yet: 0 idle, 1 writing, 2 full.
        self.waiting = 0
        self._lock = threading.Lock()
        #: ``waker`` is a descriptor that becomes readable when a batch was stored.
        self.waker, self._wake = os.pipe()
        os.set_blocking(self.waker, False)
        os.set_blocking(self._wake, False)
        #: Position up to which everything is committed in the store.
        self.stored_lsn = 0
        #: The slot's desired state, as last read.
        self.desired = "running"
        #: The error that ended writing, if it failed.
        self.error: Exception | None = None
        self.last_write_at = time.monotonic()
        #: Monotonic time at which the current batch began to be written; None while none is.
        self._began_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def drain_waker(self) -> None:
        """Reset the waker, so that it wakes the reading loop only after the next batch."""
        with suppress(BlockingIOError):
            while os.read(self.waker, 4096):
                pass

    @property
    def seconds_in_batch(self) -> float:
        """Return for how long the current batch is being written; 0 while there is none."""
        began_at = self._began_at
        return 0.0 if began_at is None else time.monotonic() - began_at

    def hand_over(self, batch: EventBatch) -> None:
        """Hand a batch to the thread; the caller keeps ``waiting`` below 2."""
        with self._lock:
            self.waiting += 1
        self._queue.put(batch)

    def finish(self, timeout_seconds: float) -> bool:
        """Store what was handed over and end the thread; return False if that takes too long."""
        self._queue.put(None)
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Free the descriptors; the thread must have ended, or be given up."""
        if not self._thread.is_alive():
            os.close(self.waker)
            os.close(self._wake)

    def _run(self) -> None:
        try:
            while (batch := self._queue.get()) is not None:
                *earlier_parts, last_part = _in_parts(batch.events)
                for events in earlier_parts:
                    self._write(batch, events)
                self._write(batch, last_part, idle_lsn=batch.idle_lsn)
                self._began_at = None
                with self._lock:
                    self.waiting -= 1
                self._wake_up()
        except Exception as error:
            self.error = error
            self._wake_up()

    def _write(
        self, batch: EventBatch, events: Sequence[Event], *, idle_lsn: int | None = None
    ) -> None:
        # Large values may take the store longer, without it being gone.
        self._began_at = time.monotonic() + batch.large_bytes / _MIN_BYTES_PER_SECOND
        try:
            self._store(batch, events, idle_lsn)
        except _ERRORS_OF_NO_CHANGE:
            raise
        except Exception as error:
            self._began_at = None  # the search may take its time
            culprit = self._writer.find_culprit(error, events, batch.raw, batch.in_stream)
            if culprit is None:
                raise
            raise Unstorable(culprit) from None

    def _store(self, batch: EventBatch, events: Sequence[Event], idle_lsn: int | None) -> None:
        portion = self._recorder.digest(events, batch.received_at_us or now_us())
        if idle_lsn is not None and idle_lsn > portion.checkpoint_lsn:
            portion.checkpoint_lsn = idle_lsn
            self._recorder.checkpoint_lsn = idle_lsn
        self._check(max(portion.checkpoint_lsn, batch.server_lsn))
        if portion.committed:
            failpoint(Point.BEFORE_STORE)
        self.desired = self._writer.write(portion, batch.server_lsn)
        if portion.committed:
            failpoint(Point.BEFORE_CONFIRM)
        self.stored_lsn = max(self.stored_lsn, portion.checkpoint_lsn)
        self.last_write_at = time.monotonic()
        self._on_stored(portion, self._writer.commit_seq)

    def _wake_up(self) -> None:
        # A full pipe wakes the reader as well.
        with suppress(BlockingIOError):
            os.write(self._wake, b"x")


def _in_parts(events: Sequence[Event]) -> list[Sequence[Event]]:
    """Return the events in parts, one for each store transaction: nearly always a single one."""
    tables = [n for n, event in enumerate(events) if event.__class__ is RelationSeen]
    if len(tables) <= _MAX_TABLES:
        return [events]
    return [events[a:b] for a, b in pairwise((0, *tables[_MAX_TABLES::_MAX_TABLES], None))]

"""Run a session from beginning to end: frames → events → batches, and feedback to the server.

Batches adapt to the load: while the writer is idle, whatever has arrived is passed on at once, so a
lone transaction is stored within milliseconds; while it writes, the next batch grows to its limits.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from django.conf import settings

from decoder.scalars import LSN, now_us
from replview.receiver.large_values import put_back
from replview.receiver.process import give_back_memory
from replview.receiver.quarantine import Skips, StopPoint, left_out_of, read_skips
from replview.receiver.sessions.opening import OpenSession
from replview.receiver.sessions.pacing import Feedback, idle_position
from replview.receiver.sessions.received_anew import PeekEnded, PeekRecorder
from replview.receiver.storing.batching import Recorder
from replview.receiver.storing.catalog_looks import CatalogLooks
from replview.receiver.storing.catalog_shapes import CatalogShapes
from replview.receiver.storing.portions import Portion, SlotLogNote
from replview.receiver.storing.store_batch import StoreWriter
from replview.receiver.storing.table_plans import TablePlans
from replview.receiver.storing.writer_thread import EventBatch, WritingThread
from replview.store.write.incarnations import SlotRow, log_event
from replview.store.write.lease import Lease
from replview.store.write.shapes import StoredShape

#: Limits of a batch. Up to three are in memory at once (read, waiting, written), and a row of many
#: small values takes ten times its bytes as Python objects.
BATCH_FRAMES = 10_000
BATCH_BYTES = 2 * 1024 * 1024
#: Number of frames that are decoded at a time.
READ_FRAMES = 2_000
#: Seconds that stopping waits for the store to take the batches that were handed over.
FINISH_SECONDS = 2.0


#: Called after each store transaction with slot, incarnation, last commit_seq, and True if an open
#: transaction changed.
CommitListener = Callable[[int, int, int, bool], None]
#: Called when the slot's state or log changed.
SlotListener = Callable[[int], None]


@dataclass(slots=True)
class Listeners:
    """Functions that a receiver calls once something is stored.

    They keep the receiver independent of Channels.
    """

    committed: CommitListener = lambda slot_id, incarnation_id, commit_seq, open_changed: None
    slot_changed: SlotListener = lambda slot_id: None
    #: Called after a Relation message: what is published may have changed.
    relation_came: SlotListener = lambda slot_id: None


class StoreFailed(Exception):
    """The store failed, not the source: a new session starts from the stored checkpoint."""


class Pump:
    """The loop of one session: read and decode frames, hand over batches, confirm stored ones."""

    def __init__(
        self,
        opened: OpenSession,
        writing: WritingThread,
        stop: threading.Event,
        skips: Skips,
        recorder: Recorder,
        before: StopPoint | None,
    ) -> None:
        self._before = before
        self._opened = opened
        self._session = opened.session
        self._writing = writing
        self._stop = stop
        self._skips = skips
        self._recorder = recorder
        self._portions_read = 0
        #: Position up to which every transaction that ended was received, even an empty one.
        self._passed_lsn = 0
        self._begin_decoding()
        self._feedback = Feedback(stored_lsn=opened.incarnation.checkpoint_lsn)
        self._batch = EventBatch()
        self._handed_over_at = 0.0
        self._heartbeat_seconds: float = settings.HEARTBEAT_SECONDS
        self._store_seconds: float = settings.STORE_GONE_SECONDS

    def _begin_decoding(self) -> None:
        """Start a new decoder, as the server sends relations, types and open streams anew."""
        opened = self._opened
        self._assembler = opened.new_decoder()
        self._left_out = None
        if self._skips and opened.plugin == "pgoutput":
            self._left_out = left_out_of(self._skips, opened.options.streaming, opened.encoding)
        self._assembler.keeps_empty = self._left_out is not None

    def run(self) -> None:
        """Read and hand over batches until ``stop`` is set or the point of ``before`` is reached.

        Raises the same as ``record`` if something else ended the session.
        """
        self._session.add_waker(self._writing.waker)
        may_have_more = False
        while not self._stop.is_set() and not self._is_there() and not self._is_due_anew():
            if not may_have_more and self._session.wait(self._timeout()):
                self._writing.drain_waker()
            self._check_writer()
            may_have_more = self._read()
            self._hand_over()
            self._confirm()

    def _is_there(self) -> bool:
        """Return whether everything before the point of ``before`` was handed over."""
        return self._before is not None and self._before.reached and not self._batch.events

    def _is_due_anew(self) -> bool:
        """Return whether the session must end so that the next one starts with less memory.

        That is so only at a moment when the server would not have to send anything twice.
        """
        return (
            self._session.is_swollen()
            and not (self._assembler.in_transaction or self._assembler.open_streams)
            and not (self._batch.events or self._writing.waiting)
        )

    def finish(self) -> None:
        """Store what was handed over, and confirm it to the server.

        Nothing is confirmed if the writer failed or needs longer than ``FINISH_SECONDS``.
        """
        if not self._writing.finish(FINISH_SECONDS) or self._writing.error:
            return
        self._feedback.stored(self._writing.stored_lsn)
        self._session.confirm(self._feedback.stored_lsn, clock_us=now_us())

    def _timeout(self) -> float:
        now = time.monotonic()
        heartbeat = self._handed_over_at + self._heartbeat_seconds - now
        return max(0.0, min(heartbeat, self._feedback.seconds_to_next(now), 0.5))

    def _check_writer(self) -> None:
        error = self._writing.error
        if error is not None:
            if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                raise StoreFailed(type(error).__name__) from error
            raise error
        if self._writing.seconds_in_batch > self._store_seconds:
            raise StoreFailed("TimeoutError")
        if self._writing.desired != "running":
            self._stop.set()

    def _read(self) -> bool:
        """Decode what has arrived, unless the batch is full; return whether there may be more."""
        batch = self._batch
        if batch.frames >= BATCH_FRAMES or batch.size_bytes >= BATCH_BYTES:
            return False
        if self._before is not None and self._before.reached:
            return False
        if not batch.events and not self._writing.waiting:
            self._session.settled(self._writing.stored_lsn, self._recorder.open_xids)
        limit = min(READ_FRAMES, BATCH_FRAMES - batch.frames)
        is_pgoutput = self._opened.plugin == "pgoutput"
        self._session.in_stream = self._assembler.in_stream if is_pgoutput else None
        frames = self._session.read(limit, BATCH_BYTES - batch.size_bytes)
        self._decode(frames)
        if self._session.portions_read != self._portions_read:
            self._portion_over()
        return bool(frames)

    def _decode(self, frames: list[bytes]) -> None:
        if self._before is not None:
            frames = self._before.cut(frames)
        if not frames:
            return
        batch = self._batch
        if not batch.frames:
            batch.received_at_us = now_us()
            batch.in_stream = self._assembler.in_stream
        if self._left_out is not None:
            frames = self._left_out.keep(frames)
        batch.raw.append(frames)
        events = self._assembler.feed(frames)
        if spooled := self._session.spooled:
            self._session.spooled = []
            events = put_back(events, spooled)
            batch.large_bytes += sum(value.size_bytes for value in spooled)
        batch.events += events
        batch.frames += len(frames)
        batch.size_bytes += sum(map(len, frames))

    def _portion_over(self) -> None:
        """Start a new decoder, and tell the recorder which streams the server will send again."""
        self._portions_read = self._session.portions_read
        streams = self._assembler.open_streams
        self._passed_lsn = max(self._passed_lsn, self._assembler.passed_lsn)
        if streams or self._session.aborted_xids:
            event = PeekEnded(streams, self._session.aborted_xids)
            self._batch.events.append(event)  # type: ignore[arg-type]
        self._begin_decoding()

    def _hand_over(self) -> None:
        """Hand the batch to the writer, or a heartbeat when there is nothing to write."""
        batch = self._batch
        full = batch.frames >= BATCH_FRAMES or batch.size_bytes >= BATCH_BYTES
        waiting = self._writing.waiting
        now = time.monotonic()
        if batch.events:
            if waiting and not (full and waiting < 2):
                return
        elif waiting or now - self._handed_over_at < self._heartbeat_seconds:
            return
        elif self._before is not None and self._before.reached:
            return  # the server's position is beyond what is stored: do not confirm it
        else:
            pending = self._assembler.in_transaction
            passed = max(self._session.keepalive_lsn, self._passed_lsn, self._assembler.passed_lsn)
            batch.idle_lsn = idle_position(passed, self._feedback.stored_lsn, pending=pending)
            give_back_memory()
        batch.server_lsn = self._session.server_lsn
        self._writing.hand_over(batch)
        self._handed_over_at = now
        self._batch = EventBatch()

    def _confirm(self) -> None:
        now = time.monotonic()
        self._feedback.stored(self._writing.stored_lsn)
        if self._feedback.is_due(now, reply_requested=self._session.reply_requested):
            self._session.confirm(self._feedback.stored_lsn, clock_us=now_us())
            self._feedback.reported(now)


class SessionLog:
    """A log of what a session stores: it writes into the slot's log and calls the listeners."""

    def __init__(
        self,
        store: psycopg.Connection[Any],
        slot: SlotRow,
        opened: OpenSession,
        listeners: Listeners,
    ) -> None:
        self._store = store
        self._slot_id = slot.id
        self._opened = opened
        self._listeners = listeners
        #: True when a line was written, or a Relation message came, and no listener was called yet.
        self._changed = False
        self._relation_came = False

    def stored(self, portion: Portion, commit_seq: int) -> None:
        """Tell the listeners that a portion is in the store."""
        if self._changed:
            self._changed = False
            self._listeners.slot_changed(self._slot_id)
        if self._relation_came:
            self._relation_came = False
            self._listeners.relation_came(self._slot_id)
        if portion.committed or portion.open_changed:
            self._opened.made_progress = True
            incarnation_id = self._opened.incarnation.id
            self._listeners.committed(
                self._slot_id, incarnation_id, commit_seq, portion.open_changed
            )

    def shape(self, name: str, lsn: LSN, stored: StoredShape, commit_seq: int) -> None:
        """Write into the slot's log that a table has a new shape, unless it is the first one."""
        self._relation_came = True
        if stored.is_new and stored.number > 1:
            detail: dict[str, object] = {
                "relation_id": stored.relation_id,
                "version_id": stored.version_id,
            }
            message = f"Schema of {name} changed: version {stored.number}."
            self.note(SlotLogNote("schema", message, lsn or None, detail), commit_seq)

    def note(self, note: SlotLogNote, commit_seq: int) -> None:
        """Write a line into the slot's log, at its place in history: after ``commit_seq``."""
        log_event(
            self._store,
            self._slot_id,
            note.kind,
            note.message,
            incarnation_id=self._opened.incarnation.id,
            after_commit_seq=commit_seq,
            lsn=note.lsn,
            detail=note.detail,
        )
        self._changed = True


def record(
    opened: OpenSession,
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: SlotRow,
    stop: threading.Event,
    listeners: Listeners,
    before: StopPoint | None = None,
) -> None:
    """Store and confirm what a started stream sends, until ``stop`` is set or ``before`` comes.

    Raises ``Fenced`` when another receiver has taken the slot over, ``StoreFailed`` when the store
    does not take a batch, and the source's ``StreamEnded``, ``SourceProblem`` or ``psycopg.Error``.
    """
    incarnation = opened.incarnation
    skips = read_skips(store, slot.id)
    session_log = SessionLog(store, slot, opened, listeners)
    writer = _writer(opened, store, lease, slot, session_log)
    recorder = (PeekRecorder if slot.interface == "sql" else Recorder)(
        incarnation_id=incarnation.id,
        checkpoint_lsn=incarnation.checkpoint_lsn,
        next_id=writer.next_id,
        is_stored=writer.endings.is_stored,
        was_aborted=writer.endings.was_aborted,
        skips=skips,
        first_seen=incarnation.first_seen,
    )
    writing = WritingThread(writer, recorder, session_log.stored, opened.wal_end.check)
    writing.stored_lsn = incarnation.checkpoint_lsn
    writing.start()
    loop = Pump(opened, writing, stop, skips, recorder, before)
    try:
        loop.run()
        loop.finish()
    finally:
        # After a stop, ``Pump.finish`` has waited already.
        if not writing.finish(0.1 if stop.is_set() else FINISH_SECONDS):
            store.close()  # breaks a hanging write; its transaction rolls back
            writing.finish(1.0)
        writing.close()


def _writer(
    opened: OpenSession,
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: SlotRow,
    session_log: SessionLog,
) -> StoreWriter:
    plans = TablePlans(
        slot_id=slot.id,
        system_identifier=opened.system_identifier,
        catalog=CatalogShapes(
            primary_key=opened.source.primary_key,
            type_names=opened.source.type_names,
            columns_made=opened.source.columns_made,
            type_bases=opened.source.type_bases,
            named=opened.tables,
        ),
        column_rules=slot.column_rules,
        looks=CatalogLooks(
            slot.id,
            opened.system_identifier,
            altered=opened.source.altered_tables,
            position=opened.source.position,
        ),
    )
    return StoreWriter(
        store,
        lease,
        incarnation_id=opened.incarnation.id,
        commit_seq=opened.incarnation.commit_seq,
        plans=plans,
        on_shape=session_log.shape,
        on_note=session_log.note,
    )

"""The reading loop of a session: frames → events → batches, and feedback to the server.

Batches adapt by themselves: while the writer is idle, whatever has arrived goes at once, so a lone
transaction is stored within milliseconds; while it writes, the next batch grows up to its limits.
"""

import threading
import time
from typing import Any

import psycopg

from decoder.assembler import Assembler
from decoder.events import RelationSeen
from replview.receiver.clock import now_us
from replview.receiver.feedback import Feedback, idle_position
from replview.receiver.opening import OpenSession
from replview.receiver.recorder import Portion, Recorder
from replview.receiver.storing import StoreWriter
from replview.receiver.table_plans import TablePlans
from replview.receiver.writing import Batch, WritingThread
from replview.store.incarnations import SlotRow, log_event
from replview.store.lease import Lease
from replview.store.shapes import StoredShape

#: A batch grows no further than this. Up to three are held at once (read, waiting, written), and a
#: row of many small values takes ten times its bytes as Python objects.
BATCH_FRAMES = 10_000
BATCH_BYTES = 2 * 1024 * 1024
#: Frames decoded at a time.
READ_FRAMES = 2_000
#: A sign of life (and the idle position) goes into the store this often.
HEARTBEAT_SECONDS = 1.0
#: How long stopping waits for the store to take what it was handed.
FINISH_SECONDS = 2.0


class StoreFailed(Exception):
    """The store did not take a batch: start anew from its checkpoint."""


class _Pump:
    """The state of one session's loop."""

    def __init__(
        self,
        opened: OpenSession,
        writing: WritingThread,
        stop: threading.Event,
    ) -> None:
        self._opened = opened
        self._session = opened.session
        self._writing = writing
        self._stop = stop
        options = opened.options
        self._assembler = Assembler(
            proto_version=options.proto_version,
            streaming=options.streaming,
            encoding=opened.encoding,
            binary=options.binary,
            user_types=opened.user_types,
        )
        self._feedback = Feedback(stored_lsn=opened.incarnation.checkpoint_lsn)
        self._batch = Batch()
        self._handed_over_at = 0.0

    def run(self) -> None:
        """Until told to stop; raises what ended the session otherwise."""
        self._session.add_waker(self._writing.waker)
        more = False
        while not self._stop.is_set():
            if not more and self._session.wait(self._timeout()):
                self._writing.drain_waker()
            self._check_writer()
            more = self._read()
            self._hand_over()
            self._confirm()

    def finish(self) -> None:
        """Told to stop: store what was handed over, confirm it, end the stream."""
        if not self._writing.finish(FINISH_SECONDS) or self._writing.error:
            return
        self._feedback.stored(self._writing.stored_lsn)
        self._session.confirm(self._feedback.stored_lsn, clock_us=now_us())

    def _timeout(self) -> float:
        now = time.monotonic()
        heartbeat = self._handed_over_at + HEARTBEAT_SECONDS - now
        return max(0.0, min(heartbeat, self._feedback.seconds_to_next(now), 0.5))

    def _check_writer(self) -> None:
        error = self._writing.error
        if error is not None:
            if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                raise StoreFailed(type(error).__name__) from error
            raise error
        if self._writing.desired != "running":
            self._stop.set()

    def _read(self) -> bool:
        """Decode what has arrived, unless the batch is full; whether there may be more."""
        batch = self._batch
        if batch.frames >= BATCH_FRAMES or batch.size_bytes >= BATCH_BYTES:
            return False
        limit = min(READ_FRAMES, BATCH_FRAMES - batch.frames)
        frames = self._session.read(limit, BATCH_BYTES - batch.size_bytes)
        if not frames:
            return False
        if not batch.frames:
            batch.received_at_us = now_us()
        batch.events += self._assembler.feed(frames)
        batch.frames += len(frames)
        batch.size_bytes += sum(map(len, frames))
        return True

    def _hand_over(self) -> None:
        """Give the writer the batch, or a sign of life when there is nothing to write."""
        batch = self._batch
        full = batch.frames >= BATCH_FRAMES or batch.size_bytes >= BATCH_BYTES
        waiting = self._writing.waiting
        now = time.monotonic()
        if batch.events:
            if waiting and not (full and waiting < 2):
                return
        elif waiting or now - self._handed_over_at < HEARTBEAT_SECONDS:
            return
        else:
            pending = self._assembler.in_transaction
            batch.idle_lsn = idle_position(
                self._session.keepalive_lsn, self._feedback.stored_lsn, pending=pending
            )
        batch.server_lsn = self._session.server_lsn
        self._writing.hand_over(batch)
        self._handed_over_at = now
        self._batch = Batch()

    def _confirm(self) -> None:
        now = time.monotonic()
        self._feedback.stored(self._writing.stored_lsn)
        if self._feedback.is_due(now, reply_requested=self._session.reply_requested):
            self._session.confirm(self._feedback.stored_lsn, clock_us=now_us())
            self._feedback.told(now)


def pump(
    opened: OpenSession,
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: SlotRow,
    stop: threading.Event,
    listeners: Any,
) -> None:
    """Run a session until ``stop``. Raises ``Fenced``, ``StoreFailed``, or what the source did."""
    incarnation = opened.incarnation

    new_versions: list[int] = []

    def on_stored(portion: Portion, commit_seq: int) -> None:
        if new_versions:
            new_versions.clear()
            listeners.slot_changed(slot.id)
        if portion.committed or portion.open_changed:
            opened.made_progress = True
            listeners.committed(slot.id, incarnation.id, commit_seq, portion.open_changed)

    def on_shape(seen: RelationSeen, stored: StoredShape) -> None:
        if stored.is_new and stored.number > 1:
            relation = seen.relation
            log_event(
                store,
                slot.id,
                "schema",
                f"Schema of {relation.namespace}.{relation.name} changed: version {stored.number}.",
                incarnation_id=incarnation.id,
                after_commit_seq=writer.commit_seq,
                lsn=seen.lsn or None,
                detail={"relation_id": stored.relation_id, "version_id": stored.version_id},
            )
            new_versions.append(stored.version_id)

    plans = TablePlans(
        slot_id=slot.id,
        system_identifier=opened.system_identifier,
        primary_key=opened.source.primary_key,
        type_names=opened.source.type_names,
        column_rules=slot.column_rules,
    )
    writer = StoreWriter(
        store,
        lease,
        incarnation_id=incarnation.id,
        commit_seq=incarnation.commit_seq,
        plans=plans,
        on_shape=on_shape,
    )
    recorder = Recorder(
        incarnation_id=incarnation.id,
        checkpoint_lsn=incarnation.checkpoint_lsn,
        next_id=writer.next_id,
        is_stored=writer.is_stored,
    )
    writing = WritingThread(writer, recorder, on_stored)
    writing.stored_lsn = incarnation.checkpoint_lsn
    writing.start()
    loop = _Pump(opened, writing, stop)
    try:
        loop.run()
        loop.finish()
    finally:
        # Told to stop, it had its time already.
        if not writing.finish(0.1 if stop.is_set() else FINISH_SECONDS):
            store.close()  # breaks a hanging write; its transaction rolls back
            writing.finish(1.0)
        writing.close()

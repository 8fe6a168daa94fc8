"""The reading loop of a session: frames → events → batches, and feedback to the server.

Batches adapt by themselves: while the writer is idle, whatever has arrived goes at once, so a lone
transaction is stored within milliseconds; while it writes, the next batch grows up to its limits.
"""

import threading
import time

import psycopg

from decoder.timestamps import now_us
from replview.receiver.sessions.feedback import Feedback, idle_position
from replview.receiver.sessions.opening import OpenSession
from replview.receiver.sessions.received_anew import PeekEnded
from replview.receiver.skips import Before, Skips, left_out_of
from replview.receiver.storing.batching import Recorder
from replview.receiver.storing.writer_thread import Batch, WritingThread

#: A batch grows no further than this. Up to three are held at once (read, waiting, written), and a
#: row of many small values takes ten times its bytes as Python objects.
BATCH_FRAMES = 10_000
BATCH_BYTES = 2 * 1024 * 1024
#: Frames decoded at a time.
READ_FRAMES = 2_000
#: A sign of life (and the idle position) goes into the store this often.
HEARTBEAT_SECONDS = 1.0
#: A store that takes longer for one batch is taken for gone, and the source's slot let go: our
#: lease has run out by then, and whoever has the slot now could not read it as long as we do.
STORE_SECONDS = 15.0
#: How long stopping waits for the store to take what it was handed.
FINISH_SECONDS = 2.0


class StoreFailed(Exception):
    """The store did not take a batch: start anew from its checkpoint."""


class Pump:
    """The state of one session's loop."""

    def __init__(
        self,
        opened: OpenSession,
        writing: WritingThread,
        stop: threading.Event,
        skips: Skips,
        recorder: Recorder,
        before: Before | None,
    ) -> None:
        self._before = before
        self._opened = opened
        self._session = opened.session
        self._writing = writing
        self._stop = stop
        self._skips = skips
        self._recorder = recorder
        self._portions_read = 0
        #: What ended up to here came whole, though it may have told nothing.
        self._passed_lsn = 0
        self._begin_decoding()
        self._feedback = Feedback(stored_lsn=opened.incarnation.checkpoint_lsn)
        self._batch = Batch()
        self._handed_over_at = 0.0

    def _begin_decoding(self) -> None:
        """The server sends relations, types and open streams from here on, as to one who knows
        nothing yet.
        """
        opened = self._opened
        self._assembler = opened.new_decoder()
        self._left_out = None
        if self._skips and opened.plugin == "pgoutput":
            self._left_out = left_out_of(self._skips, opened.options.streaming, opened.encoding)

    def run(self) -> None:
        """Until told to stop; raises what ended the session otherwise."""
        self._session.add_waker(self._writing.waker)
        more = False
        while not self._stop.is_set() and not self._is_there():
            if not more and self._session.wait(self._timeout()):
                self._writing.drain_waker()
            self._check_writer()
            more = self._read()
            self._hand_over()
            self._confirm()

    def _is_there(self) -> bool:
        """Whether all before the transaction that this session stops at is with the writer."""
        return self._before is not None and self._before.reached and not self._batch.events

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
        if self._writing.seconds_in_batch > STORE_SECONDS:
            raise StoreFailed("TimeoutError")
        if self._writing.desired != "running":
            self._stop.set()

    def _read(self) -> bool:
        """Decode what has arrived, unless the batch is full; whether there may be more."""
        batch = self._batch
        if batch.frames >= BATCH_FRAMES or batch.size_bytes >= BATCH_BYTES:
            return False
        if self._before is not None and self._before.reached:
            return False
        if not batch.events and not self._writing.waiting:
            self._session.settled(self._writing.stored_lsn, self._recorder.open_xids)
        limit = min(READ_FRAMES, BATCH_FRAMES - batch.frames)
        frames = self._session.read(limit, BATCH_BYTES - batch.size_bytes)
        self._decode(frames)
        if self._session.portions_read != self._portions_read:
            self._portion_over()
        return bool(frames)

    def _decode(self, frames: list[bytes]) -> None:
        """Add what these frames tell to the batch."""
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
        batch.events += self._assembler.feed(frames)
        batch.frames += len(frames)
        batch.size_bytes += sum(map(len, frames))

    def _portion_over(self) -> None:
        """The server begins anew: the recorder learns which streams it will send again."""
        self._portions_read = self._session.portions_read
        streams = self._assembler.open_streams
        self._passed_lsn = max(self._passed_lsn, self._assembler.passed_lsn)
        if streams or self._session.aborted_xids:
            event = PeekEnded(streams, self._session.aborted_xids)
            self._batch.events.append(event)  # type: ignore[arg-type]
        self._begin_decoding()

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
        elif self._before is not None and self._before.reached:
            return  # the server's position is beyond what was let go: it must not be confirmed
        else:
            pending = self._assembler.in_transaction
            passed = max(self._session.keepalive_lsn, self._passed_lsn, self._assembler.passed_lsn)
            batch.idle_lsn = idle_position(passed, self._feedback.stored_lsn, pending=pending)
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

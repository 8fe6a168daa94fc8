"""Receive a slot: take its lease, run sessions until told to stop, and report problems.

A session ends in one of four ways: the receiver is told to stop; another receiver took the slot
over; the store failed; the source failed. In the last two cases a new session starts from the
stored checkpoint, after a pause during which the lease is kept.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from django.conf import settings

from decoder.reader import ProtocolError
from replview.catalog.problems import SourceProblem
from replview.receiver import process, reports
from replview.receiver.culprits import Culprit, Unstorable, undecodable
from replview.receiver.problems import name_trouble, pause_seconds, where_it_failed
from replview.receiver.quarantine import PendingDecision, StopPoint, quarantine, try_again, waiting
from replview.receiver.sessions.opening import OpenSession, open_session
from replview.receiver.sessions.pacing import patience_seconds
from replview.receiver.sessions.pump import Listeners, StoreFailed, record
from replview.receiver.sessions.walsender import ReplicationSession
from replview.store.connecting import connect_store
from replview.store.write import lease as leases
from replview.store.write.incarnations import SlotRow, read_slot
from replview.store.write.lease import Fenced, Lease

log = logging.getLogger(__name__)

#: Returns the connection string of a source, with its password; called anew for each session.
ConninfoReader = Callable[[int], str]


def receive(
    slot_id: int,
    *,
    owner: str,
    stop: threading.Event,
    conninfo_of: ConninfoReader,
    listeners: Listeners | None = None,
) -> bool:
    """Receive one slot until ``stop`` is set or another receiver takes it over.

    Returns False at once if the slot is not to be received or another receiver holds its lease.
    """
    process.prepare_for_batches()
    store = connect_store("replview receiver")
    try:
        lease = leases.take(store, slot_id, owner)
    except BaseException:
        store.close()
        raise
    if lease is None:
        store.close()
        return False
    fields = {"slot_id": slot_id, "epoch": lease.epoch}
    log.info("slot %s: taken by %s, epoch %s", slot_id, owner, lease.epoch, extra=fields)
    if lease.taken_from:
        reports.log_takeover(store, lease)
    receiver = Receiver(store, lease, stop, conninfo_of, listeners or Listeners())
    if not process.run_until_stopped(receiver.run, stop):
        log.warning(
            "slot %s: what it waits for does not end; left to itself", slot_id, extra=fields
        )
    if stop.is_set() and not receiver.let_go:
        process.release_in_time(lease)
    return True


class Receiver:
    """A receiver reads one slot under one lease."""

    def __init__(
        self,
        store: psycopg.Connection[Any],
        lease: Lease,
        stop: threading.Event,
        conninfo_of: ConninfoReader,
        listeners: Listeners,
    ) -> None:
        self._store = store
        self._lease = lease
        self._stop = stop
        self._conninfo_of = conninfo_of
        self._listeners = listeners
        #: Adds the slot, its epoch and position to log records, for logs in JSON.
        self._log = logging.LoggerAdapter(log, {"slot_id": lease.slot_id, "epoch": lease.epoch})
        self._attempt = 0
        #: Number of sessions in a row that were given up because the server did not answer.
        self._silences = 0
        self._last_code = ""
        #: Position and bytes of the message that the last session could not decode.
        self._undecoded: tuple[int | None, bytes] | None = None
        #: Point at which the next session stops; None: it has no end.
        self._before: StopPoint | None = None
        #: True once the lease is released.
        self.let_go = False

    def run(self) -> None:
        """Run sessions until ``stop`` is set or the lease is lost; then disconnect the store."""
        try:
            self._run()
        finally:
            self._store.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._run_session()
                except (StoreFailed, psycopg.Error) as error:
                    if not self._recover_store(error):
                        return
        except Fenced:
            self._log.info("slot %s: another receiver took over", self._lease.slot_id)
            return
        self._release_lease()

    def _run_session(self) -> None:
        slot = read_slot(self._store, self._lease.slot_id)
        self._log = logging.LoggerAdapter(
            log, reports.facts_for_logs(slot, self._lease, slot.checkpoint_lsn)
        )
        if (pending := waiting(self._store, slot.id)) is not None:
            if pending.decision:
                try_again(self._store, slot, pending)
            elif self._before is None:
                self._await_decision(pending)
                return
        before, self._before = self._before, None
        problem = self._stream(slot, before)
        if problem is not None:
            self._pause(problem)

    def _await_decision(self, pending: PendingDecision) -> None:
        """Hold the slot until somebody decides about the change that could not be stored."""
        self._stop_unless_running(
            reports.record_trouble(self._store, self._lease, "failed", pending.trouble)
        )
        self._listeners.slot_changed(self._lease.slot_id)
        while not self._stop.wait(settings.HEARTBEAT_SECONDS):
            self._stop_unless_running(leases.beat(self._store, self._lease))
            current = waiting(self._store, self._lease.slot_id)
            if current is None or current.decision:
                return

    def _stream(self, slot: SlotRow, stop_point: StopPoint | None) -> SourceProblem | None:
        """Run one session until its end; return the problem that ended it, if any.

        Every connection to the source is closed afterwards: an idle session would keep the slot
        from other readers.
        """
        conninfo = ""
        opened: OpenSession | None = None
        try:
            conninfo = self._conninfo_of(slot.source_id)
            with leases.kept(connect_store, self._lease):
                opened = open_session(self._store, self._lease, slot, conninfo)
            self._report_streaming(slot, opened)
            record(opened, self._store, self._lease, slot, self._stop, self._listeners, stop_point)
        except (Fenced, StoreFailed):
            raise
        except Exception as error:
            if self._store.closed:
                raise StoreFailed(type(error).__name__) from error
            if (culprit := self._culprit(error)) is not None:
                self._quarantine(slot, culprit)
                return None
            return self._problem_of(error, slot, conninfo)
        finally:
            if opened is not None:
                if opened.made_progress:
                    self._attempt = self._silences = 0
                opened.close()
                if not self._stop.is_set():
                    process.give_back_memory()
        return None

    def _report_streaming(self, slot: SlotRow, opened: OpenSession) -> None:
        first_lsn = opened.incarnation.checkpoint_lsn
        self._log = logging.LoggerAdapter(log, reports.facts_for_logs(slot, self._lease, first_lsn))
        self._log.info("slot %s: streaming from %s", slot.id, first_lsn)
        if isinstance(opened.session, ReplicationSession):
            opened.session.silence.answer_seconds = patience_seconds(
                settings.WALSENDER_TIMEOUT_SECONDS, self._silences
            )
            opened.session.encoding = opened.encoding
        is_reconnect = bool(self._last_code)
        self._stop_unless_running(
            reports.record_streaming(
                self._store, self._lease, opened.incarnation, again=is_reconnect
            )
        )
        self._last_code = ""
        self._listeners.slot_changed(slot.id)

    def _quarantine(self, slot: SlotRow, culprit: Culprit) -> None:
        """Quarantine what cannot be stored, and let the next session stop just before it."""
        quarantine(self._store, self._lease, slot, culprit)
        is_identified = culprit.xid is not None or culprit.tag == "M"
        if is_identified and slot.plugin == "pgoutput":
            # Changes before it in the same batch are still to be stored.
            self._before = StopPoint(culprit.xid, culprit.final_lsn, culprit.lsn)

    def _problem_of(self, error: Exception, slot: SlotRow, conninfo: str) -> SourceProblem:
        problem = name_trouble(
            error, conninfo=conninfo, slot=slot.name, publications=slot.publications
        )
        self._silences += problem.code == "silent"
        if problem.code == "internal":
            self._log.error("slot %s: %s", slot.id, where_it_failed(error))
        return problem

    def _culprit(self, error: Exception) -> Culprit | None:
        """Return what cannot be stored, or None if the error means something else.

        A message that cannot be decoded counts only once it was received a second time.
        """
        if isinstance(error, Unstorable):
            return error.culprit
        if not isinstance(error, ProtocolError) or error.frame is None:
            return None
        culprit = undecodable(error)
        former, self._undecoded = self._undecoded, (culprit.lsn, culprit.raw)
        return culprit if former == self._undecoded else None

    def _pause(self, problem: SourceProblem) -> None:
        self._attempt += 1
        seconds = pause_seconds(problem.code, self._attempt)
        state = "reconnecting" if seconds < 30.0 else "failed"
        self._log.warning("slot %s: %s", self._lease.slot_id, problem.cause)
        retry_at = time.monotonic() + seconds
        desired = reports.record_trouble(
            self._store, self._lease, state, problem, retry_seconds=seconds
        )
        if problem.code != self._last_code:
            kind = "disconnected" if state == "reconnecting" else "problem"
            reports.log_trouble(self._store, self._lease, kind, problem)
        self._last_code = problem.code
        self._listeners.slot_changed(self._lease.slot_id)
        self._stop_unless_running(desired)
        while (seconds_left := retry_at - time.monotonic()) > 0 and not self._stop.wait(
            min(seconds_left, 1.0)
        ):
            self._stop_unless_running(leases.beat(self._store, self._lease))

    def _stop_unless_running(self, desired: str) -> None:
        if desired != "running":
            self._stop.set()

    def _recover_store(self, error: Exception) -> bool:
        """Connect to the store again after it failed; return False if told to stop meanwhile."""
        cause = error.__cause__ or error
        self._log.warning(
            "slot %s: the store failed (%s)", self._lease.slot_id, type(cause).__name__
        )
        self._store.close()
        # The pause grows until something was stored: connecting may work where writing does not.
        self._attempt += 1
        pause = pause_seconds("restarting", self._attempt)
        lost_at = time.monotonic()
        while not self._stop.wait(pause):
            pause = min(pause * 2, 5.0)
            try:
                self._store = connect_store("replview receiver")
                leases.beat(self._store, self._lease)
                reports.log_store_outage(self._store, self._lease, time.monotonic() - lost_at)
                self._last_code = "store_away"
            except psycopg.Error:
                self._store.close()
                continue
            return True
        return False

    def _release_lease(self) -> None:
        try:
            process.let_go(self._store, self._lease)
            self.let_go = True
        except psycopg.Error as error:
            self._log.warning(
                "slot %s: could not free the lease (%s)", self._lease.slot_id, type(error).__name__
            )
        self._listeners.slot_changed(self._lease.slot_id)

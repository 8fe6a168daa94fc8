"""Receiving a slot: take the lease, run sessions until told to stop, name what goes wrong.

A session ends in one of four ways: we are told to stop; another receiver took the slot over; the
store failed; the source failed. In the last two it starts anew from the stored checkpoint, after a
pause during which the lease is kept.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from replview.catalog.problems import Trouble
from replview.receiver.opening import OpenSession, open_session
from replview.receiver.problems import name_trouble, pause_seconds, where_it_failed
from replview.receiver.process_memory import prepare_for_batches
from replview.receiver.pump import StoreFailed, pump
from replview.receiver.supervising import let_go, release_in_time, run_until_stopped
from replview.store import lease as leases
from replview.store.connecting import connect_store
from replview.store.incarnations import SlotRow, log_event, read_slot
from replview.store.lease import Fenced, Lease

log = logging.getLogger(__name__)

#: Told after each store transaction: slot, incarnation, last commit_seq, whether an open one moved.
CommitListener = Callable[[int, int, int, bool], None]
#: Told when the slot's state or log changed.
SlotListener = Callable[[int], None]
#: The source's connection string with its password, looked up anew for each session.
ConninfoReader = Callable[[int], str]


@dataclass(slots=True)
class Listeners:
    """Whom a receiver tells; it knows nothing of Channels."""

    committed: CommitListener = lambda slot_id, incarnation_id, commit_seq, open_changed: None
    slot_changed: SlotListener = lambda slot_id: None


def receive(
    slot_id: int,
    *,
    owner: str,
    stop: threading.Event,
    conninfo_of: ConninfoReader,
    listeners: Listeners | None = None,
) -> bool:
    """Receive one slot until ``stop`` is set or somebody else takes it.

    Returns False at once if the slot is not wanted or another receiver holds its lease.
    """
    prepare_for_batches()
    store = connect_store("replview receiver")
    try:
        lease = leases.take(store, slot_id, owner)
    except BaseException:
        store.close()
        raise
    if lease is None:
        store.close()
        return False
    log.info("slot %s: taken by %s, epoch %s", slot_id, owner, lease.epoch)
    receiver = Receiver(store, lease, stop, conninfo_of, listeners or Listeners())
    if not run_until_stopped(receiver.run, stop):
        log.warning("slot %s: what it waits for does not end; left to itself", slot_id)
    if stop.is_set() and not receiver.let_go:
        release_in_time(lease)
    return True


class Receiver:
    """One slot under one lease."""

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
        self._attempt = 0
        self._last_code = ""
        #: The lease was given back.
        self.let_go = False

    def run(self) -> None:
        """Sessions, one after another; closes the connection to the store at the end."""
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
            log.info("slot %s: another receiver took over", self._lease.slot_id)
            return
        self._let_go()

    def _run_session(self) -> None:
        """One session; a failure of the source becomes a named problem and a pause."""
        slot = read_slot(self._store, self._lease.slot_id)
        trouble = self._stream(slot)
        if trouble is not None:
            self._pause(trouble)

    def _stream(self, slot: SlotRow) -> Trouble | None:
        """Until told to stop, or to what ended it; every connection to the source is closed then:
        a stream that nobody reads would keep the slot from everybody else.
        """
        conninfo = ""
        opened: OpenSession | None = None
        try:
            conninfo = self._conninfo_of(slot.source_id)
            with leases.kept(connect_store, self._lease):
                opened = open_session(self._store, self._lease, slot, conninfo)
            self._say_streaming(slot, opened)
            pump(opened, self._store, self._lease, slot, self._stop, self._listeners)
        except (Fenced, StoreFailed):
            raise
        except Exception as error:
            if self._store.closed:
                raise StoreFailed(type(error).__name__) from error
            trouble = name_trouble(
                error, conninfo=conninfo, slot=slot.name, publications=slot.publications
            )
            if trouble.code == "internal":
                log.error("slot %s: %s", slot.id, where_it_failed(error))
            return trouble
        finally:
            if opened is not None:
                if opened.made_progress:
                    self._attempt = 0
                opened.close()
        return None

    def _say_streaming(self, slot: SlotRow, opened: OpenSession) -> None:
        desired = leases.beat(
            self._store,
            self._lease,
            state="streaming",
            problem_code="",
            problem_cause="",
            problem_remedy="",
            retry_at=None,
        )
        self._store.execute(
            "UPDATE slot SET state_since = now(), connected_at = now() "
            "WHERE id = %s AND epoch = %s",
            [slot.id, self._lease.epoch],
        )
        again = "again " if self._last_code else ""
        log_event(
            self._store,
            slot.id,
            "connected",
            f"Connected {again}at {opened.incarnation.checkpoint_lsn}.",
            incarnation_id=opened.incarnation.id,
            after_commit_seq=opened.incarnation.commit_seq,
            lsn=opened.incarnation.checkpoint_lsn,
        )
        self._last_code = ""
        self._listeners.slot_changed(slot.id)
        self._obey(desired)

    def _pause(self, trouble: Trouble) -> None:
        """Say what is wrong, and wait with the lease kept."""
        self._attempt += 1
        seconds = pause_seconds(trouble.code, self._attempt)
        state = "reconnecting" if seconds < 30.0 else "failed"
        log.warning("slot %s: %s", self._lease.slot_id, trouble.cause)
        until = time.monotonic() + seconds
        desired = leases.beat(
            self._store,
            self._lease,
            state=state,
            problem_code=trouble.code,
            problem_cause=trouble.cause,
            problem_remedy=trouble.remedy,
        )
        self._store.execute(
            "UPDATE slot SET retry_at = now() + make_interval(secs => %s) "
            "WHERE id = %s AND epoch = %s",
            [seconds, self._lease.slot_id, self._lease.epoch],
        )
        if trouble.code != self._last_code:
            kind = "disconnected" if state == "reconnecting" else "problem"
            log_event(
                self._store, self._lease.slot_id, kind, f"{trouble.cause[:1].upper()}"
                f"{trouble.cause[1:]}.", detail={"code": trouble.code},
            )  # fmt: skip
        self._last_code = trouble.code
        self._listeners.slot_changed(self._lease.slot_id)
        self._obey(desired)
        while (left := until - time.monotonic()) > 0 and not self._stop.wait(min(left, 1.0)):
            self._obey(leases.beat(self._store, self._lease))

    def _obey(self, desired: str) -> None:
        if desired != "running":
            self._stop.set()

    def _recover_store(self, error: Exception) -> bool:
        """After a failure of the store: connect to it again. False when told to stop meanwhile."""
        cause = error.__cause__ or error
        log.warning("slot %s: the store failed (%s)", self._lease.slot_id, type(cause).__name__)
        self._store.close()
        # Longer each time until something was stored: connecting may work where writing does not.
        self._attempt += 1
        pause = pause_seconds("restarting", self._attempt)
        while not self._stop.wait(pause):
            pause = min(pause * 2, 5.0)
            try:
                self._store = connect_store("replview receiver")
                leases.beat(self._store, self._lease)
            except psycopg.Error:
                self._store.close()
                continue
            return True
        return False

    def _let_go(self) -> None:
        """Told to stop: say so and free the lease."""
        try:
            let_go(self._store, self._lease)
            self.let_go = True
        except psycopg.Error as error:
            log.warning(
                "slot %s: could not free the lease (%s)", self._lease.slot_id, type(error).__name__
            )
        self._listeners.slot_changed(self._lease.slot_id)

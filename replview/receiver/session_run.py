"""One opened session, from its beginning to its end: who decodes, who stores, who is told."""

import threading
from typing import Any

import psycopg

from decoder.events import RelationSeen
from replview.receiver.sessions.opening import OpenSession
from replview.receiver.sessions.pump import FINISH_SECONDS, Pump
from replview.receiver.sessions.received_anew import PeekRecorder
from replview.receiver.skips import Before, read_skips
from replview.receiver.storing.batching import Recorder
from replview.receiver.storing.portions import Note, Portion
from replview.receiver.storing.store_batch import StoreWriter
from replview.receiver.storing.table_plans import TablePlans
from replview.receiver.storing.writer_thread import WritingThread
from replview.store.write.incarnations import SlotRow, log_event
from replview.store.write.lease import Lease
from replview.store.write.shapes import StoredShape


class SessionLog:
    """Writes what a session stores into the slot's log, and tells the listeners."""

    def __init__(
        self,
        store: psycopg.Connection[Any],
        slot: SlotRow,
        opened: OpenSession,
        listeners: Any,
    ) -> None:
        self._store = store
        self._slot_id = slot.id
        self._opened = opened
        self._listeners = listeners
        #: A line was written that nobody was told of yet.
        self._changed = False

    def stored(self, portion: Portion, commit_seq: int) -> None:
        """A portion is in the store."""
        if self._changed:
            self._changed = False
            self._listeners.slot_changed(self._slot_id)
        if portion.committed or portion.open_changed:
            self._opened.made_progress = True
            life = self._opened.incarnation.id
            self._listeners.committed(self._slot_id, life, commit_seq, portion.open_changed)

    def shape(self, seen: RelationSeen, stored: StoredShape, commit_seq: int) -> None:
        """A table has another shape; the first one is no news."""
        if stored.is_new and stored.number > 1:
            relation = seen.relation
            name = f"{relation.namespace}.{relation.name}"
            detail: dict[str, object] = {
                "relation_id": stored.relation_id,
                "version_id": stored.version_id,
            }
            message = f"Schema of {name} changed: version {stored.number}."
            self.note(Note("schema", message, seen.lsn or None, detail), commit_seq)

    def note(self, note: Note, commit_seq: int) -> None:
        """A line, at its place in history."""
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
    listeners: Any,
    before: Before | None = None,
) -> None:
    """Record a session until ``stop``, or up to ``before``.

    Raises ``Fenced``, ``StoreFailed``, or what the source did.
    """
    incarnation = opened.incarnation
    skips = read_skips(store, slot.id)
    told = SessionLog(store, slot, opened, listeners)
    writer = _writer(opened, store, lease, slot, told)
    recorder = (PeekRecorder if slot.interface == "sql" else Recorder)(
        incarnation_id=incarnation.id,
        checkpoint_lsn=incarnation.checkpoint_lsn,
        next_id=writer.next_id,
        is_stored=writer.is_stored,
        was_aborted=writer.was_aborted,
        skips=skips,
        first_seen=incarnation.first_seen,
    )
    writing = WritingThread(writer, recorder, told.stored)
    writing.stored_lsn = incarnation.checkpoint_lsn
    writing.start()
    loop = Pump(opened, writing, stop, skips, recorder, before)
    try:
        loop.run()
        loop.finish()
    finally:
        # Told to stop, it had its time already.
        if not writing.finish(0.1 if stop.is_set() else FINISH_SECONDS):
            store.close()  # breaks a hanging write; its transaction rolls back
            writing.finish(1.0)
        writing.close()


def _writer(
    opened: OpenSession,
    store: psycopg.Connection[Any],
    lease: Lease,
    slot: SlotRow,
    told: SessionLog,
) -> StoreWriter:
    plans = TablePlans(
        slot_id=slot.id,
        system_identifier=opened.system_identifier,
        primary_key=opened.source.primary_key,
        type_names=opened.source.type_names,
        named=opened.tables,
        column_rules=slot.column_rules,
    )
    return StoreWriter(
        store,
        lease,
        incarnation_id=opened.incarnation.id,
        commit_seq=opened.incarnation.commit_seq,
        plans=plans,
        on_shape=told.shape,
        on_note=told.note,
    )

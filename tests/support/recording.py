"""A receiver in a thread of the test, against a real source and the real store."""

import itertools
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg
import pytest

from replview.acts.publications import look_at_publications
from replview.receiver.run import receive
from replview.receiver.sessions.pump import Listeners
from replview.store.connecting import connect_store
from replview.store.dsn import set_dsn
from replview.store.models import Change, Slot, Source, Transaction
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

_numbers = itertools.count(1)
_WAITS_FOR_A_LOCK = """
    SELECT FROM pg_stat_activity WHERE datname = current_database()
      AND application_name = 'replview receiver' AND wait_event_type = 'Lock'
"""


def store_hangs(session: psycopg.Connection) -> bool:
    """Return True if a receiver waits for a lock in the store, as another session sees it."""
    return session.execute(_WAITS_FOR_A_LOCK).fetchone() is not None


@dataclass
class Recording:
    """A slot being received, and the test's view of what was stored."""

    source: SourceDatabase
    slot: Slot
    stop: threading.Event = field(default_factory=threading.Event)
    #: The stop events of all receivers that were started.
    stops: list[threading.Event] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    wakes: list[tuple[int, int, int, bool]] = field(default_factory=list)
    #: The address by which the receiver reaches the source; the superuser's unless a test changes
    #: it.
    dsn: str = ""

    def start(self, owner: str = "test") -> None:
        """Run a receiver in a thread."""
        self.stop = threading.Event()
        self.stops.append(self.stop)
        arguments = {
            "owner": owner,
            "stop": self.stop,
            "conninfo_of": lambda _: self.dsn or self.source.dsn,
            "listeners": Listeners(committed=lambda *wake: self.wakes.append(wake)),
        }
        thread = threading.Thread(
            target=receive, name="receive", args=[self.slot.pk], kwargs=arguments, daemon=True
        )
        thread.start()
        self.threads.append(thread)

    def end(self) -> None:
        """Stop it and wait until it has gone."""
        self.tell_to_stop()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "the receiver did not stop"
        self.threads.clear()

    def tell_to_stop(self) -> None:
        for stop in self.stops:
            stop.set()

    def caught_up(self, seconds: float = 60.0) -> None:
        """Wait until everything committed on the source so far is stored."""
        with self.source.connect(client_encoding="UTF8") as connection:
            row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        from decoder.scalars import LSN

        target = LSN.parse(row[0])

        def stored() -> bool:
            self.slot.refresh_from_db()
            return self.slot.checkpoint_lsn is not None and self.slot.checkpoint_lsn >= target

        wait_for(stored, seconds)

    def looked(self) -> None:
        """Look at the source's catalog as sampling does, and wait until everything committed so far
        is stored, and what the receiver then finds in the catalog. ``HEARTBEAT_SECONDS`` should be
        short.
        """
        self.sample()
        self.caught_up()
        # The mark is read, the catalog is, its position is reached, and what was found is stored.
        for _ in range(4):
            self._beats()
        self.caught_up()
        self._beats()

    def sample(self) -> None:
        """Look at the catalog and the publications once, as sampling does."""
        owner = self.slot.source
        set_dsn(owner, self.source.dsn)
        owner.save(update_fields=["conninfo", "sealed_password", "password_ref"])
        look_at_publications(owner)

    def _beats(self) -> None:
        """Wait for another heartbeat."""
        self.slot.refresh_from_db()
        last = self.slot.heartbeat_at

        def has_come() -> bool:
            self.slot.refresh_from_db()
            return self.slot.heartbeat_at != last

        wait_for(has_come)

    def problem(self, code: str) -> Slot:
        """Wait until the slot names this problem."""

        def is_named() -> bool:
            self.slot.refresh_from_db()
            return self.slot.problem_code == code

        wait_for(is_named)
        return self.slot

    def streaming(self) -> None:
        """Wait until the stream has started."""

        def is_streaming() -> bool:
            self.slot.refresh_from_db()
            return self.slot.state == Slot.State.STREAMING

        wait_for(is_streaming)

    def transactions(self, **filters: object) -> list[Transaction]:
        """Return the slot's transactions in the order of history, open ones last.

        Discarded ones are left out unless ``state`` is among the filters.
        """
        found = Transaction.objects.filter(incarnation__slot=self.slot, **filters)
        if "state" not in filters:
            found = found.exclude(state="discarded")
        return sorted(found, key=lambda t: (t.commit_seq is None, t.commit_seq, t.id))

    def changes(self, transaction: Transaction) -> list[Change]:
        """The changes of one transaction, in order."""
        return list(Change.objects.filter(transaction_id=transaction.pk).order_by("seq"))


@pytest.fixture
def record(transactional_db) -> Iterator[Callable[..., Recording]]:
    """``record(source, …)``: make publication, slot and record; everything ends with the test."""
    recordings: list[Recording] = []

    def make(
        source: SourceDatabase,
        *,
        start: bool = True,
        two_phase: bool = True,
        publish: str = "ALL TABLES",
        plugin: str = "pgoutput",
        **columns,
    ):
        name = f"replview_{next(_numbers)}"
        with source.connect() as connection:
            connection.execute(f"CREATE PUBLICATION {name} FOR {publish}")
            try:
                source.create_slot(name, plugin, two_phase=two_phase)
            except psycopg.errors.UndefinedFile:
                pytest.skip(f"{plugin} is not installed for this PostgreSQL")
        owner, _ = Source.objects.get_or_create(name=source.name, conninfo="in the test")
        slot = Slot.objects.create(
            source=owner, name=name, publications=[name], plugin=plugin, **columns
        )
        recording = Recording(source, slot)
        recordings.append(recording)
        if start:
            recording.start()
            recording.streaming()
        return recording

    yield make
    for recording in recordings:
        recording.tell_to_stop()
    leave_none([recording.source for recording in recordings])
    for recording in recordings:
        recording.end()


#: A receiver's threads. One that waits for a server that does not answer is left to itself when the
#: receiver is stopped, and would write to the store of the tests that come after.
_THREADS = ("receive", "receiver", "store-writer", "lease-release")
_SESSIONS = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND application_name IN ('replview', 'replview receiver')
"""


def leave_none(sources: list[SourceDatabase], seconds: float = 10.0) -> None:
    """Wait until no receiver's thread is left; end its sessions, where it waits in one. Fails the
    test where even then one is left, and says where that is.
    """
    if _are_gone(seconds):
        return
    with suppress(psycopg.OperationalError), connect_store("test") as store:
        store.execute(_SESSIONS)
    for source in sources:
        with suppress(psycopg.OperationalError), source.connect() as session:
            session.execute(_SESSIONS)
    if not _are_gone(60.0):
        frames = sys._current_frames()
        left = [
            f"{thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident]))}"
            for thread in receiving()
            if thread.ident in frames
        ]
        pytest.fail("a receiver outlived its test, and disturbs those after it:\n" + "".join(left))


def _are_gone(seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and receiving():
        time.sleep(0.02)
    return not receiving()


def receiving() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name in _THREADS]

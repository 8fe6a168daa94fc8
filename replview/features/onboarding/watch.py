"""Watch a source through a temporary slot that is received in this process.

``replview watch`` and watches begun in a browser use it. Source and slot are in the store only
while the watch lasts; on the server the slot is dropped with its connection. An existing
publication is used if there is one, else one is created for the watch and dropped afterwards.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from django.db import connection as store
from django.db import transaction
from psycopg import conninfo as libpq

from replview.catalog.connections import connected
from replview.catalog.plan.carrying_out import waiting_for
from replview.catalog.plan.new_slot import SlotPlan
from replview.catalog.slots import read_slots
from replview.jobs.baselines import cancel_all
from replview.live.publisher import Publisher
from replview.receiver.run import receive
from replview.receiver.sessions.pump import Listeners
from replview.store.dsn import set_dsn
from replview.store.models import Slot, Source
from replview.store.retention import tidy

Say = Callable[[str], None]
#: Seconds that a receiver has to stop, and that deleting its rows may take in this process.
_STOP_SECONDS = 4.0
_FORGET_SECONDS = 5.0
_CUT_SECONDS = 3.0
_POLL_SECONDS = 0.5
#: Seconds after which creating the slot is taken to wait for a transaction.
_PATIENCE_SECONDS = 3.0


@dataclass
class Watching:
    """One watch, from its rows in the store to their removal."""

    conninfo: str
    plan: SlotPlan
    options: dict[str, Any]
    say: Say
    wakes: Publisher

    @contextmanager
    def registered(self) -> Iterator[Slot]:
        """Add an ephemeral source and its slot to the store, and remove them afterwards."""
        parameters = libpq.conninfo_to_dict(self.conninfo)
        # A source's name is a path segment in URLs, so it must not contain a slash.
        database = str(parameters.get("dbname") or parameters.get("service") or "source").replace(
            "/", "-"
        )
        # Seal and store the password, so that sampling reaches the source too.
        source = Source(name=f"watch-{database[:40]}-{self.plan.slot_name[-8:]}", ephemeral=True)
        set_dsn(source, self.conninfo)
        # Use one transaction: an ephemeral source without a slot is deleted as abandoned.
        with transaction.atomic():
            source.save()
            slot = Slot.objects.create(
                source=source,
                name=self.plan.slot_name,
                publications=list(self.plan.publications),
                options=self.options,
                column_rules=self.plan.column_rules,
                temporary=True,
            )
        try:
            yield slot
        finally:
            self._remove_from_store(source)

    def receive(self, slot: Slot, stop: threading.Event) -> None:
        """Receive until ``stop`` is set, and report each change of the slot's state."""
        wakes = self.wakes
        receiver_options = {
            "owner": f"watch@{socket.gethostname()}:{os.getpid()}",
            "stop": stop,
            "conninfo_of": lambda source_id: self.conninfo,
            "listeners": Listeners(committed=wakes.wake, slot_changed=wakes.slot_changed),
        }
        reader = threading.Thread(
            target=receive, args=[slot.pk], kwargs=receiver_options, name="receiver"
        )
        reader.start()
        try:
            self._report_state(slot, stop, reader)
        finally:
            stop.set()
            reader.join(_STOP_SECONDS)
            self._terminate_walsender()
            reader.join(_STOP_SECONDS)
            wakes.slot_changed(slot.pk)

    def _report_state(self, slot: Slot, stop: threading.Event, reader: threading.Thread) -> None:
        """Report each change of the slot's state until the receiver ends."""
        last_line = ""
        began = time.monotonic()
        while reader.is_alive() and not stop.wait(_POLL_SECONDS):
            slot.refresh_from_db()
            line = f"{slot.state}"
            if slot.problem_cause:
                line = f"{slot.problem_cause}. {slot.problem_remedy}"
            elif slot.state == Slot.State.STARTING and time.monotonic() - began > _PATIENCE_SECONDS:
                line = waiting_for(self.conninfo)
                began = time.monotonic()
            if line != last_line:
                self.say(line)
                last_line = line

    def _terminate_walsender(self) -> None:
        """Terminate our walsender if it still runs, and wait until its slot is dropped.

        A walsender that waits for a transaction while it creates a slot does not notice that its
        connection was closed.
        """
        deadline = time.monotonic() + _CUT_SECONDS
        with suppress(psycopg.Error), connected(self.conninfo) as connection:
            while time.monotonic() < deadline:
                own_slots = [
                    slot for slot in read_slots(connection) if slot.slot_name == self.plan.slot_name
                ]
                if not own_slots:
                    return
                if own_slots[0].active_pid:
                    connection.execute("SELECT pg_terminate_backend(%s)", [own_slots[0].active_pid])
                time.sleep(0.05)

    def _remove_from_store(self, source: Source) -> None:
        """Remove source and slot from the store; a later beat deletes what takes too long now."""
        Slot.objects.filter(source=source).update(desired=Slot.Desired.REMOVING, lease_owner="")
        with tidy.alone() as locked:
            if locked:
                tidy.remove_slots(time.monotonic() + _FORGET_SECONDS, cancel_all)
        store.close()

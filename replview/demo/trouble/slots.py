"""This module makes troubles of slots: a paused receiver, an unread slot, and a lost slot."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import psycopg
from psycopg import errors, sql

from replview.demo.trouble.place import MB, OUR_SLOT, RETAINED, CannotMake, Trouble, number
from replview.store.models import AlertRule

IDLE_SLOT = "debezium_billing"
LOST_SLOT = "debezium_orders"

#: Distance of the limit from the WAL that other slots need, and of the victim from the limit, so
#: that no other slot comes near the limit.
_MARGIN_BYTES = 64 * MB
_WAIT_SECONDS = 60.0
#: The most WAL that the server retains for the victim.
_MAX_BYTES = 384 * MB

_WORST_OF_OTHERS = (
    "SELECT slot_name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint"
    " FROM pg_replication_slots WHERE slot_name <> %s AND restart_lsn IS NOT NULL"
    " AND wal_status <> 'lost' ORDER BY 2 DESC LIMIT 1"
)
_IS_LOST = "SELECT (wal_status = 'lost')::int FROM pg_replication_slots WHERE slot_name = %s"


class IdleSlot(Trouble):
    """The consumer of a slot is gone, but its slot is still there."""

    name = "idle-slot"
    #: Each step is a WAL segment: 1.6 MB a second, half a gigabyte until the end.
    pause_seconds = 10.0
    rules = (
        {"name": "demo: slot inactive for over 5 s", "kind": "slot_inactive", "threshold": 5.0},
    )  # fmt: skip

    def make(self) -> Iterator[bool]:
        """Create a copy of replview's slot and move the WAL on, so that the copy retains it."""
        with self.place.shop("idle slot") as connection:
            _copy_ours(connection, IDLE_SLOT)
            while True:
                _move_on(connection)
                yield True

    def end(self) -> None:
        """Drop the copy."""
        _drop(self, IDLE_SLOT)


class LostSlot(Trouble):
    """The server removes WAL that a slot still needs, by max_slot_wal_keep_size."""

    name = "lost-slot"
    pause_seconds = 0.3

    def make(self) -> Iterator[bool]:
        """Leave a copy of our slot behind until a limit can be set that only it exceeds."""
        with self.place.shop("lost slot") as connection:
            _copy_ours(connection, LOST_SLOT)
            for _ in range(int(_WAIT_SECONDS / self.pause_seconds)):
                if _leave_behind(connection):
                    break
                yield False
            else:
                name, _ = _worst_of_others(connection)
                raise CannotMake(
                    f"The slot {name} needs WAL as old as the victim's and would be lost with it: "
                    "try again once no other trouble holds it back."
                )
            while True:
                yield True

    def end(self) -> None:
        """Reset the limit and drop the copy."""
        with self.place.shop("lost slot") as connection:
            _forget_limit(connection)
        _drop(self, LOST_SLOT)


def _leave_behind(connection: psycopg.Connection) -> bool:
    """Take one step: move the WAL on, or lose the victim if no other slot can be lost."""
    victim = number(connection, RETAINED, LOST_SLOT)
    _, others_bytes = _worst_of_others(connection)
    # The limit is twice what the others need, so that none of them seems near it.
    keep_bytes = 2 * others_bytes + _MARGIN_BYTES
    if victim is None or victim < keep_bytes + _MARGIN_BYTES:
        _move_on(connection, switch_segment=(victim or 0) < _MAX_BYTES)
        return False
    limit = sql.SQL("ALTER SYSTEM SET max_slot_wal_keep_size = {}")
    connection.execute(limit.format(f"{keep_bytes // MB}MB"))
    try:
        connection.execute("SELECT pg_reload_conf()")
        # The checkpointer reloads its configuration before a checkpoint starts.
        for _ in range(3):
            connection.execute("CHECKPOINT")
            if number(connection, _IS_LOST, LOST_SLOT):
                return True
            _move_on(connection)
    finally:
        _forget_limit(connection)
    return False


def _worst_of_others(connection: psycopg.Connection) -> tuple[str, int]:
    """Return the other slot that needs the most WAL, and how many bytes."""
    row = connection.execute(_WORST_OF_OTHERS, (LOST_SLOT,)).fetchone()
    return ("", 0) if row is None else (row[0], row[1])


def _move_on(connection: psycopg.Connection, *, switch_segment: bool = True) -> None:
    """Let slots advance, after switching to the next WAL segment, which costs little."""
    # Without a new record there is nothing to switch after; a restore point is no data.
    connection.execute("SELECT pg_create_restore_point('trouble')")
    if switch_segment:
        connection.execute("SELECT pg_switch_wal()")
    connection.execute("SELECT pg_log_standby_snapshot()")


def _forget_limit(connection: psycopg.Connection) -> None:
    connection.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
    connection.execute("SELECT pg_reload_conf()")


def _copy_ours(connection: psycopg.Connection, name: str) -> None:
    """Copy our slot, which is immediate; creating a slot waits for open transactions."""
    _drop_slot(connection, name)
    try:
        connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", (OUR_SLOT, name))
    except (errors.UndefinedObject, errors.ObjectNotInPrerequisiteState) as error:
        cause = f"replview's slot cannot be copied: {error.diag.message_primary}"
        raise CannotMake(cause) from None


def _drop(trouble: Trouble, name: str) -> None:
    with trouble.place.shop("drop") as connection:
        _drop_slot(connection, name)


def _drop_slot(connection: psycopg.Connection, name: str) -> None:
    """Drop the slot, after ending a session that reads it."""
    connection.execute(
        "SELECT pg_terminate_backend(active_pid, 3000) FROM pg_replication_slots"
        " WHERE slot_name = %s AND active_pid IS NOT NULL",
        (name,),
    )
    with suppress(errors.UndefinedObject):
        connection.execute(sql.SQL("SELECT pg_drop_replication_slot({})").format(sql.Literal(name)))


class PausedReceiver(Trouble):
    """SIGSTOP pauses the receiver: its connection stays open, but it is silent."""

    name = "paused-receiver"
    # The server ends a walsender that receives nothing for wal_sender_timeout.
    lasts_seconds = 180.0
    rules = (
        {"name": "demo: receiver silent for over 6 s", "kind": "receiver_down",
         "severity": AlertRule.Severity.NOW, "threshold": 6.0},
    )  # fmt: skip

    def make(self) -> Iterator[bool]:
        """Stop every receivers' worker, including one that starts meanwhile."""
        if not self._workers():
            raise CannotMake("No receivers' worker runs that could be paused.")
        while True:
            for pid in self._workers():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            yield True

    def end(self) -> None:
        """Let all workers continue."""
        for pid in self._workers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _workers(self) -> list[int]:
        return self.place.processes("receivers")

"""A lease says who may write for a slot (owner, heartbeat), and its epoch fences off all others.

A receiver that takes a slot over raises ``slot.epoch``. Every store transaction of a receiver
begins with an UPDATE of the slot row ``WHERE epoch = mine``; if that changes no row, another
receiver has taken over and this one stops (``Fenced``).
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from django.conf import settings
from psycopg import sql
from psycopg.rows import dict_row

#: Factor of ``STORE_GONE_SECONDS`` after which a stalled write is ended.
_STALLED_TIMES = 4 / 3
#: Seconds between the heartbeats of ``kept``.
KEEP_SECONDS = 1.5


class Fenced(Exception):
    """Another receiver has taken the slot over: stop, and write nothing more."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write for one slot, until another receiver takes it over."""

    slot_id: int
    epoch: int
    owner: str
    #: Owner of the expired lease; empty where there was none.
    taken_from: str = ""


def take(connection: psycopg.Connection[Any], slot_id: int, owner: str) -> Lease | None:
    """Take a slot's lease for ``owner``; None if the slot is not to run or its lease is valid.

    A slot row that is locked is being written by a live receiver, and is skipped.
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(
            """
            UPDATE slot SET epoch = slot.epoch + 1, lease_owner = %(owner)s,
                   heartbeat_at = clock_timestamp(), state = 'starting', state_since = now()
            FROM (
                SELECT id, lease_owner AS former FROM slot
                WHERE id = %(slot_id)s AND desired = 'running'
                  AND (lease_owner = '' OR heartbeat_at IS NULL OR heartbeat_at
                       < clock_timestamp() - make_interval(secs => %(seconds)s))
                FOR UPDATE SKIP LOCKED) AS free
            WHERE slot.id = free.id
            RETURNING slot.epoch, free.former
            """,
            {"slot_id": slot_id, "owner": owner, "seconds": settings.LEASE_SECONDS},
        ).fetchone()
    if row is None:
        _end_stalled(connection, slot_id)
        return None
    return Lease(slot_id, row["epoch"], owner, row["former"])


def _end_stalled(connection: psycopg.Connection[Any], slot_id: int) -> None:
    """End sessions of receivers and baselines that stopped in the middle of a write.

    A process that was paused (SIGSTOP, a paused machine) keeps the slot's row locked: no timeout of
    the server interrupts waiting for COPY data, or for the rest of a pipeline.
    """
    connection.execute(
        """
        SELECT pg_terminate_backend(a.pid) FROM slot s, pg_stat_activity a
        WHERE s.id = %(slot_id)s AND s.desired = 'running'
          AND s.heartbeat_at < clock_timestamp() - make_interval(secs => %(seconds)s)
          AND a.datname = current_database() AND a.usename = current_user
          AND a.application_name IN ('replview receiver', 'replview baseline')
          AND a.state = 'active'
          AND a.wait_event = 'ClientRead'
          AND a.query_start < clock_timestamp() - make_interval(secs => %(seconds)s)
        """,
        {"slot_id": slot_id, "seconds": settings.STORE_GONE_SECONDS * _STALLED_TIMES},
    )


def beat(connection: psycopg.Connection[Any], lease: Lease, **columns: object) -> str:
    """Renew the lease: update the slot's heartbeat, and ``columns`` of its row besides.

    Returns the state that is desired of the slot (``running``, ``stopped``, ``removing``). Raises
    ``Fenced`` when another receiver has taken the slot over.
    """
    names = sorted(columns)
    assignments = sql.SQL("").join(
        sql.SQL(", {} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in names
    )
    query = sql.SQL(
        "UPDATE slot SET heartbeat_at = clock_timestamp(){} "
        "WHERE id = %(lease_slot)s AND epoch = %(lease_epoch)s RETURNING desired"
    ).format(assignments)
    lease_params = {"lease_slot": lease.slot_id, "lease_epoch": lease.epoch}
    row = connection.execute(query, {**columns, **lease_params}).fetchone()
    if row is None:
        raise Fenced(f"slot {lease.slot_id} was taken over by another receiver")
    return str(row[0])


@contextmanager
def kept(connect: Callable[[], psycopg.Connection[Any]], lease: Lease) -> Iterator[None]:
    """Renew the lease from a thread with its own connection, for the duration of the block.

    It is for waits that may take longer than a lease: a host that does not answer, a slow start.
    """
    done = threading.Event()

    def keep() -> None:
        with suppress(Fenced):
            while not done.wait(KEEP_SECONDS):
                # Connect again later if the store has no free connection at this moment.
                with suppress(psycopg.Error), connect() as connection:
                    beat(connection, lease)
                    while not done.wait(KEEP_SECONDS):
                        beat(connection, lease)

    thread = threading.Thread(target=keep, name="lease-keeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(KEEP_SECONDS)


def release(connection: psycopg.Connection[Any], lease: Lease) -> bool:
    """Release the lease at once; return False if it was lost already.

    This raises the slot's epoch, so that no statement of this receiver that still hangs can write.
    """
    released = connection.execute(
        """
        UPDATE slot SET epoch = epoch + 1, lease_owner = '', heartbeat_at = NULL,
               state = 'stopped', state_since = now(), retry_at = NULL
        WHERE id = %s AND epoch = %s
        """,
        [lease.slot_id, lease.epoch],
    )
    return released.rowcount == 1

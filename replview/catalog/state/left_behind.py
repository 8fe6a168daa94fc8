"""What somebody who was killed may have left on a source: is it there, and is it still ours?"""

import time

from decoder.scalars import LSN
from replview.catalog.connections import Connection
from replview.catalog.queries import Query
from replview.catalog.slots import SlotFacts, read_slots

#: For a backend that is told to end.
_END_SECONDS = 5.0
ABSENT, BEING_MADE, IDLE, TAKEN = "absent", "being made", "idle", "taken"

PUBLICATION = Query(
    name="own_publication",
    about="Whether there is such a publication of the connected role; anyone may read it.",
    sql="SELECT 1 AS found FROM pg_publication WHERE pubname = %s "
    "AND pg_has_role(pubowner, 'USAGE')",
)
RUNS = Query(
    name="runs_statement",
    about="Whether a process runs just this statement; of sessions of the same role.",
    sql="SELECT 1 AS found FROM pg_stat_activity WHERE pid = %s AND query = %s",
)
END = Query(
    name="end_statement",
    about="Ends the process that runs just this statement; of sessions of the same role.",
    sql="SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity "
    "WHERE pid = %s AND query = %s",
)


def slot_left(
    connection: Connection, name: str, create: str, after: LSN | None, database: str
) -> str:
    """``absent``; ``being made``: by a statement that still runs; ``idle``: made, read by nobody;
    ``taken``: it is somebody else's.

    ``create``: the statement we sent. ``after``: where the WAL was before it: a slot that goes
    further back was there before, or has been another's.
    """
    found = _find(connection, name)
    if found is None:
        return ABSENT
    if found.plugin != "pgoutput" or found.database != database:
        return TAKEN
    if found.active:
        ours = found.active_pid and RUNS.rows(connection, found.active_pid, create)
        return BEING_MADE if ours else TAKEN
    if after is not None and found.restart_lsn is not None and found.restart_lsn < after:
        return TAKEN
    return IDLE


def end_making(connection: Connection, name: str, create: str) -> bool:
    """End the statement that still makes it: what is not made whole goes with its session.
    Returns whether the slot is gone.
    """
    until = time.monotonic() + _END_SECONDS
    while (found := _find(connection, name)) is not None and time.monotonic() < until:
        if not found.active:
            return False
        END.rows(connection, found.active_pid, create)
        time.sleep(0.05)
    return found is None


def publication_left(connection: Connection, name: str) -> bool:
    """Whether there is such a publication, and it is this role's."""
    return bool(PUBLICATION.rows(connection, name))


def _find(connection: Connection, name: str) -> SlotFacts | None:
    return next((slot for slot in read_slots(connection) if slot.slot_name == name), None)

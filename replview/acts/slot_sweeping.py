"""Undo what a killed process left on a source: a slot that it was making, and its publications.

Only objects that an intention names are dropped, and only if they are still ours: nobody
reads the slot, it goes back no further than the intention, and it is not in the store.
"""

import logging
import time

import psycopg
from psycopg import sql

from decoder.scalars import LSN
from replview.catalog.connections import Connection, Query, writing
from replview.catalog.problems import SourceProblem
from replview.catalog.server import read_server_facts
from replview.catalog.slots import SlotFacts, read_slots
from replview.jobs import intentions
from replview.jobs.running import JobKind, register
from replview.store.dsn import UNUSABLE
from replview.store.models import SlotIntention, SourceDraft
from replview.store.write.access_record import note

#: Seconds to wait for a terminated backend.
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
log = logging.getLogger(__name__)
_DEADLINE_SECONDS = 20.0


def slot_left(
    connection: Connection, name: str, create: str, after: LSN | None, database: str
) -> str:
    """Return the state of a slot.

    ``absent``; ``being made`` by a statement that still runs; ``idle``: made, without a reader;
    ``taken``: another program's. ``create``: the statement that replview sent. ``after``: the WAL
    position before it; a slot that goes further back existed before.
    """
    existing = _find_slot(connection, name)
    if existing is None:
        return ABSENT
    if existing.plugin != "pgoutput" or existing.database != database:
        return TAKEN
    if existing.active:
        is_our_statement = existing.active_pid and RUNS.rows(
            connection, existing.active_pid, create
        )
        return BEING_MADE if is_our_statement else TAKEN
    if after is not None and existing.restart_lsn is not None and existing.restart_lsn < after:
        return TAKEN
    return IDLE


def end_making(connection: Connection, name: str, create: str) -> bool:
    """Terminate the statement that still makes the slot; an unfinished slot ends with its session.

    Returns whether the slot is gone.
    """
    deadline = time.monotonic() + _END_SECONDS
    while (existing := _find_slot(connection, name)) is not None and time.monotonic() < deadline:
        if not existing.active:
            return False
        END.rows(connection, existing.active_pid, create)
        time.sleep(0.05)
    return existing is None


def _find_slot(connection: Connection, name: str) -> SlotFacts | None:
    return next((slot for slot in read_slots(connection) if slot.slot_name == name), None)


def sweep_due() -> None:
    """Sweep every intention that is due."""
    for intention in intentions.due():
        # A draft that is no longer carried out has no maker. A command may still be running.
        sweep(intention, maker_gone=intention.draft_id is not None)


def sweep(intention: SlotIntention, *, maker_gone: bool) -> list[str]:
    """Undo what is left of an intention, and forget it when nothing is left.

    Returns the statements that still have to be run. ``maker_gone``: its maker has certainly ended.
    Otherwise the slot must have existed for a while, with nobody reading or making it.
    """
    try:
        conninfo = intentions.conninfo_of(intention)
        with writing(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            statements_run = _Sweep(connection, intention, maker_gone=maker_gone).run()
    except (SourceProblem, *UNUSABLE) as error:
        log.warning("intention %s: could not be undone (%s)", intention.pk, type(error).__name__)
        return [entry["undo"] for entry in intention.begun]
    if statements_run:
        log.warning("undid what a lost process left of intention %s", intention.pk)
        note(
            "changed_slot",
            user="replview",
            subject=str(intention),
            source_id=intention.source_id,
            details={"act": "swept", "by": "replview", "statements": statements_run},
        )
    _update_draft(intention)
    if not intention.begun:
        intentions.forget(intention)
    return [entry["undo"] for entry in intention.begun]


class _Sweep:
    """A single inspection of an intention's objects, and the drops that follow."""

    def __init__(
        self, connection: Connection, intention: SlotIntention, *, maker_gone: bool
    ) -> None:
        self._connection, self._intention = connection, intention
        self._maker_gone = maker_gone
        server = read_server_facts(connection)
        self._database = server.database
        self._in_store, self._read = intentions.taken_into_store(
            intention, server.system_identifier
        )

    def run(self) -> list[str]:
        """Run the statements that undo the intention. Returns the statements that were run."""
        unfinished = []
        for entry in reversed(self._intention.begun):
            state = self._state(entry)
            if state == BEING_MADE and not self._maker_gone:
                return []
            if state == TAKEN and entry["kind"] == "slot":
                # The slot's present reader reads it through the publications made for it.
                intentions.forget(self._intention)
                self._intention.begun = []
                return []
            if state in (IDLE, BEING_MADE):
                unfinished.append((entry, state))
            else:
                intentions.take_out(self._intention, entry["undo"])
        if unfinished and not self._maker_gone and not intentions.saw(self._intention):
            return []
        if not unfinished or not intentions.claim(self._intention):
            return []
        return [entry["undo"] for entry, state in unfinished if self._take_back(entry, state)]

    def _state(self, entry: dict[str, str]) -> str:
        if entry["kind"] == "slot":
            if self._in_store:
                return TAKEN
            name, after_lsn = entry["name"], self._intention.after_lsn
            return slot_left(self._connection, name, entry["create"], after_lsn, self._database)
        if entry["name"] in self._read:
            return TAKEN
        return IDLE if PUBLICATION.rows(self._connection, entry["name"]) else ABSENT

    def _take_back(self, entry: dict[str, str], state: str) -> bool:
        """Drop an object, and return whether it is gone."""
        try:
            if state == BEING_MADE:
                if not end_making(self._connection, entry["name"], entry["create"]):
                    return False
            else:
                # psycopg composed this statement when the step was planned.
                self._connection.execute(sql.SQL(entry["undo"]))
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise
            return False
        intentions.take_out(self._intention, entry["undo"])
        return True


def _update_draft(intention: SlotIntention) -> None:
    """Show on the page of the failed draft the statements that are left now."""
    if intention.draft is None:
        return
    # Other attempts of the draft may have left something, too.
    rows = intentions.of_draft(intention.draft)
    remaining = [entry["undo"] for row in rows for entry in row.begun]
    remedy = {} if remaining else {"problem_remedy": "Try again"}
    failed = SourceDraft.objects.filter(pk=intention.draft.pk, state=SourceDraft.State.FAILED)
    failed.update(undo=remaining, **remedy)


#: The job that undoes what lost processes left. No worker waits for a silent source.
KIND = register(
    JobKind(
        name="sweeping",
        task="replview.sweep_intentions",
        waits=intentions.anything_left,
        claim=lambda: True,
        run=lambda _, stop: sweep_due(),
        again=False,
        abandoned=True,
        private=True,
    )
)

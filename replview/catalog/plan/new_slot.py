"""This module plans a new slot: each statement on the source, with its rights and its cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from psycopg import sql

from decoder.scalars import LSN
from replview.catalog.connections import Connection
from replview.catalog.holders import HoldingTransaction, read_open_transactions
from replview.catalog.naming import slot_name_fault
from replview.catalog.peekable import PLUGINS
from replview.catalog.plan.columns import rules_for_slot
from replview.catalog.plan.plan import Plan, Statement
from replview.catalog.plan.publications import publication_steps
from replview.catalog.plan.slot_request import SlotRequest
from replview.catalog.problems import SourceProblem
from replview.catalog.server import ServerFacts, read_position, read_server_facts
from replview.catalog.slots import SlotFacts, read_slots
from replview.catalog.wal_budget import DATABASE, RECORD, budget_note, default_budget
from replview.text.formats import bytes_words
from replview.text.problem import Note

#: The SQL of a heartbeat, whose prefix distinguishes it from an application's messages.
HEARTBEAT = sql.SQL("SELECT pg_catalog.pg_logical_emit_message(true, 'replview.heartbeat', '')")
#: The note of a plan that adopts a slot.
ADOPTED = Note("the existing slot is adopted: replview reads and advances it, but never drops it")
#: Seconds between heartbeats, at least and at most.
HEARTBEAT_BOUNDS = (5, 86_400)


def two_phase_of(
    request: SlotRequest, server: ServerFacts, *, failover: bool
) -> tuple[bool, Note | None]:
    """Return whether to make a two-phase slot, which sends transactions at PREPARE, and a note."""
    if not request.two_phase:
        text = "prepared transactions appear only when they are committed"
        return False, Note(text, "two_phase")
    # 14 knows the flag, but its pgoutput does not send prepared transactions.
    if server.version < 150000:
        return False, Note(
            "before PostgreSQL 15, prepared transactions appear only when they are committed"
        )
    if server.max_prepared_transactions == 0:
        return False, Note("max_prepared_transactions is 0: the slot is created without two_phase")
    if failover and server.major < 18:
        return False, Note(
            "prepared transactions appear only when they are committed: PostgreSQL 17 does not "
            "allow two_phase and failover for one slot"
        )
    return True, None


def failover_of(request: SlotRequest, server: ServerFacts) -> tuple[bool, list[Note]]:
    """Return whether to make a slot that survives a failover, and notes on what that needs.

    Raises ``SourceProblem`` where the source cannot have such a slot.
    """
    if not request.failover:
        if server.major < 17 or server.in_recovery:
            return False, []
        text = (
            "the slot does not survive a failover, although standbys with sync_replication_slots "
            "could keep a copy of it"
        )
        return False, [Note(text, "failover")]
    if server.major < 17:
        cause = f"slots can survive a failover from PostgreSQL 17 on; this is {server.major}"
        raise SourceProblem("no_failover", cause, "Create the slot without it", "failover")
    if server.in_recovery:
        cause = "a slot that is created on a standby cannot survive a failover"
        remedy = "Create the slot without it, or give the address of the primary"
        raise SourceProblem("no_failover", cause, remedy, "failover")
    notes = [
        "only standbys with sync_replication_slots, a primary_slot_name, hot_standby_feedback and "
        "a database in primary_conninfo keep a copy of the slot"
    ]
    if not str(server.failover_settings.get("synchronized_standby_slots") or "").strip():
        notes.append(
            "synchronized_standby_slots is empty: the record can then hold transactions that a "
            "promoted standby never received. Set it to the standbys' slots"
        )
    return True, list(map(Note, notes))


def slot_step(name: str, server: ServerFacts, *, two_phase: bool, failover: bool) -> Statement:
    """Return the statement that creates the slot."""
    arguments = sql.SQL("{}, 'pgoutput', false").format(sql.Literal(name))
    if server.version >= 140000:
        arguments += sql.SQL(", {}").format(sql.Literal(two_phase))
    if failover:
        arguments += sql.SQL(", true")
    limit = server.max_slot_wal_keep_bytes
    bound = " until the disk is full"
    if limit is not None and limit >= 0:
        bound = f", up to {bytes_words(limit)}"
    create = sql.SQL("SELECT pg_create_logical_replication_slot({})")
    drop = sql.SQL("SELECT pg_drop_replication_slot({})")
    return Statement(
        sql=create.format(arguments).as_string(None),
        undo=drop.format(sql.Literal(name)).as_string(None),
        needs="REPLICATION (or a role that grants it)",
        costs="waits for all open transactions; while the slot has no reader, it retains WAL"
        + bound,
        kind="slot",
        name=name,
    )


def heartbeat_notes(request: SlotRequest, server: ServerFacts) -> list[Note]:
    """Return a note on what a heartbeat runs. Raises ``SourceProblem`` to refuse it."""
    if request.heartbeat_seconds is None:
        return []
    shortest, longest = HEARTBEAT_BOUNDS
    if not shortest <= request.heartbeat_seconds <= longest:
        cause = f"the interval of a heartbeat is {shortest} to {longest:,} seconds"
        raise SourceProblem("bad_heartbeat", cause, "Give another interval", "heartbeat_seconds")
    if server.in_recovery:
        cause = "this server is a standby, where no heartbeat can be written"
        raise SourceProblem("standby", cause, "Leave the heartbeat out", "heartbeat_seconds")
    return [Note(heartbeat_line(request.heartbeat_seconds))]


def heartbeat_line(seconds: int) -> str:
    """Return the heartbeat in words, with its statement."""
    return (
        f"heartbeat: if nothing was committed for {seconds} s, replview runs "
        f"{HEARTBEAT.as_string(None)} (it needs no privilege, writes about 100 bytes of WAL and "
        "changes no table; the record shows it as a message)"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan(Plan):
    """The plan of a new slot: what will run on its source, and what the store will record."""

    title: str = ""
    on: str = ""
    slot_name: str
    #: All publications that the slot reads: existing ones and those that this plan creates.
    publications: tuple[str, ...]
    #: The value of ``Slot.column_rules``.
    column_rules: dict[str, dict[str, str]] = field(default_factory=dict)
    #: The output plugin: pgoutput, unless a slot of another plugin is adopted.
    plugin: str = "pgoutput"
    #: True for a two-phase slot.
    two_phase: bool = False
    #: True if replview creates the slot and may drop it; False if it is adopted.
    owned: bool = True
    #: True if the slot is created to survive a failover.
    failover: bool = False
    #: Values of ``Slot.wal_budget_bytes``, ``Slot.protect`` and ``Slot.heartbeat_seconds``.
    wal_budget_bytes: int | None = None
    protect: str = DATABASE
    heartbeat_seconds: int | None = None
    notes: tuple[Note, ...] = ()
    #: Position of the source's WAL at the time of planning; None: unknown.
    position: LSN | None = None
    #: Transactions that slot creation would wait for at the time of planning.
    waits_for: tuple[HoldingTransaction, ...] = ()

    @property
    def made_publications(self) -> tuple[str, ...]:
        """Return the publications that this plan creates; removing the slot drops them again."""
        return tuple(step.name for step in self.statements if step.kind == "publication")


def make_plan(
    connection: Connection, request: SlotRequest, *, remade: Sequence[Statement] = ()
) -> SlotPlan:
    """Read the source and return what would be done. Raises ``SourceProblem`` to refuse.

    ``remade`` are statements that recreate publications of the request that no longer exist.
    """
    if fault := slot_name_fault(request.slot_name):
        raise SourceProblem("bad_slot_name", fault, "Choose another name")
    server = read_server_facts(connection)
    _check_standby(request, server)
    existing = _existing_slot(request, server, read_slots(connection))
    plugin = "pgoutput" if existing is None else existing.plugin or ""
    if plugin == "pgoutput":
        publications, notes = publication_steps(connection, request, server, remade)
    else:
        publications, notes = [], [Note(_without_publications(request, plugin))]
    creation = _creation(connection, request, server, existing)
    budget_bytes, protect, budget_notes = _wal_budget(request, server, adopted=existing is not None)
    notes += [*creation.notes, *budget_notes, *heartbeat_notes(request, server)]
    return replace(
        creation,
        statements=(*publications, *creation.statements),
        publications=request.publications or tuple(step.name for step in publications),
        column_rules=rules_for_slot(request),
        plugin=plugin,
        owned=existing is None,
        wal_budget_bytes=budget_bytes,
        protect=protect,
        heartbeat_seconds=request.heartbeat_seconds,
        notes=tuple(notes),
        position=read_position(connection),
    )


def _creation(
    connection: Connection, request: SlotRequest, server: ServerFacts, existing: SlotFacts | None
) -> SlotPlan:
    """Return how the slot is created; no statement where it is adopted or temporary."""
    plan = SlotPlan(slot_name=request.slot_name, publications=())
    if existing is not None:
        return replace(plan, two_phase=bool(existing.two_phase), notes=(ADOPTED,))
    if request.temporary:
        return plan
    failover, failover_notes = failover_of(request, server)
    two_phase, two_phase_note = two_phase_of(request, server, failover=failover)
    step = slot_step(request.slot_name, server, two_phase=two_phase, failover=failover)
    return replace(
        plan,
        statements=(step,),
        two_phase=two_phase,
        failover=failover,
        notes=(*failover_notes, *([two_phase_note] if two_phase_note else [])),
        waits_for=tuple(read_open_transactions(connection)),
    )


def _check_standby(request: SlotRequest, server: ServerFacts) -> None:
    """Raise ``SourceProblem`` if a standby is before 16, or would have to create publications."""
    if not server.in_recovery:
        return
    if server.major < 16:
        cause = "this server is a standby, where logical slots need PostgreSQL 16"
        raise SourceProblem("standby", cause, "Give the address of the primary")
    if not request.publications:
        cause = "this server is a standby: publications can only be created on its primary"
        raise SourceProblem(
            "standby", cause, "Create one there, and choose it here", "publications"
        )


def _existing_slot(
    request: SlotRequest, server: ServerFacts, slots: list[SlotFacts]
) -> SlotFacts | None:
    """Return the slot to adopt, or None to create one. Raises ``SourceProblem`` to refuse."""
    existing = next((slot for slot in slots if slot.slot_name == request.slot_name), None)
    if existing is None:
        _check_creation(request, server)
        return None
    if not request.adopt:
        raise SourceProblem(
            "slot_exists",
            f"there is already a slot {request.slot_name}, and replview did not create it",
            "Choose another name, or adopt it: a slot has one reader, so its present reader must "
            "stop first",
            "adopt",
        )
    if existing.plugin not in PLUGINS or existing.database != server.database:
        raise SourceProblem(
            "other_slot",
            f"slot {request.slot_name} has plugin {existing.plugin or 'none'} and database "
            f"{existing.database or 'none'}; replview can read slots of database "
            f"{server.database} with plugin {', '.join(PLUGINS)}",
            "Choose another slot, or give the address of its database",
        )
    return existing


def _check_creation(request: SlotRequest, server: ServerFacts) -> None:
    """Raise ``SourceProblem`` where a slot that does not exist cannot be created."""
    if request.adopt:
        cause = f"there is no slot {request.slot_name} to adopt"
        remedy = "Choose another name, or create a new slot"
        raise SourceProblem("no_such_slot", cause, remedy, "adopt")
    if server.slots_used >= server.max_replication_slots:
        cause = f"all {server.max_replication_slots} replication slots are in use"
        remedy = f"ALTER SYSTEM SET max_replication_slots = {server.slots_used + 4}; then restart"
        raise SourceProblem("no_free_slot", cause, remedy)
    if server.wal_level != "logical" and server.major < 19:
        cause = f"wal_level is {server.wal_level}; it must be logical"
        remedy = "ALTER SYSTEM SET wal_level = 'logical'; then restart the server"
        raise SourceProblem("wal_level", cause, remedy)


def _without_publications(request: SlotRequest, plugin: str) -> str:
    """Return a note on a plugin that has no publications.

    Raises ``SourceProblem`` if tables or publications were chosen all the same.
    """
    if request.publications or request.tables or request.schemas or request.all_tables:
        cause = f"slot {request.slot_name} has plugin {plugin}, which uses no publications"
        remedy = "Choose no publications and no tables, or another slot"
        raise SourceProblem("no_publications", cause, remedy, "tables")
    return (
        f"the slot has plugin {plugin}, which sends every table of the database; what the plugin "
        "does not send is shown as unknown"
    )


def _wal_budget(
    request: SlotRequest, server: ServerFacts, *, adopted: bool
) -> tuple[int | None, str, list[Note]]:
    """Return the WAL budget, what has priority when it is reached, and notes on both."""
    if request.temporary:
        # A temporary slot ends with its connection and then retains nothing.
        return None, DATABASE, []
    size, reason = request.wal_budget_bytes, ""
    # A slot that somebody else made is dropped only if the request says so explicitly.
    protect = request.protect or (RECORD if adopted else DATABASE)
    if size is None and (not adopted or request.protect):
        size, reason = default_budget(server)
    return size, protect, [budget_note(request.slot_name, size, protect, reason)]

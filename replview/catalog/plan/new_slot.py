"""First, do no harm: what a new slot needs, every statement with its rights and its cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from decoder.scalars import LSN
from replview.catalog.connections import Connection
from replview.catalog.naming import slot_name_fault
from replview.catalog.plan.column_rules import rules_for_slot
from replview.catalog.plan.plan import Plan, Statement
from replview.catalog.plan.publication_steps import publication_steps
from replview.catalog.plan.slot_request import Wish, refuse
from replview.catalog.plan.slot_step import failover_of, heartbeat_notes, slot_step, two_phase_of
from replview.catalog.server import ServerFacts, read_position, read_server_facts
from replview.catalog.slots import SlotFacts, read_slots
from replview.catalog.state.open_transactions import OpenTransaction, read_open_transactions
from replview.catalog.state.peekable import PLUGINS
from replview.catalog.state.wal_budget import DATABASE, RECORD, budget_lines, default_budget


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan(Plan):
    """A new slot: what will run on its source, and what the store will know of the slot."""

    title: str = ""
    on: str = ""
    slot_name: str
    #: All publications the slot reads: existing ones and those this plan makes.
    publications: tuple[str, ...]
    #: As ``Slot.column_rules``.
    column_rules: dict[str, dict[str, str]] = field(default_factory=dict)
    #: What the slot speaks: pgoutput, unless one of another plugin is adopted.
    plugin: str = "pgoutput"
    #: The slot is or becomes a two-phase one.
    two_phase: bool = False
    #: replview makes the slot and may drop it; not so when adopted.
    owned: bool = True
    #: The slot is made one that survives a failover.
    failover: bool = False
    #: As ``Slot.wal_budget_bytes``, ``Slot.protect`` and ``Slot.heartbeat_seconds``.
    wal_budget_bytes: int | None = None
    protect: str = DATABASE
    heartbeat_seconds: int | None = None
    notes: tuple[str, ...] = ()
    #: Where the source's WAL was when this was planned; None: unknown.
    position: LSN | None = None
    #: Slot creation would wait for these now.
    waits_for: tuple[OpenTransaction, ...] = ()

    @property
    def made_publications(self) -> tuple[str, ...]:
        """The publications this plan creates, and which removing the slot drops again."""
        return tuple(step.name for step in self.statements if step.kind == "publication")


def make_plan(connection: Connection, wish: Wish, *, remade: Sequence[Statement] = ()) -> SlotPlan:
    """Look at the source and say what would be done. Raises ``SourceProblem`` to refuse.

    ``remade``: publications of the wish that are not there any more, made again as they were.
    """
    if fault := slot_name_fault(wish.slot_name):
        raise refuse("bad_slot_name", fault, "Choose another name")
    server = read_server_facts(connection)
    _check_standby(wish, server)
    existing = _existing_slot(wish, server, read_slots(connection))
    plugin = "pgoutput" if existing is None else existing.plugin or ""
    if plugin == "pgoutput":
        publications, notes = publication_steps(connection, wish, server, remade)
    else:
        publications, notes = [], [_without_publications(wish, plugin)]
    creation = _creation(connection, wish, server, existing)
    budget_bytes, protect, budget_notes = _budget(wish, server, adopted=existing is not None)
    notes += [*creation.notes, *budget_notes, *heartbeat_notes(wish, server)]
    return SlotPlan(
        slot_name=wish.slot_name,
        statements=(*publications, *creation.statements),
        publications=wish.publications or tuple(step.name for step in publications),
        column_rules=rules_for_slot(wish),
        plugin=plugin,
        two_phase=creation.two_phase,
        owned=existing is None,
        failover=creation.failover,
        wal_budget_bytes=budget_bytes,
        protect=protect,
        heartbeat_seconds=wish.heartbeat_seconds,
        notes=tuple(notes),
        position=read_position(connection),
        waits_for=creation.waits_for,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Creation:
    """How the slot itself comes to be; no statement where it is adopted or temporary."""

    statements: tuple[Statement, ...] = ()
    two_phase: bool = False
    failover: bool = False
    notes: tuple[str, ...] = ()
    waits_for: tuple[OpenTransaction, ...] = ()


def _creation(
    connection: Connection, wish: Wish, server: ServerFacts, existing: SlotFacts | None
) -> _Creation:
    if existing is not None:
        note = "the slot is adopted as it is: replview reads and advances it, never drops it"
        return _Creation(two_phase=bool(existing.two_phase), notes=(note,))
    if wish.temporary:
        return _Creation()
    failover, failover_notes = failover_of(wish, server)
    two_phase, two_phase_notes = two_phase_of(wish, server, failover=failover)
    step = slot_step(wish.slot_name, server, two_phase=two_phase, failover=failover)
    return _Creation(
        statements=(step,),
        two_phase=two_phase,
        failover=failover,
        notes=(*failover_notes, *two_phase_notes),
        waits_for=tuple(read_open_transactions(connection)),
    )


def _check_standby(wish: Wish, server: ServerFacts) -> None:
    """A standby has slots from 16 on, and never makes publications of its own."""
    if not server.in_recovery:
        return
    if server.major < 16:
        raise refuse(
            "standby",
            "this server is a standby; logical slots on one need PostgreSQL 16",
            "Give the DSN of the primary",
        )
    if not wish.publications:
        raise refuse(
            "standby",
            "this server is a standby: publications are made on its primary",
            "Create one there and give it with --publication",
        )


def _existing_slot(wish: Wish, server: ServerFacts, slots: list[SlotFacts]) -> SlotFacts | None:
    """The slot to adopt; refuses where taking or making one would be wrong."""
    found = next((slot for slot in slots if slot.slot_name == wish.slot_name), None)
    if found is None:
        if wish.adopt:
            raise refuse(
                "no_such_slot",
                f"there is no slot {wish.slot_name} to adopt",
                "Leave --adopt out to create it",
            )
        if server.slots_used >= server.max_replication_slots:
            raise refuse(
                "no_free_slot",
                f"all {server.max_replication_slots} replication slots are in use",
                f"ALTER SYSTEM SET max_replication_slots = {server.slots_used + 4}; then restart",
            )
        if server.wal_level != "logical" and server.major < 19:
            raise refuse(
                "wal_level",
                f"wal_level is {server.wal_level}, it must be logical",
                "ALTER SYSTEM SET wal_level = 'logical'; then restart the server",
            )
        return None
    if not wish.adopt:
        raise refuse(
            "slot_exists",
            f"there is already a slot {wish.slot_name}, and replview did not create it",
            "Choose another name, or take it over with --adopt (a slot has one reader: whoever "
            "reads it now must stop)",
        )
    if found.plugin not in PLUGINS or found.database != server.database:
        raise refuse(
            "other_slot",
            f"slot {wish.slot_name} is of plugin {found.plugin or 'none'} and database "
            f"{found.database or 'none'}; replview reads slots of {', '.join(PLUGINS)} of "
            f"{server.database}",
            "Choose another slot, or the DSN of its database",
        )
    return found


def _without_publications(wish: Wish, plugin: str) -> str:
    """A note; refuses the choice of tables to a plugin that knows no publications."""
    if wish.publications or wish.tables or wish.schemas or wish.all_tables:
        raise refuse(
            "no_publications",
            f"the slot {wish.slot_name} speaks {plugin}, to which publications mean nothing",
            "Leave --publication, --tables, --schema and --all-tables out",
        )
    return (
        f"the slot speaks {plugin}: every table of the database comes, and what the plugin does "
        "not tell is shown as unknown"
    )


def _budget(wish: Wish, server: ServerFacts, *, adopted: bool) -> tuple[int | None, str, list[str]]:
    """The WAL the slot may cost, what comes first there, and both in words."""
    if wish.temporary:
        # Gone with its connection, and with it all that it retains.
        return None, DATABASE, []
    size, why = wish.wal_budget_bytes, ""
    # A slot that somebody else made is dropped only where that was asked for in so many words.
    protect = wish.protect or (RECORD if adopted else DATABASE)
    if size is None and (not adopted or wish.protect):
        size, why = default_budget(server)
    return size, protect, budget_lines(wish.slot_name, size, protect, why)

"""Choose the tables that a slot records, and alter replview's own publications for that."""

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass

from replview.access.visibility import current_visibility
from replview.acts.noting import note_slot
from replview.acts.publication_alterations import (
    ask_source,
    plan_alteration,
    run_together,
    texts_of,
)
from replview.acts.publications import look_at_publications, made_by_us
from replview.catalog.connections import Connection, reading
from replview.catalog.naming import quoted, table_parts
from replview.catalog.plan.plan import Plan
from replview.catalog.plan.publication_changes import PublicationChanges, plan_changes
from replview.catalog.plan.slot_request import fully_usable
from replview.catalog.problems import SourceProblem
from replview.catalog.publications import read_members, read_publications
from replview.catalog.server import read_position
from replview.catalog.tables import TableFacts, read_tables
from replview.store.dsn import full_conninfo
from replview.store.models import Slot
from replview.store.slot_control import reopen
from replview.store.slot_log import add_line
from replview.text.formats import some_of

#: Seconds that a caught-up stream may take to pass a statement that has just committed.
_PASS_SECONDS = 20.0
#: Codes of problems with the choice, not with reaching the source.
_REFUSAL_CODES = {
    "all_tables", "contradiction", "identity_column", "no_columns", "no_such_table", "no_tables",
    "not_owner", "not_ours", "not_published", "not_streaming", "nothing", "removing", "row_filter",
    "may_not_publish", "no_right",
}  # fmt: skip
_DEADLINE_SECONDS = 15.0


def plan_tables(slot: Slot, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Plan:
    """Plan the statements and their consequences.

    A refusal is in the plan. Raises ``SourceProblem`` where the source cannot be read.
    """
    return plan_alteration(
        slot,
        f"Change the tables of {slot}",
        lambda connection: _changes(connection, slot, add, remove),
        _consequences,
        _REFUSAL_CODES,
    )


def change_tables(
    slot: Slot, *, add: Sequence[str] = (), remove: Sequence[str] = (), by: str
) -> PublicationChanges:
    """Run the change in one transaction, and then look at what is published.

    Returns the change; a baseline can be taken of its ``joining``. Raises ``SourceProblem``.
    """
    changes = ask_source(slot, lambda connection: _changes(connection, slot, add, remove))
    run_together(slot, changes)
    _record_change(slot, changes, by)
    if changes.new_publications:
        position = ask_source(slot, read_position)
        if position is not None:
            _read_publications_later(slot, changes.new_publications, int(position))
    look_at_publications(slot.source)
    return changes


def _changes(
    connection: Connection, slot: Slot, add: Sequence[str], remove: Sequence[str]
) -> PublicationChanges:
    """Return the statements to run. Raises ``SourceProblem`` where it cannot be done."""
    left_out = {
        table: frozenset(column for column, rule in rules.items() if rule == "drop")
        for table, rules in slot.column_rules.items()
    }
    changes = plan_changes(
        connection, slot.name, made_by_us(slot), add=add, remove=remove, left_out=left_out
    )
    # Include a publication of an earlier change that the slot was too far behind to read.
    changes.new_publications += [name for name in changes.own if name not in slot.publications]
    _check_right(slot, [*changes.joining, *changes.whole_now, *changes.leaving])
    _check(slot, changes)
    return changes


def _check_right(slot: Slot, names: Sequence[str]) -> None:
    """Raise ``SourceProblem`` unless the current account has a right on these tables."""
    visibility = current_visibility()
    hidden_names = [
        name for name in names if visibility.hides_table(slot.source_id, *table_parts(name))
    ]
    if hidden_names:
        raise SourceProblem(
            "no_right", f"you have no right on {some_of(hidden_names)}", "Ask an admin for a grant"
        )


def _check(slot: Slot, changes: PublicationChanges) -> None:
    if slot.desired == Slot.Desired.REMOVING:
        raise SourceProblem("removing", f"slot {slot} is being removed", "Nothing to do")
    if not changes.statements and not changes.new_publications:
        already = some_of(changes.already) if changes.already else ""
        cause = f"{already} is already published" if already else "no table is named"
        raise SourceProblem("nothing", cause, "Choose tables to add or to remove")
    if changes.new_publications and slot.state != Slot.State.STREAMING:
        # pgoutput looks publications up at the stream's WAL position, and fails again and again on
        # one that does not exist there yet.
        raise SourceProblem(
            "not_streaming",
            f"these tables need a new publication ({changes.new_publications[0]}), which the slot "
            "can read only after it has received the WAL up to there, and it is not receiving",
            "Start the slot, wait until it has caught up, and try again",
        )


def _consequences(changes: PublicationChanges) -> list[str]:
    sentences = [
        (changes.joining, "Changes of {} are recorded from then on. Rows that exist already are "
         "not in the record: take a baseline afterwards."),
        (changes.inserts_only, "Only inserts and truncations are published of {}: without a usable "
         "replica identity (a primary key, or REPLICA IDENTITY FULL or USING INDEX) the "
         "application's own UPDATE and DELETE would fail."),
        (changes.whole_now, "{} now has a usable replica identity: its updates and deletes are "
         "published, too."),
        (changes.leaving, "Changes of {} are no longer recorded. The existing record stays; "
         "history shows since when changes are missing."),
        (changes.already, "{} is already published: nothing changes for it."),
        (changes.via_root_now, "From then on, changes of partitions have the name of the "
         "partitioned table, also of those that {} publishes already."),
        (changes.new_publications, "The slot reads {} after it has received the WAL up to its "
         "creation. The receiver then reconnects; no change is lost."),
    ]  # fmt: skip
    applicable = [sentence.format(some_of(names)) for names, sentence in sentences if names]
    return ["The statements run in one transaction: all of them, or none.", *applicable]


def _record_change(slot: Slot, changes: PublicationChanges, by: str) -> None:
    """Record the change at once, so that replview may drop its publications whatever follows."""
    parts = [
        f"{verb} {some_of(tables)}"
        for verb, tables in (
            ("added", changes.joining),
            ("with updates and deletes now", changes.whole_now),
            ("removed", changes.leaving),
        )
        if tables
    ]
    message = f"The tables of the slot were changed: {'; '.join(parts)}."
    if changes.new_publications:
        message_made = f"replview created {some_of(changes.new_publications)} for the slot."
        detail = {"made_publications": changes.new_publications}
        add_line(slot, "tables", message_made, at=dt.datetime.now(dt.UTC), detail=detail)
    note_slot(
        slot,
        "tables",
        message,
        by=by,
        statements=texts_of(changes),
        added=changes.joining,
        removed=changes.leaving,
    )


def _read_publications_later(slot: Slot, names: list[str], after_lsn: int) -> None:
    """Make the slot read publications made just now, once its stream has passed their creation."""
    deadline = time.monotonic() + _PASS_SECONDS
    while time.monotonic() < deadline:
        slot.refresh_from_db(fields=["checkpoint_lsn", "publications"])
        if slot.checkpoint_lsn is not None and int(slot.checkpoint_lsn) >= after_lsn:
            publications = [
                *slot.publications,
                *(name for name in names if name not in slot.publications),
            ]
            Slot.objects.filter(pk=slot.pk).update(publications=publications)
            reopen(slot)
            slot.refresh_from_db()
            return
        time.sleep(0.1)
    raise SourceProblem(
        "behind",
        f"publication {some_of(names)} was created, but the slot is too far behind to read it yet",
        "Change the tables again when the slot has caught up",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishableTable:
    """A table that a publication can name."""

    name: str
    #: ``all``: every change; ``inserts``: no updates and deletes; empty: not published.
    published: str
    #: True when it can be published with its updates and deletes.
    usable: bool
    #: Why it cannot, and a statement that helps; empty when it can.
    reason: str
    mend: str
    estimated_rows: int
    partitioned: bool
    #: True when the connected role may publish it.
    owned: bool

    @property
    def grows(self) -> bool:
        """Return whether updates and deletes are not published, but could be by now."""
        return self.published == "inserts" and self.usable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChoices:
    """The tables that can be chosen, and the publications that can be altered."""

    tables: tuple[PublishableTable, ...]
    #: Publications that replview made; empty when the slot reads only others.
    own: tuple[str, ...]


def tables_of(slot: Slot) -> TableChoices:
    """Read ordinary tables, partitioned roots, and partitions that are published by name.

    Raises ``SourceProblem`` and the errors of a DSN.
    """
    with reading(full_conninfo(slot.source), deadline_seconds=_DEADLINE_SECONDS) as connection:
        tables = read_tables(connection)
        made_names = made_by_us(slot)
        own_publications = [
            publication
            for publication in read_publications(connection)
            if publication.name in made_names
        ]
        published: dict[tuple[str, str | None], str] = {}
        for publication in own_publications:
            operations = "all" if publication.needs_identity else "inserts"
            if publication.all_tables:
                published |= {(t.schema, t.name): "all" for t in tables if t.parent is None}
            for member in read_members(connection, publication.name):
                key = member.schema, member.name
                published[key] = "all" if published.get(key) == "all" else operations
    return TableChoices(
        tables=tuple(
            PublishableTable(
                name=table.text,
                published=published.get(table.key, ""),
                usable=(usable := fully_usable(table, tables)),
                reason="" if usable else _reason(table),
                mend="" if usable else _identity_statement(table),
                estimated_rows=table.estimated_rows,
                partitioned=table.partitioned,
                owned=table.owned,
            )
            for table in tables
            if table.parent is None or table.key in published
        ),
        own=tuple(publication.name for publication in own_publications),
    )


def _reason(table: TableFacts) -> str:
    """Return why the table's updates cannot be published."""
    if table.usable:
        return "one of its partitions has no usable replica identity"
    if table.deferrable_key and table.replica_identity == "DEFAULT":
        return "its primary key is DEFERRABLE, so it cannot be a replica identity"
    return {
        "NOTHING": "its replica identity is NOTHING",
        "INDEX": "the index of its replica identity was dropped",
    }.get(table.replica_identity, "it has no primary key")


def _identity_statement(table: TableFacts) -> str:
    """Return a statement that makes updates publishable, for the owner to run."""
    name = quoted(*table.key)
    usable_key = table.primary_key and not table.deferrable_key
    if usable_key and table.replica_identity != "DEFAULT":
        return f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT;"
    return f"ALTER TABLE {name} REPLICA IDENTITY FULL;"

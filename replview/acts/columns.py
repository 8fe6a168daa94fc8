"""Changing which columns of a slot's tables are kept: left out at the source where its publication
is ours, masked or left out here.
"""

from dataclasses import dataclass, field

from psycopg import sql

from replview.acts.altering import look_at, plan_alteration, run_together, texts_of
from replview.acts.column_choices import DROP, MASK, NamedColumns, Rules
from replview.acts.noting import note_slot
from replview.acts.publications import look_at_publications, made_by_us
from replview.catalog.connections import Connection
from replview.catalog.doctor.findings import some_of
from replview.catalog.naming import table_parts
from replview.catalog.plan.column_changes import ColumnChanges, plan_column_changes
from replview.catalog.plan.plan import Plan
from replview.catalog.problems import SourceProblem
from replview.store.models import Slot
from replview.store.slot_control import reopen


@dataclass(slots=True)
class _Kept:
    """What differs in the slot's own rules: ``schema.table.column``."""

    rules: dict[str, dict[str, str]]
    masked: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    whole: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Found:
    """What would run on the source, and what differs here."""

    changes: ColumnChanges
    kept: _Kept

    @property
    def statements(self) -> list[sql.Composed]:
        """On the source."""
        return self.changes.statements


def plan_columns(slot: Slot, wanted: Rules | NamedColumns) -> Plan:
    """What would run and what comes of it. Raises ``SourceProblem`` where the source cannot be
    asked; a refusal is in the act.
    """
    return plan_alteration(
        slot,
        f"Change the columns of {slot}",
        lambda connection: _look(connection, slot, wanted),
        lambda found: _consequences(slot, found.changes, found.kept),
        _REFUSALS,
    )


def change_columns(slot: Slot, wanted: Rules | NamedColumns, *, by: str) -> ColumnChanges:
    """Do it: what is to be left out is left out here first, and sent again before it is kept
    again. Raises ``SourceProblem``.
    """
    found = look_at(slot, lambda connection: _look(connection, slot, wanted))
    changes, kept = found.changes, found.kept
    run_together(slot, found)
    Slot.objects.filter(pk=slot.pk).update(column_rules=kept.rules)
    # A receiver has read the former rules.
    reopen(slot)
    slot.refresh_from_db()
    parts = [
        f"{words} {some_of(names)}"
        for words, names in (
            ("left out", kept.dropped or changes.unsent),
            ("masked", kept.masked),
            ("kept again", kept.whole or changes.sent),
        )
        if names
    ]
    note_slot(
        slot,
        "columns",
        f"The columns of the slot were changed: {'; '.join(parts)}.",
        by=by,
        statements=texts_of(found),
    )
    look_at_publications(slot.source)
    return changes


def _look(connection: Connection, slot: Slot, wanted: Rules | NamedColumns) -> _Found:
    """What would run. Raises ``SourceProblem`` where it cannot."""
    if slot.desired == Slot.Desired.REMOVING:
        raise SourceProblem("removing", f"slot {slot} is being removed", "Nothing to do")
    rules = wanted.rules(connection, slot) if isinstance(wanted, NamedColumns) else wanted
    others = Slot.objects.filter(source=slot.source).exclude(desired=Slot.Desired.REMOVING)
    left_out = {
        table_parts(table): frozenset(c for c, rule in of_table.items() if rule == DROP)
        for table, of_table in rules.items()
    }
    readers = {one.name: one.publications for one in others}
    changes = plan_column_changes(connection, made_by_us(slot), readers, left_out)
    kept = _kept(slot, rules)
    if not changes.statements and kept.rules == slot.column_rules:
        raise SourceProblem("nothing", "the columns are kept like that already", "Choose otherwise")
    return _Found(changes, kept)


def _kept(slot: Slot, wanted: Rules) -> _Kept:
    """The slot's rules as they will be, and what differs."""
    found = _Kept({table: dict(rules) for table, rules in slot.column_rules.items()})
    for text, rules in wanted.items():
        table = ".".join(table_parts(text))
        was = found.rules.pop(table, {})
        if rules:
            found.rules[table] = dict(sorted(rules.items()))
        for column in sorted(was.keys() | rules.keys()):
            now = rules.get(column)
            if now != was.get(column):
                lists = {MASK: found.masked, DROP: found.dropped, None: found.whole}
                lists[now].append(f"{table}.{column}")
    return found


def _consequences(slot: Slot, changes: ColumnChanges, kept: _Kept) -> list[str]:
    found = []
    if changes.statements:
        found.append("The statements run in one transaction: all of them, or none.")
    if changes.unsent:
        found.append(f"The source sends {some_of(changes.unsent)} no more: the record shows these "
                     "columns as not sent from then on.")  # fmt: skip
    if changes.sent:
        found.append(f"The source sends {some_of(changes.sent)} again, from the next change of a "
                     "row on; what was not sent stays unknown.")  # fmt: skip
    if changes.listed:
        found.append(
            f"{some_of(changes.listed)} is published by a list of its columns: one that is added "
            "to the table later is not sent until it is chosen here."
        )
    found += [
        f"The source goes on sending {some_of(names)}, for {why}; replview keeps nothing of it."
        for why, names in changes.still_sent.items()
        if names
    ]
    if kept.masked:
        found.append(f"Of {some_of(kept.masked)} only that there was a value is kept from now on.")
    if kept.whole:
        found.append(f"{some_of(kept.whole)} is kept as it comes from now on.")
    if kept.masked or kept.dropped:
        found.append("What is stored already stays as it is: erase it, or hide it by a mask rule.")
    if shared := _shared(slot, changes):
        found.append(f"Slot {some_of(shared)} reads the same publication: it holds for it, too.")
    found.append("The receiver connects anew within two seconds; nothing is lost.")
    return found


def _shared(slot: Slot, changes: ColumnChanges) -> list[str]:
    others = Slot.objects.filter(source=slot.source).exclude(pk=slot.pk)
    return [
        one.name
        for one in others.exclude(desired=Slot.Desired.REMOVING)
        if set(one.publications) & set(changes.altered)
    ]


#: What is wrong with the choice, not with reaching the source.
_REFUSALS = {
    "bad_column", "contradiction", "identity_column", "no_columns", "no_such_column", "not_owner",
    "not_via_root", "nothing", "publications_clash", "removing", "whole_schema",
}  # fmt: skip

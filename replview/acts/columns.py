"""Change which columns of a slot's tables are kept.

A column is left out at the source where replview made the publication, and else masked or left
out here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from replview.acts.noting import note_slot
from replview.acts.publication_alterations import (
    ask_source,
    plan_alteration,
    run_together,
    texts_of,
)
from replview.acts.publications import look_at_publications, made_by_us, remaining_slots
from replview.catalog.columns import read_columns
from replview.catalog.connections import Connection, reading
from replview.catalog.naming import table_parts
from replview.catalog.personal_columns import looks_like
from replview.catalog.plan.columns import (
    ColumnChanges,
    known_columns,
    must_be_sent,
    plan_column_changes,
)
from replview.catalog.plan.plan import Plan
from replview.catalog.plan.slot_request import parse_columns
from replview.catalog.problems import SourceProblem
from replview.catalog.publications import read_members
from replview.catalog.published import Published, read_published
from replview.catalog.tables import TableFacts, read_tables
from replview.store.django_session import masked_columns
from replview.store.dsn import full_conninfo
from replview.store.models import Slot
from replview.store.slot_control import reopen
from replview.text.formats import some_of
from replview.text.parsing import table_text

_DEADLINE_SECONDS = 15.0
KEEP, MASK, DROP = "keep", "mask", "drop"
#: Codes of problems with the choice, not with reaching the source.
_REFUSAL_CODES = {
    "bad_column", "contradiction", "identity_column", "no_columns", "no_such_column", "not_owner",
    "not_via_root", "nothing", "publications_clash", "removing", "whole_schema",
}  # fmt: skip
#: ``{table (as ``table_text`` writes it): {column: "mask" | "drop"}}``, all rules of each table.
TableRules = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTable:
    """A table that the slot records."""

    #: The name as ``table_text`` writes it.
    name: str
    #: The number of its columns that the slot's rules or its publication mask or leave out.
    ruled: int
    #: True when replview made the publication that names it.
    ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptColumn:
    """A column of the chosen table, and its rule."""

    name: str
    type_name: str
    #: The kind of sensitive value that its name suggests; may be empty.
    looks: str
    #: ``keep``, ``mask`` or ``drop``.
    rule: str
    #: Why it cannot be left out; empty when it can.
    must_be_sent: str
    #: The point at which a mask rule masks it: ``ingest`` or ``display``; empty without a rule.
    by_rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChoices:
    """The tables, and the columns of the chosen one."""

    tables: tuple[RecordedTable, ...]
    #: The chosen table; None when none was chosen, or the slot does not record it.
    table: RecordedTable | None = None
    columns: tuple[KeptColumn, ...] = ()
    #: True when left-out columns do not leave the source: from 15 on, in a publication of ours.
    at_source: bool = False


def columns_of(slot: Slot, chosen: str = "") -> ColumnChoices:
    """Read the tables and columns. Raises ``SourceProblem`` and the errors of a DSN."""
    with reading(full_conninfo(slot.source), deadline_seconds=_DEADLINE_SECONDS) as connection:
        tables = read_tables(connection)
        recorded_tables, unsent = _published_tables(connection, slot, tables)
        table = next((candidate for candidate in recorded_tables if candidate.name == chosen), None)
        if table is None:
            return ColumnChoices(tables=tuple(recorded_tables))
        facts = next(candidate for candidate in tables if candidate.text == chosen)
        columns = read_columns(connection, [facts.oid])[facts.oid]
        modern = connection.info.server_version >= 150000
    rules = slot.column_rules.get(str(facts), {})
    masks = masked_columns(slot.source_id, facts.schema, facts.name, columns)
    not_sent = unsent[facts.schema, facts.name]
    return ColumnChoices(
        tables=tuple(recorded_tables),
        table=table,
        columns=tuple(
            KeptColumn(
                name=column.name,
                type_name=column.type_name,
                looks=looks_like(column.name),
                rule=DROP if column.name in not_sent else rules.get(column.name, KEEP),
                must_be_sent=must_be_sent(facts, tables, column.name),
                by_rule=masks.get(column.name, ""),
            )
            for column in columns
        ),
        at_source=modern and table.ours,
    )


def _published_tables(
    connection: Connection, slot: Slot, tables: Sequence[TableFacts]
) -> tuple[list[RecordedTable], dict[tuple[str, str], set[str]]]:
    """Return the tables that the slot records, and the columns that their publications omit."""
    publications, published = read_published(connection, slot.publications)
    by_name = {table.key: table for table in tables}
    own_names = made_by_us(slot)
    named_keys = {
        member.key
        for publication in publications
        if publication.name in own_names
        for member in read_members(connection, publication.name)
    }
    unsent = {key: unsent_columns(publication) for key, publication in published.items()}
    recorded_tables = [
        RecordedTable(
            name=by_name[key].text,
            ruled=len(unsent[key] | set(slot.column_rules.get(".".join(key), {}))),
            ours=key in named_keys,
        )
        for key in sorted(published)
    ]
    return recorded_tables, unsent


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedColumns:
    """Columns named ``schema.table.column``; every other column keeps its rule."""

    keep: Sequence[str] = ()
    mask: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def rules(self, connection: Connection, slot: Slot) -> dict[str, dict[str, str]]:
        """Return all future rules of the named columns' tables. Raises ``SourceProblem``."""
        new_rules: dict[tuple[str, str], dict[str, str]] = {}
        for rule, texts in ((KEEP, self.keep), (MASK, self.mask), (DROP, self.exclude)):
            for key, columns in parse_columns(list(texts)).items():
                for column in columns:
                    if new_rules.setdefault(key, {}).setdefault(column, rule) != rule:
                        raise SourceProblem(
                            "contradiction",
                            f"{table_text(*key)}.{column} is named twice, with different rules",
                            "Name each column once",
                        )
        named_columns = {key: frozenset(columns) for key, columns in new_rules.items()}
        tables = read_tables(connection)
        _, published = read_published(connection, slot.publications)
        rules_by_table = {}
        for table, _ in known_columns(tables, named_columns):
            key = table.key
            rules = dict(slot.column_rules.get(".".join(key), {}))
            rules |= dict.fromkeys(unsent_columns(published.get(key)), DROP)
            rules |= new_rules[key]
            # Rules of dropped columns are removed, too.
            rules_by_table[table.text] = {
                name: rules[name] for name in table.columns if rules.get(name, KEEP) != KEEP
            }
        return rules_by_table


def unsent_columns(published: Published | None) -> set[str]:
    """Return the columns that a publication's column list leaves out of a table."""
    if published is None or published.columns is None:
        return set()
    return set(published.table.columns) - set(published.columns) - published.table.generated


@dataclass(slots=True)
class _RuleChanges:
    """The changes of the slot's own rules, as lists of ``schema.table.column``."""

    rules: dict[str, dict[str, str]]
    masked: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    whole: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _ColumnPlan:
    """The statements for the source, and the changes of the slot's rules."""

    changes: ColumnChanges
    kept: _RuleChanges

    @property
    def statements(self) -> list[sql.Composed]:
        """Return the statements for the source."""
        return self.changes.statements


def plan_columns(slot: Slot, new_rules: TableRules | NamedColumns) -> Plan:
    """Plan the statements and their consequences.

    A refusal is in the plan. Raises ``SourceProblem`` where the source cannot be read.
    """
    return plan_alteration(
        slot,
        f"Change the columns of {slot}",
        lambda connection: _plan_changes(connection, slot, new_rules),
        lambda plan: _consequences(slot, plan.changes, plan.kept),
        _REFUSAL_CODES,
    )


def change_columns(slot: Slot, new_rules: TableRules | NamedColumns, *, by: str) -> ColumnChanges:
    """Alter the publications, store the rules and make the receiver reconnect.

    Returns the changes. Raises ``SourceProblem``.
    """
    plan = ask_source(slot, lambda connection: _plan_changes(connection, slot, new_rules))
    changes, rule_changes = plan.changes, plan.kept
    run_together(slot, plan)
    Slot.objects.filter(pk=slot.pk).update(column_rules=rule_changes.rules)
    # A running receiver has the former rules.
    reopen(slot)
    slot.refresh_from_db()
    parts = [
        f"{verb} {some_of(names)}"
        for verb, names in (
            ("left out", rule_changes.dropped or changes.unsent),
            ("masked", rule_changes.masked),
            ("kept again", rule_changes.whole or changes.sent),
        )
        if names
    ]
    note_slot(
        slot,
        "columns",
        f"The columns of the slot were changed: {'; '.join(parts)}.",
        by=by,
        statements=texts_of(plan),
    )
    look_at_publications(slot.source)
    return changes


def _plan_changes(
    connection: Connection, slot: Slot, new_rules: TableRules | NamedColumns
) -> _ColumnPlan:
    """Return the statements and changed rules. Raises ``SourceProblem`` where it cannot be done."""
    if slot.desired == Slot.Desired.REMOVING:
        raise SourceProblem("removing", f"slot {slot} is being removed", "Nothing to do")
    rules = new_rules.rules(connection, slot) if isinstance(new_rules, NamedColumns) else new_rules
    left_out = {
        table_parts(table): frozenset(c for c, rule in of_table.items() if rule == DROP)
        for table, of_table in rules.items()
    }
    readers = {other.name: other.publications for other in remaining_slots(slot.source)}
    changes = plan_column_changes(connection, made_by_us(slot), readers, left_out)
    rule_changes = _rule_changes_of(slot, rules)
    if not changes.statements and rule_changes.rules == slot.column_rules:
        cause = "these rules already apply to the columns"
        raise SourceProblem("nothing", cause, "Choose other columns or other rules")
    return _ColumnPlan(changes, rule_changes)


def _rule_changes_of(slot: Slot, new_rules: TableRules) -> _RuleChanges:
    """Return the slot's future rules, and the columns whose rules change."""
    changes = _RuleChanges({table: dict(rules) for table, rules in slot.column_rules.items()})
    for text, rules in new_rules.items():
        table = ".".join(table_parts(text))
        former_rules = changes.rules.pop(table, {})
        if rules:
            changes.rules[table] = dict(sorted(rules.items()))
        for column in sorted(former_rules.keys() | rules.keys()):
            now = rules.get(column)
            if now != former_rules.get(column):
                lists = {MASK: changes.masked, DROP: changes.dropped, None: changes.whole}
                lists[now].append(f"{table}.{column}")
    return changes


def _consequences(slot: Slot, changes: ColumnChanges, rule_changes: _RuleChanges) -> list[str]:
    other_slots = remaining_slots(slot.source).exclude(pk=slot.pk)
    shared = [other.name for other in other_slots if set(other.publications) & set(changes.altered)]
    sentences = [
        (changes.statements, "The statements run in one transaction: all of them, or none."),
        (changes.unsent, f"The source no longer sends {some_of(changes.unsent)}. From then on "
         "the record shows these columns as not sent."),
        (changes.sent, f"The source sends {some_of(changes.sent)} again, with the next change of "
         "each row. Values that were not sent stay unknown."),
        (changes.listed, f"{some_of(changes.listed)} is published with a column list: a column "
         "that is added to the table later is not sent until it is chosen here."),
        *((names, f"The source still sends {some_of(names)}, because {reason}. replview does not "
           "store it.") for reason, names in changes.still_sent.items()),
        (rule_changes.masked, f"From now on replview stores for {some_of(rule_changes.masked)} "
         "only that there was a value, not the value."),
        (rule_changes.whole, f"From now on replview stores {some_of(rule_changes.whole)} in full."),
        (rule_changes.masked or rule_changes.dropped, "Values that are already stored do not "
         "change: erase them, or hide them with a mask rule."),
        (shared, f"Slot {some_of(shared)} reads the same publication: the change also applies to "
         "it."),
        (True, "The receiver reconnects within two seconds; no change is lost."),
    ]  # fmt: skip
    return [sentence for holds, sentence in sentences if holds]

"""The step that chooses columns to leave out or to mask, with suggestions by column name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.http import QueryDict

from replview.catalog.columns import read_columns
from replview.catalog.connections import Connection
from replview.catalog.personal_columns import looks_like
from replview.catalog.plan.columns import must_be_sent
from replview.catalog.publications import read_publications
from replview.catalog.tables import TableFacts, read_tables
from replview.store.django_session import current_rules
from replview.store.read.mask_rules import masked_by
from replview.text.parsing import table_text

KEEP, MASK, DROP = "keep", "mask", "drop"
#: The choices of the form: value and label.
KEEPING = ((KEEP, "Keep"), (MASK, "Mask"), (DROP, "Leave out"))
#: The value of ``ColumnChoice.shown`` that stands for all suggestions instead of a table.
SUGGESTED = ""
_ALL_COLUMNS_SENT = "a publication FOR ALL TABLES sends every column"
ChosenRules = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRow:
    """A column as a row of the form."""

    table: str
    column: str
    type_name: str
    #: The kind of personal data that the name suggests; empty when none.
    looks: str
    chosen: str
    #: The reason that the column cannot be left out; empty if it can.
    must_be_sent: str
    #: ``ingest`` or ``display`` when a mask rule hides the column, whatever is chosen here.
    by_rule: str = ""

    @property
    def field(self) -> str:
        """Return the form field's name; browsers change line breaks, so there are none in it."""
        return " ".join(f"{self.table}|{self.column}".splitlines())


@dataclass(slots=True)
class ColumnChoice:
    """The columns of all chosen tables, and which of them the page shows."""

    #: Columns by ``schema.table``.
    tables: dict[str, list[ColumnRow]]
    shown: str = SUGGESTED
    #: True when the source itself leaves columns out (column lists, PostgreSQL 15 and later).
    at_source: bool = True
    #: True when the publication is FOR ALL TABLES, so that no column can be left out.
    everything: bool = False
    rules: ChosenRules = field(default_factory=dict)

    @property
    def suggested(self) -> list[ColumnRow]:
        """Return columns with names that look personal, and columns with a choice made."""
        rows = [row for rows in self.tables.values() for row in rows]
        return [row for row in rows if row.looks or row.chosen != KEEP]

    @property
    def rows(self) -> list[ColumnRow]:
        """Return the columns that the page shows."""
        return self.tables.get(self.shown, []) if self.shown else self.suggested

    @property
    def index(self) -> list[tuple[str, int, int, int]]:
        """Return, per table: name, number of columns, of suggestions and of choices made."""
        return [
            (name, len(rows), sum(bool(row.looks) for row in rows), len(self.rules.get(name, {})))
            for name, rows in self.tables.items()
        ]

    @property
    def counts(self) -> tuple[int, int]:
        """Return the number of masked columns and of columns left out."""
        chosen = [rule for rules in self.rules.values() for rule in rules.values()]
        return chosen.count(MASK), chosen.count(DROP)


def read_choice(
    connection: Connection, answers: Mapping[str, Any], shown: str = SUGGESTED, source_id: int = 0
) -> ColumnChoice:
    """Read the columns of the chosen tables, with the choices made so far.

    ``source_id`` is 0 for a source that does not exist yet; only mask rules for all sources apply.
    """
    all_tables = read_tables(connection)
    tables = _chosen_tables(connection, answers, all_tables)
    for_all_tables = answers.get("through") == "all"
    columns = read_columns(connection, [table.oid for table in tables])
    former: ChosenRules = answers.get("columns") or {}
    mask_rules = current_rules()
    rows: dict[str, list[ColumnRow]] = {}
    for table in tables:
        table_columns, former_rules = columns.get(table.oid, []), former.get(table.text, {})
        masks = masked_by(mask_rules, source_id, table.schema, table.name, table_columns)
        rows[table.text] = [
            ColumnRow(
                table=table.text,
                column=column.name,
                type_name=column.type_name,
                looks=looks_like(column.name),
                chosen=former_rules.get(column.name, KEEP),
                must_be_sent=_ALL_COLUMNS_SENT
                if for_all_tables
                else must_be_sent(table, all_tables, column.name),
                by_rule=masks.get(column.name, ""),
            )
            for column in table_columns
        ]
    return ColumnChoice(
        tables=rows,
        shown=shown if shown in rows else SUGGESTED,
        at_source=connection.info.server_version >= 150000 and answers.get("through") == "tables",
        everything=for_all_tables,
        rules=_rules_of_existing(former, rows),
    )


def _rules_of_existing(former: ChosenRules, rows: Mapping[str, list[ColumnRow]]) -> ChosenRules:
    """Return the choices made so far, without tables and columns that no longer exist."""
    remaining: ChosenRules = {}
    for name, rules in former.items():
        existing = {row.column for row in rows.get(name, [])}
        if kept := {column: rule for column, rule in rules.items() if column in existing}:
            remaining[name] = kept
    return remaining


class ColumnForm(forms.Form):
    """The form that chooses what is stored of each column that the page shows."""

    #: One choice for all columns whose names look personal.
    all = forms.ChoiceField(choices=KEEPING[:2], required=False)

    def __init__(self, choice: ColumnChoice, data: QueryDict | None = None) -> None:
        super().__init__(data)
        self.choice = choice
        for row in choice.rows:
            self.fields[row.field] = forms.ChoiceField(
                choices=KEEPING,
                initial=row.chosen,
                required=False,
                error_messages={"invalid_choice": f"{row.column}: choose keep, mask or leave out."},
            )

    @property
    def rows(self) -> list[tuple[ColumnRow, forms.BoundField]]:
        """Return the columns that the page shows, each with its field."""
        return [(row, self[row.field]) for row in self.choice.rows]

    def rules(self) -> ChosenRules:
        """Return the choices made so far, updated for the columns that the page shows."""
        rules = {name: dict(column_rules) for name, column_rules in self.choice.rules.items()}
        for row in self.choice.rows:
            for_all = self.cleaned_data["all"] if row.looks else ""
            rule = for_all or self.cleaned_data[row.field] or row.chosen
            table_rules = rules.setdefault(row.table, {})
            if rule == KEEP:
                table_rules.pop(row.column, None)
            else:
                table_rules[row.column] = MASK if row.must_be_sent else rule
        return {name: column_rules for name, column_rules in rules.items() if column_rules}


def _chosen_tables(
    connection: Connection, answers: Mapping[str, Any], tables: list[TableFacts]
) -> list[TableFacts]:
    """Return the chosen tables, those of the chosen publications, or all that can be chosen."""
    if answers.get("through") == "all":
        return [table for table in tables if table.parent is None]
    if answers.get("through") == "publications":
        publication_names = set(answers.get("publications") or ())
        chosen_names = {
            table_text(table.schema, table.name)
            for publication in read_publications(connection)
            if publication.name in publication_names
            for table in publication.tables
        }
    else:
        chosen_names = set(answers.get("tables") or ())
    return [table for table in tables if table.text in chosen_names]

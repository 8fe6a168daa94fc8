"""The step that chooses tables: some, all including later ones, or existing publications."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.http import QueryDict

from replview.catalog.connections import Connection
from replview.catalog.naming import quoted
from replview.catalog.plan.slot_request import clash_of, fully_usable
from replview.catalog.publications import Publication, read_publications, whole_schemas
from replview.catalog.server import ServerFacts, read_server_facts
from replview.catalog.tables import TableFacts, leaves_of, read_tables
from replview.text.formats import count_words, plural

TABLES, EVERYTHING, PUBLICATIONS = "tables", "all", "publications"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormRow:
    """A table as a row of the form."""

    name: str
    schema: str
    table: str
    #: The replica identity in words.
    identity: str
    #: ``key``, ``full`` or ``none``; without one only inserts and truncations are published.
    identity_kind: str
    rows: str
    partitions: int
    #: The reason that the table cannot be chosen; empty if it can.
    refusal: str
    #: Remedies that give the table an identity, best first: reason and SQL.
    mend: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class TableChoice:
    """The tables and the existing publications, with the reasons that limit the choice."""

    rows: list[TableFormRow]
    publications: list[Publication]
    #: Schemas by publication FOR TABLES IN SCHEMA, which includes later tables.
    whole_schemas: dict[str, list[str]] = field(default_factory=dict)
    #: True when the role may create publications in this database.
    may_create: bool = True
    database: str = ""
    #: SQL that grants the role that right.
    grant: str = ""
    #: The reason that no publication FOR ALL TABLES can be created; empty if it can.
    no_everything: str = ""
    #: Tables on which UPDATE and DELETE would fail under FOR ALL TABLES.
    breaking: tuple[str, ...] = ()

    @property
    def keyless(self) -> list[TableFormRow]:
        """Return the tables of which only inserts and truncations can be published."""
        return [row for row in self.rows if row.identity_kind == "none" and not row.refusal]

    @property
    def breaking_rows(self) -> list[TableFormRow]:
        """Return tables on which UPDATE and DELETE would fail under FOR ALL TABLES."""
        return [row for row in self.rows if row.name in self.breaking]

    @property
    def breaking_digest(self) -> str:
        """Return a digest of ``breaking``, so that consent covers these tables only."""
        return hashlib.sha256("\0".join(self.breaking).encode()).hexdigest()[:24]

    @property
    def described(self) -> list[tuple[Publication, str]]:
        """Return the existing publications, each with its tables in words."""
        described = []
        for publication in self.publications:
            words = plural(len(publication.tables), "table")
            if publication.all_tables:
                words = f"all tables, also future ones: {words} now"
            elif schemas := self.whole_schemas.get(publication.name):
                words = f"{words}, and later ones of {', '.join(schemas)}"
            described.append((publication, words))
        return described

    @property
    def schemas(self) -> list[tuple[str, int]]:
        """Return each schema with the number of its tables that can be chosen."""
        counts: dict[str, int] = {}
        for row in self.rows:
            counts[row.schema] = counts.get(row.schema, 0) + (not row.refusal)
        return sorted(counts.items())

    @property
    def choosable(self) -> list[TableFormRow]:
        """Return the tables that can be chosen."""
        return [row for row in self.rows if not row.refusal]


def read_choice(connection: Connection) -> TableChoice:
    """Read the database's tables and publications."""
    tables = read_tables(connection)
    facts = read_server_facts(connection)
    publications = [
        publication
        for publication in read_publications(connection)
        if publication.tables or publication.all_tables
    ]
    roots = [table for table in tables if table.parent is None]
    return TableChoice(
        rows=[_form_row(root, tables) for root in roots],
        publications=publications,
        whole_schemas=whole_schemas(connection),
        may_create=facts.may_create,
        database=facts.database,
        grant=f"GRANT CREATE ON DATABASE {quoted(facts.database)} TO {quoted(facts.role)};",
        no_everything=_all_tables_refusal(facts, tables),
        breaking=tuple(root.text for root in roots if not fully_usable(root, tables)),
    )


def _all_tables_refusal(facts: ServerFacts, tables: list[TableFacts]) -> str:
    """Return why no publication FOR ALL TABLES can be created; empty if it can."""
    if facts.in_recovery:
        return "this server is a standby: publications are created on its primary"
    if not facts.superuser:
        return f"PostgreSQL requires a superuser, which the role {facts.role} is not"
    return "" if tables else "the database has no table yet"


class _JoinedNames(forms.SelectMultiple):
    """The names of a field, which JavaScript joins in one: Django accepts at most 1,000 fields."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[str]:
        """Return the names that were sent one by one or joined by line breaks."""
        return [*data.getlist(name), *data.get(f"{name}s", "").splitlines()]


class _NamesField(forms.Field):
    """A form field for several names; names that the source no longer has are left out."""

    def __init__(
        self, offered: Sequence[str], widget: type[forms.Widget] = forms.SelectMultiple
    ) -> None:
        super().__init__(widget=widget)
        self.offered = offered

    def clean(self, value: Collection[str]) -> list[str]:
        """Return the chosen names in the order in which they are offered."""
        requested = set(value)
        return [name for name in self.offered if name in requested]


class TableForm(forms.Form):
    """The form that chooses tables, all tables, or existing publications."""

    through = forms.ChoiceField(
        choices=[(TABLES, TABLES), (EVERYTHING, EVERYTHING), (PUBLICATIONS, PUBLICATIONS)],
        error_messages=dict.fromkeys(
            ("required", "invalid_choice"), "Choose which tables are recorded."
        ),
    )
    #: The digest of the tables whose updates may fail, if the user agreed to that.
    breaking = forms.CharField(required=False)

    def __init__(
        self, choice: TableChoice, answers: Mapping[str, Any], data: QueryDict | None = None
    ) -> None:
        self.choice = choice
        names = [publication.name for publication in choice.publications]
        choosable = [row.name for row in choice.choosable]
        through = answers.get("through") or (TABLES if choice.may_create else PUBLICATIONS)
        accepted = set(answers.get("breaking") or ())
        agreed = through == EVERYTHING and set(choice.breaking) <= accepted
        initial = {
            "through": TABLES if through == PUBLICATIONS and not names else through,
            "publication": answers.get("publications") or names,
            # After a choice, tables that were created since are not chosen.
            "table": answers.get("tables") if "through" in answers else choosable,
            "breaking": choice.breaking_digest if agreed else "",
        }
        super().__init__(data, initial=initial)
        self.fields["publication"] = _NamesField(names)
        self.fields["table"] = _NamesField(choosable, _JoinedNames)

    @property
    def chosen_tables(self) -> set[str]:
        """Return the names of the tables that are chosen."""
        return {row.name for row in self.choice.choosable} & set(self["table"].value() or ())

    @property
    def summary(self) -> str:
        """Return the choice in words: ``47 of 50 tables chosen, 3 with inserts only``."""
        chosen = self.chosen_tables
        keyless = sum(row.name in chosen for row in self.choice.keyless)
        words = f"{len(chosen)} of {plural(len(self.choice.rows), 'table')} chosen"
        return f"{words}, {keyless} with inserts only" if keyless else words

    def clean_publication(self) -> list[str]:
        """Require publications if the choice is through them, and refuse any that clash."""
        names: list[str] = self.cleaned_data["publication"]
        if self.cleaned_data.get("through") != PUBLICATIONS:
            return []
        if not names:
            raise forms.ValidationError(
                "Choose at least one publication, or let replview create one."
            )
        chosen = [
            publication for publication in self.choice.publications if publication.name in names
        ]
        if clash := clash_of(chosen):
            raise forms.ValidationError(
                f"These publications give table {clash} different columns, which one slot cannot "
                "read: choose fewer."
            )
        return names

    def clean_table(self) -> list[str]:
        """Require tables if they are chosen one by one."""
        names: list[str] = self.cleaned_data["table"]
        if self.cleaned_data.get("through") != TABLES:
            return []
        if not names:
            raise forms.ValidationError("Choose at least one table.")
        return names

    def clean_breaking(self) -> list[str]:
        """Refuse all tables if that is impossible, or breaks updates that were not agreed to."""
        choice = self.choice
        if self.cleaned_data.get("through") != EVERYTHING:
            return []
        if choice.no_everything:
            raise forms.ValidationError(f"All tables cannot be published: {choice.no_everything}.")
        if choice.breaking and self.cleaned_data["breaking"] != choice.breaking_digest:
            raise forms.ValidationError(
                f"On {plural(len(choice.breaking), 'table')} UPDATE and DELETE would fail on the "
                "source. Add a primary key to each, choose tables one by one, or confirm below "
                "that you accept this."
            )
        return list(choice.breaking)

    def answers(self) -> dict[str, Any]:
        """Return the values as answers of a draft."""
        data = self.cleaned_data
        return {
            "through": data["through"],
            "publications": data["publication"],
            "tables": data["table"],
            "breaking": data["breaking"],
        }


def _form_row(table: TableFacts, tables: list[TableFacts]) -> TableFormRow:
    identity, kind = _identity_words(table, tables)
    refusal = "" if table.owned else "the role does not own it: only an owner can publish a table"
    if len(table.text.splitlines()) > 1:
        refusal = "its name has a line break, which a form cannot send: use replview slot add"
    return TableFormRow(
        name=table.text,
        schema=table.schema,
        table=table.name,
        identity=identity,
        identity_kind=kind,
        rows=count_words(table.estimated_rows) if table.estimated_rows else "",
        partitions=len(leaves_of(table, tables)) if table.partitioned else 0,
        refusal=refusal,
        mend=_remedies(table) if kind == "none" else (),
    )


def _identity_words(table: TableFacts, tables: list[TableFacts]) -> tuple[str, str]:
    """Return the replica identity in words, and its kind."""
    if not fully_usable(table, tables):
        return "deferrable key" if table.deferrable_key else "no key", "none"
    if table.replica_identity == "FULL":
        return "the whole row", "full"
    key_kind = "unique index" if table.replica_identity == "INDEX" else "primary key"
    return f"{key_kind} {', '.join(table.identity_columns)}", "key"


def _remedies(table: TableFacts) -> tuple[tuple[str, str], ...]:
    """Return the remedies for a table without identity, each with its reason and its SQL."""
    name = quoted(table.schema, table.name)
    if table.deferrable_key:
        index, key = quoted(f"{table.name[:40]}_identity"), map(quoted, table.primary_key)
        create = "CREATE UNIQUE INDEX" if table.partitioned else "CREATE UNIQUE INDEX CONCURRENTLY"
        first_remedy = (
            "Its primary key is DEFERRABLE, so it cannot be the replica identity. A unique index "
            "on the same columns can",
            f"{create} {index} ON {name} ({', '.join(key)}); "
            f"ALTER TABLE {name} REPLICA IDENTITY USING INDEX {index};",
        )
    elif table.primary_key:
        reset = f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT;"
        return (("Use its existing primary key", reset),)
    else:
        first_remedy = ("Best: add a primary key", f"ALTER TABLE {name} ADD PRIMARY KEY (…);")
    return (
        first_remedy,
        ("Without a key, each update and delete writes the whole old row to WAL",
         f"ALTER TABLE {name} REPLICA IDENTITY FULL;"),
    )  # fmt: skip

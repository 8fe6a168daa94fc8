"""The step that chooses tables: some, all including later ones, or existing publications."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
    chosen: bool
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
    """The tables and the existing publications, with what is chosen."""

    rows: list[TableFormRow]
    publications: list[Publication]
    through: str
    #: Schemas by publication FOR TABLES IN SCHEMA, which includes later tables.
    whole_schemas: dict[str, list[str]] = field(default_factory=dict)
    #: Names of the chosen publications.
    chosen: set[str] = field(default_factory=set)
    #: True when the role may create publications in this database.
    may_create: bool = True
    database: str = ""
    #: SQL that grants the role that right.
    grant: str = ""
    #: The reason that no publication FOR ALL TABLES can be created; empty if it can.
    no_everything: str = ""
    #: Tables on which UPDATE and DELETE would fail under FOR ALL TABLES.
    breaking: tuple[str, ...] = ()
    #: True when the user agreed to that.
    breaking_agreed: bool = False
    error: str = ""

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

    @property
    def chosen_rows(self) -> list[TableFormRow]:
        """Return the tables that are chosen."""
        return [row for row in self.rows if row.chosen]

    @property
    def summary(self) -> str:
        """Return the choice in words: ``47 of 50 tables chosen, 3 with inserts only``."""
        chosen = self.chosen_rows
        keyless = sum(row.identity_kind == "none" for row in chosen)
        words = f"{len(chosen)} of {plural(len(self.rows), 'table')} chosen"
        return f"{words}, {keyless} with inserts only" if keyless else words


def read_choice(connection: Connection, answers: Mapping[str, Any]) -> TableChoice:
    """Read the database's tables and publications, with the choices made before."""
    tables = read_tables(connection)
    facts = read_server_facts(connection)
    publications = [
        publication
        for publication in read_publications(connection)
        if publication.tables or publication.all_tables
    ]
    former_tables = set(answers.get("tables") or ())
    roots = [table for table in tables if table.parent is None]
    breaking = tuple(table.text for table in roots if not fully_usable(table, tables))
    # Choose all tables at first; after a choice, tables created since are not chosen.
    choose_all = "through" not in answers
    through = str(answers.get("through") or (TABLES if facts.may_create else PUBLICATIONS))
    return TableChoice(
        rows=[
            _form_row(root, tables, chosen=choose_all or root.text in former_tables)
            for root in roots
        ],
        publications=publications,
        through=through if publications or through == EVERYTHING else TABLES,
        whole_schemas=whole_schemas(connection),
        chosen=set(
            answers.get("publications") or [publication.name for publication in publications]
        ),
        may_create=facts.may_create,
        database=facts.database,
        grant=f"GRANT CREATE ON DATABASE {quoted(facts.database)} TO {quoted(facts.role)};",
        no_everything=_all_tables_refusal(facts, tables),
        breaking=breaking,
        breaking_agreed=set(breaking) <= set(answers.get("breaking") or ()),
    )


def _all_tables_refusal(facts: ServerFacts, tables: list[TableFacts]) -> str:
    """Return why no publication FOR ALL TABLES can be created; empty if it can."""
    if facts.in_recovery:
        return "this server is a standby: publications are created on its primary"
    if not facts.superuser:
        return f"PostgreSQL requires a superuser, which the role {facts.role} is not"
    return "" if tables else "the database has no table yet"


def read_form(choice: TableChoice, params: QueryDict) -> dict[str, Any] | None:
    """Return the choices as a draft's answers; None with ``choice.error`` if they are bad."""
    through = params.get("through", "")
    choice.through = through if through in (PUBLICATIONS, EVERYTHING) else TABLES
    choice.chosen = set(params.getlist("publication"))
    # Django accepts at most 1,000 fields, so JavaScript joins all tables in one.
    requested = {*params.getlist("table"), *params.get("tables", "").splitlines()}
    choice.rows = [
        replace(row, chosen=row.name in requested and not row.refusal) for row in choice.rows
    ]
    if choice.through == PUBLICATIONS:
        chosen = [
            publication for publication in choice.publications if publication.name in choice.chosen
        ]
        if not chosen:
            choice.error = "Choose at least one publication, or let replview create one."
        elif clash := clash_of(chosen):
            choice.error = (
                f"These publications give table {clash} different columns, which one slot cannot "
                "read: choose fewer."
            )
        return None if choice.error else {
            "through": PUBLICATIONS,
            "publications": [publication.name for publication in chosen],
            "tables": [],
        }  # fmt: skip
    if choice.through == EVERYTHING:
        return _read_all_tables(choice, params)
    tables = [row.name for row in choice.chosen_rows]
    if not tables:
        choice.error = "Choose at least one table."
        return None
    return {"through": TABLES, "publications": [], "tables": tables}


def _read_all_tables(choice: TableChoice, params: QueryDict) -> dict[str, Any] | None:
    """Return the answer for all tables; refuse if it breaks updates that were not agreed to."""
    choice.breaking_agreed = params.get("breaking", "") == choice.breaking_digest
    if choice.no_everything:
        choice.error = f"All tables cannot be published: {choice.no_everything}."
    elif choice.breaking and not choice.breaking_agreed:
        choice.error = (
            f"On {plural(len(choice.breaking), 'table')} UPDATE and DELETE would fail on the "
            "source. Add a primary key to each, choose tables one by one, or confirm below that "
            "you accept this."
        )
    return None if choice.error else {
        "through": EVERYTHING, "publications": [], "tables": [], "breaking": list(choice.breaking)
    }  # fmt: skip


def _form_row(table: TableFacts, tables: list[TableFacts], *, chosen: bool) -> TableFormRow:
    identity, kind = _identity_words(table, tables)
    refusal = "" if table.owned else "the role does not own it: only an owner can publish a table"
    if len(table.text.splitlines()) > 1:
        refusal = "its name has a line break, which a form cannot send: use replview slot add"
    return TableFormRow(
        name=table.text,
        schema=table.schema,
        table=table.name,
        chosen=chosen and not refusal,
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

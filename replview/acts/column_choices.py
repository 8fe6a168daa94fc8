"""The columns of a slot's tables: as they are kept now, and which rules somebody asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replview.acts.publications import made_by_us
from replview.catalog.columns import read_columns
from replview.catalog.connections import Connection, reading
from replview.catalog.naming import table_text
from replview.catalog.personal_columns import looks_like
from replview.catalog.plan.column_rules import known_columns, must_be_sent
from replview.catalog.plan.slot_request import parse_columns, refuse
from replview.catalog.publications import read_members
from replview.catalog.published import Published, read_published
from replview.catalog.tables import TableFacts, read_tables
from replview.store.dsn import full_conninfo
from replview.store.masks import masked_columns
from replview.store.models import Slot

_DEADLINE_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table that the slot records."""

    #: As ``table_text`` writes it.
    name: str
    #: Its columns that are masked or left out by the slot's own rules or its publication.
    ruled: int
    #: replview made the publication that names it.
    ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptColumn:
    """A column of one table."""

    name: str
    type_name: str
    #: What its name looks like; empty: nothing.
    looks: str
    #: ``keep``, ``mask`` or ``drop``.
    rule: str
    #: Why it cannot be left out; empty: it can.
    must_be_sent: str
    #: A mask rule takes it already: ``ingest`` or ``display``; empty: none does.
    by_rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChoices:
    """The tables, and the columns of the one that was chosen."""

    tables: tuple[PublishedTable, ...]
    #: None: none was chosen, or it is not recorded.
    table: PublishedTable | None = None
    columns: tuple[KeptColumn, ...] = ()
    #: 15 and later, of a publication of ours: what is left out does not leave the source.
    at_source: bool = False


def columns_of(slot: Slot, chosen: str = "") -> ColumnChoices:
    """Raises ``SourceProblem`` and what a DSN may raise."""
    with reading(full_conninfo(slot.source), deadline_seconds=_DEADLINE_SECONDS) as connection:
        tables = read_tables(connection)
        found, unsent = _published_tables(connection, slot, tables)
        table = next((one for one in found if one.name == chosen), None)
        if table is None:
            return ColumnChoices(tables=tuple(found))
        facts = next(one for one in tables if one.text == chosen)
        columns = read_columns(connection, [facts.oid])[facts.oid]
        modern = connection.info.server_version >= 150000
    rules = slot.column_rules.get(str(facts), {})
    masks = masked_columns(slot.source_id, facts.schema, facts.name, columns)
    not_sent = unsent[facts.schema, facts.name]
    return ColumnChoices(
        tables=tuple(found),
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
) -> tuple[list[PublishedTable], dict[tuple[str, str], set[str]]]:
    """The tables that the slot records, and the columns that each one's publication leaves out."""
    publications, published = read_published(connection, slot.publications)
    by_name = {(table.schema, table.name): table for table in tables}
    ours = made_by_us(slot)
    named = {
        member.key
        for one in publications
        if one.name in ours
        for member in read_members(connection, one.name)
    }
    unsent = {key: unsent_columns(one) for key, one in published.items()}
    found = [
        PublishedTable(
            name=by_name[key].text,
            ruled=len(unsent[key] | set(slot.column_rules.get(".".join(key), {}))),
            ours=key in named,
        )
        for key in sorted(published)
    ]
    return found, unsent


KEEP, MASK, DROP = "keep", "mask", "drop"
#: ``{table (as ``table_text`` writes it): {column: "mask" | "drop"}}``: all rules of these tables.
Rules = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedColumns:
    """Columns by ``schema.table.column``; every other one stays as it is."""

    keep: Sequence[str] = ()
    mask: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def rules(self, connection: Connection, slot: Slot) -> dict[str, dict[str, str]]:
        """All rules of their tables as they would be. Raises ``SourceProblem``."""
        wanted: dict[tuple[str, str], dict[str, str]] = {}
        for rule, texts in ((KEEP, self.keep), (MASK, self.mask), (DROP, self.exclude)):
            for key, columns in parse_columns(list(texts)).items():
                for column in columns:
                    if wanted.setdefault(key, {}).setdefault(column, rule) != rule:
                        raise refuse(
                            "contradiction",
                            f"{table_text(*key)}.{column} is named twice, for different things",
                            "Name each column once",
                        )
        named = {key: frozenset(columns) for key, columns in wanted.items()}
        tables = read_tables(connection)
        _, published = read_published(connection, slot.publications)
        found = {}
        for table, _ in known_columns(tables, named, "Correct it: schema.table.column"):
            key = table.schema, table.name
            rules = dict(slot.column_rules.get(".".join(key), {}))
            rules |= dict.fromkeys(unsent_columns(published.get(key)), DROP)
            rules |= wanted[key]
            # Rules of columns that are gone go with them.
            found[table.text] = {
                name: rules[name] for name in table.columns if rules.get(name, KEEP) != KEEP
            }
        return found


def unsent_columns(published: Published | None) -> set[str]:
    """Those a publication leaves out of a table by its list."""
    if published is None or published.columns is None:
        return set()
    return set(published.table.columns) - set(published.columns) - published.table.generated

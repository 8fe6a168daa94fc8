"""The columns of a slot's tables, as they are kept now and may be kept."""

from dataclasses import dataclass

from replview.acts.column_requests import DROP, KEEP, unsent_columns
from replview.acts.definitions import made_by_us
from replview.catalog.connections import reading
from replview.catalog.personal_columns import looks_like
from replview.catalog.plan.column_rules import must_be_sent
from replview.catalog.publication_members import read_members
from replview.catalog.published import read_published
from replview.catalog.table_columns import read_columns
from replview.catalog.tables import read_tables
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
    """Raises ``SourceTrouble`` and what a DSN may raise."""
    with reading(full_conninfo(slot.source), deadline_seconds=_DEADLINE_SECONDS) as connection:
        publications, published = read_published(connection, slot.publications)
        tables = read_tables(connection)
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

"""The tables of a slot's database, as they may be added to its publications or removed."""

from dataclasses import dataclass

from replview.acts.definitions import made_by_us
from replview.catalog.connections import reading
from replview.catalog.naming import quoted
from replview.catalog.plan.slot_request import fully_usable
from replview.catalog.publication_members import read_members
from replview.catalog.publications import read_publications
from replview.catalog.tables import TableFacts, read_tables
from replview.store.dsn import full_conninfo
from replview.store.models import Slot

_DEADLINE_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChoice:
    """One table that can be named in a publication."""

    name: str
    #: ``all``: every change; ``inserts``: no updates and deletes; empty: nothing.
    published: str
    #: It can be published with its updates and deletes.
    usable: bool
    #: Why not, and what would mend it; empty: it can.
    reason: str
    mend: str
    estimated_rows: int
    partitioned: bool
    #: The connected role may publish it.
    owned: bool

    @property
    def grows(self) -> bool:
        """It is published without updates and deletes, which could come by now."""
        return self.published == "inserts" and self.usable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChoices:
    """All of them, and whether anything may be changed."""

    tables: tuple[TableChoice, ...]
    #: Ours, which are changed; empty: the slot reads only publications of others.
    own: tuple[str, ...]


def tables_of(slot: Slot) -> TableChoices:
    """Roots of partitioned tables and ordinary ones, and partitions that are published as such.
    Raises ``SourceTrouble`` and what a DSN may raise.
    """
    with reading(full_conninfo(slot.source), deadline_seconds=_DEADLINE_SECONDS) as connection:
        tables = read_tables(connection)
        made = made_by_us(slot)
        own = [one for one in read_publications(connection) if one.name in made]
        published: dict[tuple[str, str | None], str] = {}
        for publication in own:
            word = "all" if publication.needs_identity else "inserts"
            if publication.all_tables:
                published |= {(t.schema, t.name): "all" for t in tables if t.parent is None}
            for member in read_members(connection, publication.name):
                key = member.schema, member.name
                published[key] = "all" if published.get(key) == "all" else word
    return TableChoices(
        tables=tuple(
            _choice(table, tables, published.get((table.schema, table.name), ""))
            for table in tables
            if table.parent is None or (table.schema, table.name) in published
        ),
        own=tuple(one.name for one in own),
    )


def _choice(table: TableFacts, tables: list[TableFacts], published: str) -> TableChoice:
    usable = fully_usable(table, tables)
    return TableChoice(
        name=table.text,
        published=published,
        usable=usable,
        reason="" if usable else _reason(table),
        mend="" if usable else _mend(table),
        estimated_rows=table.estimated_rows,
        partitioned=table.partitioned,
        owned=table.owned,
    )


def _reason(table: TableFacts) -> str:
    """Why its updates cannot be published."""
    if table.usable:
        return "one of its partitions has no usable replica identity"
    if table.deferrable_key and table.replica_identity == "DEFAULT":
        return "its primary key is DEFERRABLE, which PostgreSQL takes for no replica identity"
    return {
        "NOTHING": "its replica identity is NOTHING",
        "INDEX": "the index of its replica identity was dropped",
    }.get(table.replica_identity, "it has no primary key")


def _mend(table: TableFacts) -> str:
    """A statement that would do; the owner's to run."""
    name = quoted(table.schema, table.name)
    usable_key = table.primary_key and not table.deferrable_key
    if usable_key and table.replica_identity != "DEFAULT":
        return f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT;"
    return f"ALTER TABLE {name} REPLICA IDENTITY FULL;"

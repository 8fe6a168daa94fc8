"""Tables whose updates cannot be published, or only at a price; publications FOR ALL TABLES."""

from collections.abc import Iterator

from replview.catalog.doctor.findings import Finding, note, ok, some_of, warning
from replview.catalog.naming import quoted
from replview.catalog.publications import Publication
from replview.catalog.tables import TableFacts


def check_identities(tables: list[TableFacts]) -> Iterator[Finding]:
    """Tables without a usable replica identity, and those under FULL."""
    unusable = [table for table in tables if not table.usable and not table.partitioned]
    if not tables:
        yield note("no_tables", "the database has no tables yet")
    elif not unusable:
        yield ok("identities", f"all {len(tables)} tables have a usable replica identity")
    else:
        yield warning(
            "unusable_tables",
            f"{len(unusable)} of {len(tables)} tables have no usable replica identity; publishing "
            "their updates would make the application's UPDATE and DELETE fail, so replview "
            f"publishes only their inserts: {some_of([str(table) for table in unusable])}",
            "; ".join(_mend(table) for table in unusable[:10]),
        )
    full = [table for table in tables if table.replica_identity == "FULL"]
    if full:
        yield note(
            "full_tables",
            f"{len(full)} tables are under REPLICA IDENTITY FULL: each UPDATE and DELETE writes "
            f"the whole old row to the WAL: {some_of([str(table) for table in full])}",
        )


def check_publications(
    publications: list[Publication], tables: list[TableFacts]
) -> Iterator[Finding]:
    """Publications that already make, or will make, an application's UPDATE fail."""
    unusable = {(item.schema, item.name): item for item in tables if not item.usable}
    for publication in publications:
        if not publication.needs_identity:
            continue
        broken = [
            str(unusable[key])
            for table in publication.tables
            if (key := (table.schema, table.name)) in unusable and not unusable[key].partitioned
        ]
        if broken:
            yield warning(
                "breaking_publication",
                f"publication {publication.name} publishes updates of tables without a usable "
                f"replica identity: their UPDATE and DELETE fail now: {some_of(broken)}",
                f"ALTER PUBLICATION {quoted(publication.name)} SET (publish = 'insert, truncate')",
            )
        if publication.all_tables:
            yield warning(
                "all_tables",
                f"publication {publication.name} is FOR ALL TABLES: UPDATE and DELETE will fail on "
                "every new table without a primary key",
                "Publish table by table: replview slot add shows the statements",
            )


def check_rights(may_create: bool, tables: list[TableFacts], database: str) -> Iterator[Finding]:
    """What the role needs for publications of its own; existing ones need no right at all."""
    if not may_create:
        yield note(
            "may_not_publish",
            f"the role may not create publications in {database}",
            f"GRANT CREATE ON DATABASE {quoted(database)} TO <role>, "
            "or use an existing publication (--publication)",
        )
    foreign = [str(table) for table in tables if not table.owned]
    if foreign:
        yield note(
            "not_owner",
            f"the role does not own {len(foreign)} of {len(tables)} tables and cannot publish "
            f"them: {some_of(foreign)}",
            "Create their publication as their owner and give it with --publication",
        )


def check_partitions(tables: list[TableFacts]) -> Iterator[Finding]:
    """Partitioned tables are published by their root; say where a partition spoils that."""
    by_oid = {table.oid: table for table in tables}
    for table in tables:
        parent = by_oid.get(table.parent or 0)
        if parent and parent.usable and not table.usable:
            yield warning(
                "unusable_partition",
                f"partition {table} has no usable replica identity though {parent} has: only "
                "inserts of the whole table are published",
                _mend(table),
            )


def _mend(table: TableFacts) -> str:
    """The statement that gives a table a usable identity."""
    name = quoted(table.schema, table.name)
    if table.deferrable_key:
        # PostgreSQL takes no deferrable key, and a table has but one primary key.
        return f"ALTER TABLE {name} REPLICA IDENTITY FULL"
    if table.primary_key:
        return f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT"
    return f"ALTER TABLE {name} ADD PRIMARY KEY (…), or ALTER TABLE {name} REPLICA IDENTITY FULL"

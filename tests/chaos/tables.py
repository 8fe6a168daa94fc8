"""The source's tables: every replica identity, toasted values, partitions, foreign keys, DDL.

``ledger`` is the source's own account of what committed: it is written inside each transaction and
not published. ``ddl_log`` is published: like the event triggers that users replicate DDL with, it
puts each ALTER TABLE into the stream, where it stands among the changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A published table."""

    #: The columns that identify a row in the stream; empty if only the whole row does.
    key: tuple[str, ...]
    create: str


TABLES: Mapping[str, Table] = {
    "accounts": Table(
        ("id",),
        "CREATE TABLE accounts (id int PRIMARY KEY, balance numeric(12,2), at timestamptz, "
        "note text)",
    ),
    "documents": Table(
        ("id",),
        "CREATE TABLE documents (id int PRIMARY KEY, version int, body text, extra bytea); "
        "ALTER TABLE documents ALTER body SET STORAGE EXTERNAL, ALTER extra SET STORAGE EXTERNAL",
    ),
    "whole_rows": Table(
        (),
        "CREATE TABLE whole_rows (a int, b text, big text); "
        "ALTER TABLE whole_rows ALTER big SET STORAGE EXTERNAL, REPLICA IDENTITY FULL",
    ),
    "pairs": Table(
        ("a", "b"),
        "CREATE TABLE pairs (v jsonb, a int, b text, flag boolean, PRIMARY KEY (a, b))",
    ),
    "indexed": Table(
        ("code", "nr"),
        "CREATE TABLE indexed (id serial, nr int NOT NULL, code text NOT NULL, tags text[]); "
        "CREATE UNIQUE INDEX indexed_by ON indexed (code, nr); "
        "ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_by",
    ),
    "journal": Table(
        (),
        "CREATE TABLE journal (n int, at timestamptz, line text); "
        "ALTER TABLE journal REPLICA IDENTITY NOTHING",
    ),
    "parted": Table(
        ("id", "region"),
        "CREATE TABLE parted (id int, region int, body text, PRIMARY KEY (id, region)) "
        "PARTITION BY LIST (region); "
        "CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0); "
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1)",
    ),
    "parents": Table(("id",), "CREATE TABLE parents (id serial PRIMARY KEY, name text)"),
    "children": Table(
        ("id",),
        "CREATE TABLE children (id bigserial PRIMARY KEY, "
        "parent int NOT NULL REFERENCES parents (id), at interval)",
    ),
    "shapes": Table(("id",), "CREATE TABLE shapes (id int PRIMARY KEY, note text)"),
    "ddl_log": Table(
        ("id",),
        "CREATE TABLE ddl_log (id bigserial PRIMARY KEY, kind text NOT NULL, name text, "
        "value text)",
    ),
}

LEDGER = """
CREATE TABLE ledger (
    session int, number int, xid bigint, gid text, origin text, changes int, messages int
)
"""


def schema(publication: str, version: int) -> list[str]:
    """The statements that make the tables and publish them. Before 13 a partitioned table cannot
    be published: there it is a plain one.
    """
    creates = {name: table.create for name, table in TABLES.items()}
    options = " WITH (publish_via_partition_root = true)"
    if version < 13:
        creates["parted"], options = creates["parted"].split(" PARTITION BY")[0], ""
    return [
        *creates.values(),
        LEDGER,
        "CREATE TABLE private (n int)",
        f"CREATE PUBLICATION {publication} FOR TABLE {', '.join(TABLES)}{options}",
    ]

"""The shop's types and tables, and the check that a database is ours to change.

Replica identities are the point of the choice: most tables keep DEFAULT, ``carts`` has
INDEX, ``stock`` and ``audit_notes`` have FULL, ``warehouse.sensor_readings`` has NOTHING,
and ``page_views`` and ``receipts`` have no key at all. The last three are only ever
inserted into and truncated, so no publication can make one of our statements fail.
"""

from pathlib import Path

import psycopg

#: Written as the comment of the schema ``warehouse``. Without it, tables named like ours are
#: someone else's, and the workload refuses to touch them.
MARKER = "replview demo shop"

#: Taken by whoever prepares or runs the workload on a database.
ADVISORY_LOCK = 0x73686F70

#: Made by ``shop.sql``.
TABLES = (
    "public.customers", "public.products", "public.orders", "public.order_items", "public.payments",
    "public.settlements", "public.stock", "public.stock_import", "public.price_list",
    "public.receipts", "public.carts", "public.audit_notes", "public.page_views",
    "warehouse.sensor_readings",
)  # fmt: skip


class NotOurDatabase(Exception):
    """The database holds tables named like the shop's that the demo did not create."""


def is_prepared(conn: psycopg.Connection) -> bool:
    """Whether the shop's tables are there, and ours.

    Raises `NotOurDatabase` when something else has taken one of their names.
    """
    row = conn.execute(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'warehouse'"
    ).fetchone()
    if row is not None and row[0] == MARKER:
        return True
    taken = conn.execute(
        "SELECT name FROM unnest(%s::text[]) name WHERE to_regclass(name) IS NOT NULL",
        (list(TABLES),),
    ).fetchall()
    if row is not None or taken:
        what = f"a table {taken[0][0]}" if taken else "a schema warehouse"
        raise NotOurDatabase(f"the database already has {what} that the demo did not create")
    return False


def create_schema(conn: psycopg.Connection) -> None:
    conn.execute(Path(__file__).with_name("shop.sql").read_bytes())
    conn.execute(f"COMMENT ON SCHEMA warehouse IS '{MARKER}'")

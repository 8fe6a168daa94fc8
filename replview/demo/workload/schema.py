"""This module creates the shop's types and tables, and checks that a database is ours to change.

The tables cover all replica identities: most have DEFAULT, ``carts`` has INDEX, ``stock`` and
``audit_notes`` have FULL, ``warehouse.sensor_readings`` has NOTHING, and ``page_views`` and
``receipts`` have no key. The last three are only inserted into and truncated, so that no
publication can make one of our statements fail.
"""

from pathlib import Path

import psycopg
from psycopg import sql

#: The comment of the schema ``warehouse``. Without it, tables with our names belong to somebody
#: else, and the workload refuses to change them.
MARKER = "replview demo shop"

#: The lock of a running workload; preparing takes the next number.
ADVISORY_LOCK = 0x73686F70

#: Tables that ``shop.sql`` creates.
TABLES = (
    "public.customers", "public.products", "public.orders", "public.order_items", "public.payments",
    "public.settlements", "public.stock", "public.stock_import", "public.price_list",
    "public.receipts", "public.carts", "public.audit_notes", "public.page_views",
    "warehouse.sensor_readings",
)  # fmt: skip


class NotOurDatabase(Exception):
    """The database has a table of the shop that the demo did not create."""


def is_prepared(conn: psycopg.Connection) -> bool:
    """Return whether the shop's tables exist and are ours.

    Raises ``NotOurDatabase`` if something else has taken one of their names.
    """
    row = conn.execute(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'warehouse'"
    ).fetchone()
    if row is not None and row[0] == MARKER:
        return True
    existing = conn.execute(
        "SELECT name FROM unnest(%s::text[]) name WHERE to_regclass(name) IS NOT NULL",
        (list(TABLES),),
    ).fetchall()
    if row is not None or existing:
        object_name = f"a table {existing[0][0]}" if existing else "a schema warehouse"
        raise NotOurDatabase(f"the database already has {object_name} that the demo did not create")
    return False


def create_schema(conn: psycopg.Connection) -> None:
    """Create the types and tables, and mark the database as ours."""
    conn.execute(Path(__file__).with_name("shop.sql").read_bytes())
    conn.execute(sql.SQL("COMMENT ON SCHEMA warehouse IS {}").format(MARKER))

"""This module bounds the shop's size, so that a demo may run for weeks."""

from psycopg import sql

from replview.demo.workload.scenarios import timed
from replview.demo.workload.session import WorkloadSession

#: Rows deleted in one transaction.
BATCH = 200

#: Number of newest rows that each table keeps. Items and payments are deleted with their orders.
#: Orders are the largest: a quarter has an invoice of 10 kB, 50 MB in all.
KEEP = {"orders": 20_000, "carts": 3_000, "audit_notes": 4_000, "settlements": 2_000}
KEEP_CUSTOMERS = 3_000

DELETE_OLD = sql.SQL(
    "DELETE FROM {table} WHERE id IN (SELECT id FROM {table}"
    " WHERE id <= (SELECT max(id) FROM {table}) - %s ORDER BY id LIMIT %s)"
)
IS_TOO_LONG = sql.SQL("SELECT min(id) <= max(id) - %s FROM {table}")

#: Tables without a usable replica identity, from which rows are removed only by TRUNCATE.
EMPTY_WHOLE = ("page_views", "receipts", "warehouse.sensor_readings")
EMPTY_ABOVE_BYTES = 16 * 1024 * 1024


def delete_old(session: WorkloadSession, table: str, keep: int) -> int:
    """Delete a batch of the oldest rows beyond ``keep``, and return their number."""
    with session.transaction():
        session.claim(f"/jobs/clean-up/{table}", actor="janitor")
        delete = DELETE_OLD.format(table=sql.Identifier(table))
        return session.execute(delete, (keep, BATCH)).rowcount


def delete_old_customers(session: WorkloadSession, keep: int) -> int:
    """Delete a batch of the oldest customers beyond ``keep`` who have no orders left."""
    surplus = session.value("SELECT count(*) FROM customers") - keep
    if surplus <= 0:
        return 0
    with session.transaction():
        session.claim("/jobs/clean-up/customers", actor="janitor")
        return session.execute(
            "DELETE FROM customers WHERE id IN (SELECT id FROM customers c WHERE NOT EXISTS"
            " (SELECT FROM orders WHERE customer_id = c.id) ORDER BY created_at LIMIT %s)",
            (min(surplus, BATCH),),
        ).rowcount


def empty_large(session: WorkloadSession, *, above_bytes: int = EMPTY_ABOVE_BYTES) -> None:
    """Truncate the insert-only tables that are larger than this."""
    for table in EMPTY_WHOLE:
        if session.value("SELECT pg_relation_size(%s::regclass)", (table,)) > above_bytes:
            with session.transaction():
                session.claim(f"/jobs/clean-up/{table}", actor="janitor")
                name = sql.Identifier(*table.split("."))
                session.execute(sql.SQL("TRUNCATE {}").format(name))


@timed(session="shop janitor", every_seconds=20, shows="deletes in batches, cascades, truncates")
def clean_up(session: WorkloadSession) -> None:
    """Delete old rows in batches, and truncate large insert-only tables."""
    for table, keep in KEEP.items():
        while session.value(IS_TOO_LONG.format(table=sql.Identifier(table)), (keep,)):
            delete_old(session, table, keep)
            session.pause(0.05)
    delete_old_customers(session, KEEP_CUSTOMERS)
    empty_large(session)

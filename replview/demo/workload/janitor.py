"""The janitor keeps the shop's size bounded, so that a demo may run for weeks."""

from __future__ import annotations

from typing import LiteralString

from replview.demo.workload.scenarios import timed
from replview.demo.workload.session import Session

#: Rows deleted in one transaction.
BATCH = 200

#: How many rows, by age of their id, each table keeps. Items and payments go with their
#: orders. Orders are the bulk: a quarter carries an invoice of 10 kB, 50 MB in all.
KEEP: dict[str, int] = {
    "orders": 20_000,
    "carts": 3_000,
    "audit_notes": 4_000,
    "settlements": 2_000,
}
KEEP_CUSTOMERS = 3_000

DELETE_OLD: dict[str, LiteralString] = {
    "orders": "DELETE FROM orders WHERE id IN (SELECT id FROM orders"
    " WHERE id <= (SELECT max(id) FROM orders) - %s ORDER BY id LIMIT %s)",
    "carts": "DELETE FROM carts WHERE id IN (SELECT id FROM carts"
    " WHERE id <= (SELECT max(id) FROM carts) - %s ORDER BY id LIMIT %s)",
    "audit_notes": "DELETE FROM audit_notes WHERE id IN (SELECT id FROM audit_notes"
    " WHERE id <= (SELECT max(id) FROM audit_notes) - %s ORDER BY id LIMIT %s)",
    "settlements": "DELETE FROM settlements WHERE id IN (SELECT id FROM settlements"
    " WHERE id <= (SELECT max(id) FROM settlements) - %s ORDER BY id LIMIT %s)",
}

IS_TOO_LONG: dict[str, LiteralString] = {
    "orders": "SELECT min(id) <= max(id) - %s FROM orders",
    "carts": "SELECT min(id) <= max(id) - %s FROM carts",
    "audit_notes": "SELECT min(id) <= max(id) - %s FROM audit_notes",
    "settlements": "SELECT min(id) <= max(id) - %s FROM settlements",
}

#: Tables without a usable replica identity are only ever emptied whole.
EMPTY_WHOLE: dict[str, LiteralString] = {
    "page_views": "TRUNCATE page_views",
    "receipts": "TRUNCATE receipts",
    "warehouse.sensor_readings": "TRUNCATE warehouse.sensor_readings",
}
EMPTY_ABOVE_BYTES = 16 * 1024 * 1024


def delete_old(session: Session, table: str, keep: int) -> int:
    """Delete a batch of the oldest rows beyond ``keep``, and return how many there were."""
    with session.transaction():
        session.claim(f"/jobs/clean-up/{table}", actor="janitor")
        return session.execute(DELETE_OLD[table], (keep, BATCH)).rowcount


def delete_old_customers(session: Session, keep: int) -> int:
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


def empty_large(session: Session, *, above_bytes: int = EMPTY_ABOVE_BYTES) -> None:
    """Truncate the insert-only tables that have grown beyond so many bytes."""
    for table, truncate in EMPTY_WHOLE.items():
        if session.value("SELECT pg_relation_size(%s::regclass)", (table,)) > above_bytes:
            with session.transaction():
                session.claim(f"/jobs/clean-up/{table}", actor="janitor")
                session.execute(truncate)


@timed(session="shop janitor", every_seconds=20, shows="deletes in batches, cascades, truncates")
def clean_up(session: Session) -> None:
    for table, keep in KEEP.items():
        while session.value(IS_TOO_LONG[table], (keep,)):
            delete_old(session, table, keep)
            session.pause(0.05)
    delete_old_customers(session, KEEP_CUSTOMERS)
    empty_large(session)

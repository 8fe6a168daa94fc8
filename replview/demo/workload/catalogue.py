"""Goods, their prices and their shelves."""

from __future__ import annotations

from replview.demo.workload.material import WAREHOUSES
from replview.demo.workload.scenarios import paced
from replview.demo.workload.session import Session


@paced(weight=5, shows="an update of products that leaves its manual (10 kB) unchanged: not sent")
def reprice_product(session: Session) -> None:
    """Prices wander between 4 and 90, so that they stay prices."""
    with session.transaction():
        sku = session.value(
            "SELECT sku FROM products ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED"
        )
        session.claim(f"/products/{sku}/price")
        session.execute(
            "UPDATE products SET price = greatest(4, least(90, price * %s)), updated_at = now()"
            " WHERE sku = %s",
            (session.rng.choice((0.9, 0.95, 1.05, 1.1)), sku),
        )


@paced(weight=0.6, shows="a primary key change, carried on to stock by its foreign key")
def rename_sku(session: Session) -> None:
    """Give a product the suffix -R2, or take it away again."""
    with session.transaction():
        sku = session.value(
            "SELECT sku FROM products ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED"
        )
        session.claim(f"/products/{sku}/rename")
        renamed = sku.removesuffix("-R2") if sku.endswith("-R2") else f"{sku}-R2"
        session.execute("UPDATE products SET sku = %s WHERE sku = %s", (renamed, sku))


@paced(weight=4, shows="an update under FULL: the whole old row is sent")
def count_stock(session: Session) -> None:
    with session.transaction():
        session.claim("/stock/count")
        session.execute(
            "UPDATE stock SET on_hand = %s, counted_on = current_date WHERE (sku, warehouse) ="
            " (SELECT sku, warehouse FROM stock WHERE warehouse = %s"
            "  ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED)",
            (session.rng.randint(60, 400), session.rng.choice(WAREHOUSES)),
        )


@paced(weight=0.8, shows="a delete and an insert under FULL: the whole old row is sent")
def move_shelf(session: Session) -> None:
    """A shelf is cleared and set up again with what lay on it."""
    with session.transaction():
        session.claim("/stock/move")
        session.execute(
            "WITH cleared AS (DELETE FROM stock WHERE (sku, warehouse) ="
            "   (SELECT sku, warehouse FROM stock WHERE warehouse = 'lyon'"
            "    ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED)"
            "   RETURNING sku, warehouse, on_hand)"
            " SELECT sku, warehouse, on_hand FROM cleared"
        ).fetchall()
        session.execute(
            "INSERT INTO stock (sku, warehouse, on_hand)"
            " SELECT sku, 'lyon', %s FROM products p WHERE NOT EXISTS"
            " (SELECT FROM stock s WHERE s.sku = p.sku AND s.warehouse = 'lyon')"
            " ON CONFLICT DO NOTHING",
            (session.rng.randint(60, 400),),
        )

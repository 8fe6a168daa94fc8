"""This module places, pays, ships, delivers and cancels orders."""

import datetime as dt
from typing import LiteralString

from psycopg.types.json import Jsonb

from replview.demo.workload import material
from replview.demo.workload.scenarios import paced
from replview.demo.workload.session import WorkloadSession

#: Random products, which are then sorted, so that two sessions lock stock in the same order.
PICK_GOODS: LiteralString = "SELECT sku, price FROM products ORDER BY random() LIMIT %s"

#: The update that reserves stock, and refills it when it runs low, so that it never runs out.
RESERVE: LiteralString = (
    "UPDATE stock SET reserved = (reserved + %s) %% 60,"
    " on_hand = CASE WHEN on_hand <= reorder_at THEN on_hand + 200 ELSE on_hand - %s END"
    " WHERE sku = %s AND warehouse = %s"
)

OLDEST: LiteralString = (
    "SELECT id, total FROM orders WHERE status = %s ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
)


def any_customer(session: WorkloadSession) -> tuple[str, dict[str, str]]:
    """Return the id and address of a random customer, found by the index."""
    row = session.execute(
        "(SELECT id, address FROM customers WHERE id >= %s ORDER BY id LIMIT 1)"
        " UNION ALL (SELECT id, address FROM customers ORDER BY id LIMIT 1) LIMIT 1",
        (material.random_uuid(session.rng),),
    ).fetchone()
    if row is None:
        raise LookupError("the shop has no customers: run --prepare")
    return row[0], row[1]


def insert_order(session: WorkloadSession, *, channel: str, actor: str, lines: int) -> int:
    """Insert an order with its items, and return its id."""
    rng = session.rng
    customer_id, address = any_customer(session)
    goods = sorted(session.execute(PICK_GOODS, (lines,)).fetchall())
    quantities = [rng.randint(1, 4) for _ in goods]
    total = sum(price * quantity for (_, price), quantity in zip(goods, quantities, strict=True))
    note = rng.choice(session.material.sentences) if rng.random() < 0.4 else None
    order_id: int = session.value(
        "INSERT INTO orders (customer_id, channel, shipping, total, note, updated_by)"
        " VALUES (%s, %s, %s, %s, %s, %s) RETURNING id",
        (customer_id, channel, Jsonb(material.new_shipping(rng, address)), total, note, actor),
    )
    session.execute(
        "INSERT INTO order_items (order_id, line_no, sku, quantity, unit_price)"
        " SELECT %s, * FROM unnest(%s::int[], %s::text[], %s::int[], %s::numeric[])",
        (
            order_id,
            list(range(1, len(goods) + 1)),
            [sku for sku, _ in goods],
            quantities,
            [price for _, price in goods],
        ),
    )
    return order_id


@paced(weight=26, shows="inserts into two tables under DEFAULT, with the actor")
def place_order(session: WorkloadSession) -> None:
    """Place an order."""
    actor = session.claim("/checkout")
    insert_order(session, channel="web", actor=actor, lines=session.rng.randint(1, 4))


@paced(weight=18, shows="update and insert, a FULL update of stock with its old row, mixed")
def pay_order(session: WorkloadSession) -> None:
    """Pay an order; one in four gets an invoice, a large value that later updates do not change."""
    rng = session.rng
    order = session.execute(OLDEST, ("pending",)).fetchone()
    if order is None:
        return
    order_id, total = order
    actor = session.claim(f"/orders/{order_id}/pay")
    invoice = material.invoice_pdf(rng) if rng.random() < 0.25 else None
    session.execute(
        "UPDATE orders SET status = 'paid', paid_at = clock_timestamp(), invoice_pdf = %s,"
        " shipping = jsonb_set(shipping, '{state}', '\"ready\"'), updated_by = %s"
        " WHERE id = %s",
        (invoice, actor, order_id),
    )
    session.execute(
        "INSERT INTO payments (order_id, amount, method, psp_ref) VALUES (%s, %s, %s, %s)",
        (order_id, total, rng.choice(material.METHODS), material.random_uuid(rng)),
    )
    lines = session.execute(
        "SELECT sku, quantity FROM order_items WHERE order_id = %s ORDER BY sku LIMIT 2",
        (order_id,),
    ).fetchall()
    for sku, quantity in lines:
        session.execute(RESERVE, (quantity, quantity, sku, "berlin"))


@paced(weight=12, shows="an update that leaves a large value (the invoice) unchanged: not sent")
def ship_order(session: WorkloadSession) -> None:
    """Ship the oldest paid order."""
    rng = session.rng
    order = session.execute(OLDEST, ("paid",)).fetchone()
    if order is None:
        return
    actor = session.claim(f"/orders/{order[0]}/ship")
    label = {
        "state": "label_bought",
        "eta": str(dt.datetime.now(dt.UTC).date() + dt.timedelta(days=rng.randint(1, 6))),
        "label_id": str(rng.randint(10**19, 10**20 - 1)),
    }
    session.execute(
        "UPDATE orders SET status = 'shipped', shipping = shipping || %s, updated_by = %s"
        " WHERE id = %s",
        (Jsonb(label), actor, order[0]),
    )


@paced(weight=9, shows="a single-row update, sometimes without an actor")
def deliver_order(session: WorkloadSession) -> None:
    """Deliver the oldest shipped order."""
    order = session.execute(OLDEST, ("shipped",)).fetchone()
    if order is None:
        return
    session.claim(f"/orders/{order[0]}/delivered")
    session.execute("UPDATE orders SET status = 'delivered' WHERE id = %s", (order[0],))


@paced(weight=4, shows="deletes under DEFAULT (the key alone is sent) beside an update")
def cancel_order(session: WorkloadSession) -> None:
    """Cancel the oldest pending order."""
    order = session.execute(OLDEST, ("pending",)).fetchone()
    if order is None:
        return
    actor = session.claim(f"/orders/{order[0]}/cancel")
    session.execute("DELETE FROM order_items WHERE order_id = %s", (order[0],))
    session.execute(
        "UPDATE orders SET status = 'cancelled', total = 0, updated_by = %s WHERE id = %s",
        (actor, order[0]),
    )


@paced(weight=2, shows="a part rolled back to a savepoint: its changes never appear")
def place_order_second_try(session: WorkloadSession) -> None:
    """Place an order that is rolled back to a savepoint, then another."""
    actor = session.claim("/checkout")
    with session.transaction(discard=True):
        insert_order(session, channel="app", actor=actor, lines=3)
    insert_order(session, channel="app", actor=actor, lines=2)


@paced(weight=1.5, shows="changes of a composite primary key: old and new key are sent")
def renumber_order_lines(session: WorkloadSession) -> None:
    """Add ten to the line numbers of the last order, or subtract it again."""
    order_id = session.value("SELECT max(order_id) FROM order_items")
    session.claim(f"/orders/{order_id}/lines")
    session.execute(
        "UPDATE order_items SET line_no = line_no + CASE WHEN line_no > 10 THEN -10 ELSE 10 END"
        " WHERE order_id = %s",
        (order_id,),
    )

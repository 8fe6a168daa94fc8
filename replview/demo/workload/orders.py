"""An order placed, paid, shipped, delivered or cancelled; visitors; sales that come from tills."""

import datetime as dt
from typing import LiteralString

from psycopg.types.json import Jsonb

from replview.demo.workload import material
from replview.demo.workload.scenarios import paced
from replview.demo.workload.session import Session

#: Goods chosen at random and sorted, so that two sessions lock stock in the same order.
PICK_GOODS: LiteralString = "SELECT sku, price FROM products ORDER BY random() LIMIT %s"

#: Reserving never empties a shelf: what runs short is topped up in the same update.
RESERVE: LiteralString = (
    "UPDATE stock SET reserved = (reserved + %s) %% 60,"
    " on_hand = CASE WHEN on_hand <= reorder_at THEN on_hand + 200 ELSE on_hand - %s END"
    " WHERE sku = %s AND warehouse = %s"
)

OLDEST: LiteralString = (
    "SELECT id, total FROM orders WHERE status = %s ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
)
PAGES = ("/", "/tea", "/tea/assam", "/mugs", "/pots", "/checkout", "/help/returns", "/offers")
REFERRERS = ("https://search.example/?q=tea", "https://news.example/", None, None)
ORIGINS = ("pos_berlin", "pos_hamburg")
INSERT_PAYMENT: LiteralString = (
    "INSERT INTO payments (order_id, amount, method, psp_ref)"
    " SELECT id, total, %s, %s FROM orders WHERE id = %s"
)
INSERT_RECEIPT: LiteralString = (
    "INSERT INTO receipts (order_id, till, lines, total)"
    " SELECT id, %s, (SELECT array_agg(quantity || ' x ' || sku ORDER BY line_no)"
    "                 FROM order_items WHERE order_id = id), total"
    " FROM orders WHERE id = %s AND EXISTS (SELECT FROM order_items WHERE order_id = id)"
)


def any_customer(session: Session) -> tuple[str, dict[str, str]]:
    """The id and address of some customer, found by the index alone."""
    row = session.execute(
        "(SELECT id, address FROM customers WHERE id >= %s ORDER BY id LIMIT 1)"
        " UNION ALL (SELECT id, address FROM customers ORDER BY id LIMIT 1) LIMIT 1",
        (material.random_uuid(session.rng),),
    ).fetchone()
    if row is None:
        raise LookupError("the shop has no customers: run --prepare")
    return row[0], row[1]


def insert_order(session: Session, *, channel: str, actor: str, lines: int) -> int:
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
def place_order(session: Session) -> None:
    actor = session.claim("/checkout")
    insert_order(session, channel="web", actor=actor, lines=session.rng.randint(1, 4))


@paced(weight=18, shows="update and insert, a FULL update of stock with its old row, mixed")
def pay_order(session: Session) -> None:
    """One order in four gets its invoice now: a large value that later updates leave alone."""
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
def ship_order(session: Session) -> None:
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
def deliver_order(session: Session) -> None:
    order = session.execute(OLDEST, ("shipped",)).fetchone()
    if order is None:
        return
    session.claim(f"/orders/{order[0]}/delivered")
    session.execute("UPDATE orders SET status = 'delivered' WHERE id = %s", (order[0],))


@paced(weight=4, shows="deletes under DEFAULT (the key alone is sent) beside an update")
def cancel_order(session: Session) -> None:
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
def place_order_second_try(session: Session) -> None:
    actor = session.claim("/checkout")
    with session.transaction(discard=True):
        insert_order(session, channel="app", actor=actor, lines=3)
    insert_order(session, channel="app", actor=actor, lines=2)


@paced(weight=1.5, shows="changes of a composite primary key: old and new key are sent")
def renumber_order_lines(session: Session) -> None:
    """Move the lines of a recent order ten up; lines already moved go back down."""
    order_id = session.value("SELECT max(order_id) FROM order_items")
    session.claim(f"/orders/{order_id}/lines")
    session.execute(
        "UPDATE order_items SET line_no = line_no + CASE WHEN line_no > 10 THEN -10 ELSE 10 END"
        " WHERE order_id = %s",
        (order_id,),
    )


@paced(weight=3, shows="an insert of many types: uuid, domain, jsonb, text[], date, inet")
def sign_up(session: Session) -> None:
    """A run repeated with the same seed invents the same customer: no conflict."""
    customer = material.new_customer(session.rng, session.material)
    session.claim("/account/new")
    session.execute(
        "INSERT INTO customers"
        " (id, email, full_name, phone, address, tags, birthday, vip, last_ip) VALUES"
        " (%(id)s, %(email)s, %(full_name)s, %(phone)s, %(address)s, %(tags)s, %(birthday)s,"
        "  %(vip)s, %(last_ip)s) ON CONFLICT DO NOTHING",
        customer | {"address": Jsonb(customer["address"])},
    )


@paced(weight=4, shows="a single-row update under DEFAULT")
def log_in(session: Session) -> None:
    customer_id, _ = any_customer(session)
    session.claim("/login")
    session.execute(
        "UPDATE customers SET last_ip = %s, vip = vip OR %s WHERE id = %s",
        (material.random_ip(session.rng), session.rng.random() < 0.02, customer_id),
    )


@paced(weight=7, shows="an insert under INDEX")
def open_cart(session: Session) -> None:
    session.execute(
        "INSERT INTO carts (token, items) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        (material.random_uuid(session.rng), _cart_items(session)),
    )


@paced(weight=5, shows="an update under INDEX")
def fill_cart(session: Session) -> None:
    customer_id, _ = any_customer(session)
    session.claim("/cart")
    session.execute(
        "UPDATE carts SET items = %s, customer_id = %s, touched_at = now() WHERE id ="
        " (SELECT id FROM carts ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED)",
        (_cart_items(session), customer_id),
    )


@paced(weight=1, shows="a key change under INDEX: the old key's columns are those of the index")
def renew_cart_token(session: Session) -> None:
    session.claim("/login")
    session.execute(
        "UPDATE carts SET token = %s WHERE id ="
        " (SELECT id FROM carts ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED)",
        (material.random_uuid(session.rng),),
    )


@paced(weight=1.5, shows="deletes under INDEX: the index's columns are sent")
def drop_carts(session: Session) -> None:
    session.claim("/jobs/carts", actor="cart sweeper")
    session.execute(
        "DELETE FROM carts WHERE id IN"
        " (SELECT id FROM carts ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)",
        (session.rng.randint(1, 6),),
    )


@paced(weight=8, shows="inserts into a table without a key, without an actor")
def view_pages(session: Session) -> None:
    rng = session.rng
    visitor = material.random_uuid(rng)
    views = rng.randint(1, 3)
    for _ in range(views):
        where = (rng.choice(PAGES), rng.choice(REFERRERS), material.random_ip(rng))
        session.execute(
            "INSERT INTO page_views (visitor, path, referrer, ip, took) VALUES"
            " (%s, %s, %s, %s, %s::float8 * interval '1 ms')",
            (visitor, *where, round(rng.lognormvariate(4, 0.6), 3)),
        )


def _cart_items(session: Session) -> Jsonb:
    rng = session.rng
    many = range(rng.randint(1, 3))
    return Jsonb([{"page": rng.choice(PAGES), "quantity": rng.randint(1, 3)} for _ in many])


# Sales that come from tills with databases of their own: each is a replication origin. A session
# takes on its origin when it connects, and every transaction it then makes carries the origin's
# name, with the position and time it had there. An origin belongs to one session at a time.


def take_on(session: Session, origin: str) -> None:
    """Make this session's transactions come from ``origin``, creating it when it is new.

    Needs a superuser, or EXECUTE on the ``pg_replication_origin_*`` functions.
    """
    session.execute(
        "SELECT pg_replication_origin_create(%(name)s)"
        " WHERE NOT EXISTS (SELECT FROM pg_replication_origin WHERE roname = %(name)s)",
        {"name": origin},
    )
    session.execute("SELECT pg_replication_origin_session_setup(%s)", (origin,))


def _came_from_there(session: Session) -> None:
    """Give the transaction its position and commit time at the origin, a little while ago.

    The position is this server's own: it grows, as the till's would.
    """
    written = dt.datetime.now(dt.UTC) - dt.timedelta(milliseconds=session.rng.randint(30, 400))
    session.execute(
        "SELECT pg_replication_origin_xact_setup(pg_current_wal_insert_lsn(), %s)", (written,)
    )


@paced(session="shop pos", weight=5, shows="a sale from a replication origin")
def sell_at_till(session: Session) -> None:
    rng = session.rng
    _came_from_there(session)
    actor = session.claim("/till/sale")
    order_id = insert_order(session, channel="till", actor=actor, lines=rng.randint(1, 3))
    session.execute(INSERT_PAYMENT, ("card", material.random_uuid(rng), order_id))
    session.execute(INSERT_RECEIPT, (f"till {rng.randint(1, 6)}", order_id))
    session.execute("UPDATE orders SET status = 'delivered' WHERE id = %s", (order_id,))


@paced(session="shop pos", weight=1, shows="a batch from a replication origin, two tables")
def upload_till(session: Session) -> None:
    """A till that was offline sends the payments and receipts it kept."""
    rng = session.rng
    _came_from_there(session)
    session.claim("/till/upload", actor="till uploader")
    recent = session.execute(
        "SELECT id FROM orders ORDER BY id DESC LIMIT %s", (rng.randint(6, 18),)
    ).fetchall()
    for (order_id,) in recent:
        session.execute(INSERT_PAYMENT, ("voucher", material.random_uuid(rng), order_id))
        session.execute(INSERT_RECEIPT, (f"till {rng.randint(1, 6)}", order_id))

"""This module runs visitors, who sign up, log in, fill carts and view pages."""

from psycopg.types.json import Jsonb

from replview.demo.workload import material
from replview.demo.workload.orders import any_customer
from replview.demo.workload.scenarios import paced
from replview.demo.workload.session import WorkloadSession

PAGES = ("/", "/tea", "/tea/assam", "/mugs", "/pots", "/checkout", "/help/returns", "/offers")
REFERRERS = ("https://search.example/?q=tea", "https://news.example/", None, None)


@paced(weight=3, shows="an insert of many types: uuid, domain, jsonb, text[], date, inet")
def sign_up(session: WorkloadSession) -> None:
    """Insert a customer; a seed that was used before gives the same one, which is ignored."""
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
def log_in(session: WorkloadSession) -> None:
    """Update the last address of a customer."""
    customer_id, _ = any_customer(session)
    session.claim("/login")
    session.execute(
        "UPDATE customers SET last_ip = %s, vip = vip OR %s WHERE id = %s",
        (material.random_ip(session.rng), session.rng.random() < 0.02, customer_id),
    )


@paced(weight=7, shows="an insert under INDEX")
def open_cart(session: WorkloadSession) -> None:
    """Insert a cart."""
    session.execute(
        "INSERT INTO carts (token, items) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        (material.random_uuid(session.rng), _cart_items(session)),
    )


@paced(weight=5, shows="an update under INDEX")
def fill_cart(session: WorkloadSession) -> None:
    """Change the items of the newest cart."""
    customer_id, _ = any_customer(session)
    session.claim("/cart")
    session.execute(
        "UPDATE carts SET items = %s, customer_id = %s, touched_at = now() WHERE id ="
        " (SELECT id FROM carts ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED)",
        (_cart_items(session), customer_id),
    )


@paced(weight=1, shows="a key change under INDEX: the old key's columns are those of the index")
def renew_cart_token(session: WorkloadSession) -> None:
    """Change the token of the newest cart, which is its replica identity."""
    session.claim("/login")
    session.execute(
        "UPDATE carts SET token = %s WHERE id ="
        " (SELECT id FROM carts ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED)",
        (material.random_uuid(session.rng),),
    )


@paced(weight=1.5, shows="deletes under INDEX: the index's columns are sent")
def drop_carts(session: WorkloadSession) -> None:
    """Delete up to six of the oldest carts."""
    session.claim("/jobs/carts", actor="cart sweeper")
    session.execute(
        "DELETE FROM carts WHERE id IN"
        " (SELECT id FROM carts ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)",
        (session.rng.randint(1, 6),),
    )


@paced(weight=8, shows="inserts into a table without a key, without an actor")
def view_pages(session: WorkloadSession) -> None:
    """Insert one to three page views."""
    rng = session.rng
    visitor = material.random_uuid(rng)
    views = rng.randint(1, 3)
    for _ in range(views):
        page = (rng.choice(PAGES), rng.choice(REFERRERS), material.random_ip(rng))
        session.execute(
            "INSERT INTO page_views (visitor, path, referrer, ip, took) VALUES"
            " (%s, %s, %s, %s, %s::float8 * interval '1 ms')",
            (visitor, *page, round(rng.lognormvariate(4, 0.6), 3)),
        )


def _cart_items(session: WorkloadSession) -> Jsonb:
    rng = session.rng
    items = range(rng.randint(1, 3))
    return Jsonb([{"page": rng.choice(PAGES), "quantity": rng.randint(1, 3)} for _ in items])

"""This module makes sales from tills with databases of their own: each is a replication origin.

A session sets up its origin when it connects. Each of its transactions then has the origin's name,
and the position and time at the origin. Only one session at a time can use an origin.
"""

import datetime as dt
from typing import LiteralString

from replview.demo.workload import material
from replview.demo.workload.orders import insert_order
from replview.demo.workload.scenarios import paced
from replview.demo.workload.session import WorkloadSession

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


def take_on(session: WorkloadSession, origin: str) -> None:
    """Set up ``origin`` for the transactions of this session, creating it if it is new.

    Needs a superuser, or EXECUTE on the ``pg_replication_origin_*`` functions.
    """
    session.execute(
        "SELECT pg_replication_origin_create(%(name)s)"
        " WHERE NOT EXISTS (SELECT FROM pg_replication_origin WHERE roname = %(name)s)",
        {"name": origin},
    )
    session.execute("SELECT pg_replication_origin_session_setup(%s)", (origin,))


def _came_from_there(session: WorkloadSession) -> None:
    """Give the transaction a position and commit time at the origin, a moment ago.

    The position is that of this server, because it grows as a till's would.
    """
    written = dt.datetime.now(dt.UTC) - dt.timedelta(milliseconds=session.rng.randint(30, 400))
    session.execute(
        "SELECT pg_replication_origin_xact_setup(pg_current_wal_insert_lsn(), %s)", (written,)
    )


@paced(session="shop pos", weight=5, shows="a sale from a replication origin")
def sell_at_till(session: WorkloadSession) -> None:
    """Insert an order with payment and receipt, from an origin."""
    rng = session.rng
    _came_from_there(session)
    actor = session.claim("/till/sale")
    order_id = insert_order(session, channel="till", actor=actor, lines=rng.randint(1, 3))
    session.execute(INSERT_PAYMENT, ("card", material.random_uuid(rng), order_id))
    session.execute(INSERT_RECEIPT, (f"till {rng.randint(1, 6)}", order_id))
    session.execute("UPDATE orders SET status = 'delivered' WHERE id = %s", (order_id,))


@paced(session="shop pos", weight=1, shows="a batch from a replication origin, two tables")
def upload_till(session: WorkloadSession) -> None:
    """Insert the payments and receipts of a till that was offline."""
    rng = session.rng
    _came_from_there(session)
    session.claim("/till/upload", actor="till uploader")
    recent = session.execute(
        "SELECT id FROM orders ORDER BY id DESC LIMIT %s", (rng.randint(6, 18),)
    ).fetchall()
    for (order_id,) in recent:
        session.execute(INSERT_PAYMENT, ("voucher", material.random_uuid(rng), order_id))
        session.execute(INSERT_RECEIPT, (f"till {rng.randint(1, 6)}", order_id))

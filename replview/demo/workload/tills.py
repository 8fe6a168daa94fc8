"""Sales that come from tills with databases of their own: each is a replication origin.

A session takes on its origin when it connects, and every transaction it then makes carries the
origin's name, with the position and time it had there. An origin belongs to one session at a time.
"""

import datetime as dt
from typing import LiteralString

from replview.demo.workload import material
from replview.demo.workload.orders import insert_order
from replview.demo.workload.scenarios import paced
from replview.demo.workload.session import Session

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

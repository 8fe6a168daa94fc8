"""This module changes products, prices, stock, notes and sensor readings, and sends messages."""

import json

from replview.demo.workload.material import WAREHOUSES
from replview.demo.workload.scenarios import paced
from replview.demo.workload.session import WorkloadSession

INSERT_NOTE = "INSERT INTO audit_notes (subject, author, body) VALUES (%s, %s, %s)"


@paced(weight=4, shows="an insert under FULL, one in five with a large text")
def write_note(session: WorkloadSession) -> None:
    """Insert a note, mostly short."""
    rng = session.rng
    length = rng.randint(8_500, 11_000) if rng.random() < 0.2 else rng.randint(40, 300)
    body = session.material.words(rng, at_least=length)
    actor = session.claim("/notes/new")
    session.execute(INSERT_NOTE, (f"order {rng.randint(1, 900)}", actor, body))


@paced(weight=1, shows="under FULL, a large text unchanged: the old row carries it, the new not")
def resolve_long_note(session: WorkloadSession) -> None:
    """Update a long note without changing its text; insert one if there is none."""
    note_id = session.value(
        "SELECT id FROM audit_notes WHERE length(body) > 8000"
        " ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED"
    )
    actor = session.claim(f"/notes/{note_id or 'new'}")
    if note_id is None:
        body = session.material.words(session.rng, at_least=9_000)
        session.execute(INSERT_NOTE, ("stock", actor, body))
    else:
        session.execute("UPDATE audit_notes SET resolved = NOT resolved WHERE id = %s", (note_id,))


@paced(weight=1, shows="a delete under FULL: the whole old row is sent")
def delete_note(session: WorkloadSession) -> None:
    """Delete the oldest note."""
    session.claim("/notes/delete")
    session.execute(
        "DELETE FROM audit_notes WHERE id ="
        " (SELECT id FROM audit_notes ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
    )


@paced(weight=4, shows="inserts in a second schema, into a table under NOTHING")
def read_sensors(session: WorkloadSession) -> None:
    """Insert readings of one to three sensors."""
    rng = session.rng
    for device in rng.sample(range(16), rng.randint(1, 3)):
        session.execute(
            "INSERT INTO warehouse.sensor_readings (device, celsius, humidity, door_open)"
            " VALUES (%s, %s, %s, %s)",
            (
                f"08:00:2b:01:02:{device:02x}",
                round(rng.gauss(18, 2), 2),
                round(rng.uniform(30, 60), 1) if rng.random() < 0.9 else None,
                rng.random() < 0.1,
            ),
        )


@paced(weight=1, shows="a transaction that is a message and nothing else")
def announce(session: WorkloadSession) -> None:
    """Emit a message in a transaction without a change."""
    session.claim("/announcements", actor=session.rng.choice(("alice", "emil")))


@paced(weight=0.6, discard=True, shows="a message outside any transaction: it survives a rollback")
def open_till(session: WorkloadSession) -> None:
    """Emit a message outside the transaction, which is then rolled back."""
    content = json.dumps({"till": f"berlin-{session.rng.randint(1, 6)}", "event": "drawer opened"})
    session.execute("SELECT pg_logical_emit_message(false, 'till', %s)", (content,))


@paced(weight=5, shows="an update of products that leaves its manual (10 kB) unchanged: not sent")
def reprice_product(session: WorkloadSession) -> None:
    """Change a price, within 4 and 90."""
    sku = session.value("SELECT sku FROM products ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED")
    session.claim(f"/products/{sku}/price")
    session.execute(
        "UPDATE products SET price = greatest(4, least(90, price * %s)), updated_at = now()"
        " WHERE sku = %s",
        (session.rng.choice((0.9, 0.95, 1.05, 1.1)), sku),
    )


@paced(weight=0.6, shows="a primary key change, carried on to stock by its foreign key")
def rename_sku(session: WorkloadSession) -> None:
    """Add the suffix -R2 to the SKU of a product, or remove it."""
    sku = session.value("SELECT sku FROM products ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED")
    session.claim(f"/products/{sku}/rename")
    renamed = sku.removesuffix("-R2") if sku.endswith("-R2") else f"{sku}-R2"
    session.execute("UPDATE products SET sku = %s WHERE sku = %s", (renamed, sku))


@paced(weight=4, shows="an update under FULL: the whole old row is sent")
def count_stock(session: WorkloadSession) -> None:
    """Set the stock of one product in a warehouse."""
    session.claim("/stock/count")
    session.execute(
        "UPDATE stock SET on_hand = %s, counted_on = current_date WHERE (sku, warehouse) ="
        " (SELECT sku, warehouse FROM stock WHERE warehouse = %s"
        "  ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED)",
        (session.rng.randint(60, 400), session.rng.choice(WAREHOUSES)),
    )


@paced(weight=0.8, shows="a delete and an insert under FULL: the whole old row is sent")
def move_shelf(session: WorkloadSession) -> None:
    """Delete a shelf in Lyon, and insert all shelves that are missing there."""
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

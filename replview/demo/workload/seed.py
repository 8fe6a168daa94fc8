"""This module creates the first rows of the shop; ``prepare`` may be called at every start."""

import random
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from replview.demo.workload import two_phase
from replview.demo.workload.material import (
    ACTORS,
    CURRENCIES,
    METHODS,
    REGIONS,
    WAREHOUSES,
    Material,
    invent,
    invoice_pdf,
    new_customer,
    new_shipping,
    random_uuid,
)
from replview.demo.workload.schema import ADVISORY_LOCK, create_schema, is_prepared

CUSTOMERS = 300
ORDERS = 700
CARTS = 60
NOTES = 40
PRICES = 20_000

GOODS = (
    ("MUG-350", "Mug 350 ml", 12), ("TEA-ASM", "Assam tea", 9), ("TEA-SEN", "Sencha tea", 11),
    ("POT-900", "Teapot 900 ml", 39), ("CUP-080", "Espresso cup", 8), ("KET-170", "Kettle", 59),
    ("TIN-250", "Tea tin", 14), ("SPN-SLV", "Tea spoon", 6), ("MIL-HND", "Hand mill", 45),
    ("FIL-100", "Paper filters", 4), ("DRP-V02", "Dripper", 19), ("SCL-300", "Scale", 28),
)  # fmt: skip
VARIANTS = (("BL", "blue"), ("GR", "green"), ("WH", "white"), ("RD", "red"), ("BK", "black"))


def prepare(conn: psycopg.Connection, *, seed: int = 1) -> bool:
    """Create the shop if it does not exist, clean up, and return whether it was created.

    A second call only rolls back prepared transactions of an earlier run, unless a running workload
    still knows them. The connection must be in autocommit mode.
    """
    with conn.transaction():
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (ADVISORY_LOCK + 1,))
        created = not is_prepared(conn)
        if created:
            create_schema(conn)
            _fill(conn, random.Random(seed), invent(seed))
    two_phase.resolve_left_over_if_alone(conn)
    return created


def _fill(conn: psycopg.Connection, rng: random.Random, material: Material) -> None:
    _fill_customers(conn, rng, material)
    _fill_products(conn, rng, material)
    _fill_orders(conn, rng, material)
    carts = ((random_uuid(rng), "TEA10" if number % 5 == 0 else None) for number in range(CARTS))
    _copy(conn, "carts", ("token", "coupon"), carts)
    _fill_notes(conn, rng, material)
    conn.execute(
        "INSERT INTO price_list (id, sku, region, currency, price, margin)"
        " SELECT n, (%s::text[])[1 + n %% %s], (%s::text[])[1 + n %% 5], (%s::text[])[1 + n %% 5],"
        "        round((4 + n %% 97 + (n %% 10) * 0.09)::numeric, 2), 0.2 + (n %% 30) / 100.0"
        " FROM generate_series(1, %s) n",
        (_skus(), len(_skus()), list(REGIONS), list(CURRENCIES), PRICES),
    )


def _skus() -> list[str]:
    return [f"{code}-{variant}" for code, _, _ in GOODS for variant, _ in VARIANTS]


def _fill_customers(conn: psycopg.Connection, rng: random.Random, material: Material) -> None:
    columns = (
        "id", "email", "full_name", "phone", "address", "tags", "birthday", "vip", "last_ip",
    )  # fmt: skip
    customers = (new_customer(rng, material) for _ in range(CUSTOMERS))
    rows = (
        tuple({**customer, "address": Jsonb(customer["address"])}.values())
        for customer in customers
    )
    _copy(conn, "customers", columns, rows)


def _fill_products(conn: psycopg.Connection, rng: random.Random, material: Material) -> None:
    rows = []
    for (code, name, price), (variant, colour) in product(GOODS, VARIANTS):
        attributes = Jsonb({"colour": colour, "grams": rng.randint(40, 1500)})
        manual = material.words(rng, at_least=rng.randint(9_000, 13_000))
        sku, title = f"{code}-{variant}", f"{name}, {colour}"
        rows.append((sku, title, f"{price}.90", attributes, rng.randbytes(90), manual))
    columns = ("sku", "name", "price", "attributes", "thumbnail", "manual")
    _copy(conn, "products", columns, rows)
    conn.execute(
        "INSERT INTO stock (sku, warehouse, on_hand, reserved)"
        " SELECT sku, warehouse, 150 + (random() * 200)::int, 0"
        " FROM products, unnest(%s::text[]) warehouse",
        (list(WAREHOUSES),),
    )


def _fill_orders(conn: psycopg.Connection, rng: random.Random, material: Material) -> None:
    """Create orders in every state, each with two items, and a payment if it is paid.

    One in three has an invoice, so that shipping it leaves a large value unchanged.
    """
    shipping = new_shipping(rng, material.people[0].address)
    conn.execute(
        "INSERT INTO orders (customer_id, status, channel, shipping, total, paid_at,"
        " invoice_pdf, updated_by)"
        " SELECT (array_agg(c.id ORDER BY c.id))[1 + n %% count(*)],"
        "        (enum_range(NULL::order_status))[1 + n %% 6],"
        "        'web', %s, 20 + n %% 80, CASE WHEN n %% 6 > 0 THEN now() END,"
        "        CASE WHEN n %% 3 = 1 THEN %s END, 'seed'"
        " FROM generate_series(1, %s) n, customers c GROUP BY n ORDER BY n",
        (Jsonb(shipping), invoice_pdf(rng), ORDERS),
    )
    conn.execute(
        "INSERT INTO order_items (order_id, line_no, sku, quantity, unit_price)"
        " SELECT o.id, line, (%s::text[])[1 + (o.id * 7 + line) %% %s], 1 + o.id %% 3, 12.90"
        " FROM orders o, generate_series(1, 2) line",
        (_skus(), len(_skus())),
    )
    paid = conn.execute("SELECT id, total FROM orders WHERE paid_at IS NOT NULL").fetchall()
    rows = ((order_id, total, rng.choice(METHODS), random_uuid(rng)) for order_id, total in paid)
    _copy(conn, "payments", ("order_id", "amount", "method", "psp_ref"), rows)


def _fill_notes(conn: psycopg.Connection, rng: random.Random, material: Material) -> None:
    """Create notes, of which one in four is large."""
    rows = []
    for number in range(NOTES):
        body = material.words(rng, at_least=9_000 if number % 4 == 0 else 60)
        rows.append((f"order {number}", rng.choice(ACTORS), body))
    _copy(conn, "audit_notes", ("subject", "author", "body"), rows)


def _copy(
    conn: psycopg.Connection, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with conn.cursor().copy(statement) as copy:
        for row in rows:
            copy.write_row(row)

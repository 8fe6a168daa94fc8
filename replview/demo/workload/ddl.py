"""This module changes the schema now and then, in cycles that return to their first state.

The state of a cycle is read from the catalog, so that a restart continues there. A table never has
a replica identity without a usable key, so that no UPDATE of an application fails.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import LiteralString

import psycopg

from replview.demo.workload.scenarios import timed
from replview.demo.workload.session import WorkloadSession

#: Number of column numbers above which a cycle no longer adds columns: a dropped column keeps its
#: number, and a table has 1,600. At a step a minute this takes some weeks.
MOST_COLUMN_NUMBERS = 800

STATE: LiteralString = (
    "SELECT CASE WHEN %(column)s::text IS NULL THEN CASE relreplident"
    "   WHEN 'd' THEN 'DEFAULT' WHEN 'i' THEN 'INDEX' WHEN 'f' THEN 'FULL' ELSE 'NOTHING' END"
    " ELSE coalesce((SELECT attname || ' ' || format_type(atttypid, NULL) FROM pg_attribute"
    "   WHERE attrelid = c.oid AND attname ~ %(column)s AND NOT attisdropped), 'absent') END"
    " FROM pg_class c WHERE c.oid = %(table)s::regclass"
)


@dataclass(frozen=True, kw_only=True)
class Cycle:
    """The states of one table, and the statement that leads from each state to the next."""

    table: str
    #: A pattern for the column that changes; None: the replica identity changes.
    column: str | None
    steps: Mapping[str, LiteralString]
    #: A statement that changes some rows after each step, so that the new shape is sent at once.
    touch: LiteralString
    adds_columns: bool = False

    def state(self, conn: psycopg.Connection) -> str:
        """Return the state of the cycle, such as ``newsletter boolean``, ``absent`` or ``FULL``."""
        row = conn.execute(STATE, {"table": self.table, "column": self.column}).fetchone()
        return "gone" if row is None else str(row[0])


TOUCH_CARTS: LiteralString = (
    "UPDATE carts SET touched_at = now() WHERE id IN (SELECT id FROM carts ORDER BY id LIMIT 2)"
)

CYCLES = (
    Cycle(
        table="customers",
        column="^(newsletter|marketing_opt_in)$",
        steps={
            "absent": "ALTER TABLE customers ADD newsletter boolean NOT NULL DEFAULT false",
            "newsletter boolean": "ALTER TABLE customers RENAME newsletter TO marketing_opt_in",
            "marketing_opt_in boolean": "ALTER TABLE customers"
            " ALTER marketing_opt_in DROP DEFAULT,"
            " ALTER marketing_opt_in TYPE text USING CASE WHEN marketing_opt_in THEN 'yes'"
            " ELSE 'no' END, ALTER marketing_opt_in SET DEFAULT 'no'",
            "marketing_opt_in text": "ALTER TABLE customers DROP marketing_opt_in",
        },
        touch="UPDATE customers SET vip = NOT vip"
        " WHERE id IN (SELECT id FROM customers ORDER BY id LIMIT 3)",
        adds_columns=True,
    ),
    Cycle(
        table="products",
        column=None,
        steps={
            "DEFAULT": "ALTER TABLE products REPLICA IDENTITY FULL",
            "FULL": "ALTER TABLE products REPLICA IDENTITY DEFAULT",
        },
        touch="UPDATE products SET updated_at = now()"
        " WHERE sku IN (SELECT sku FROM products ORDER BY sku LIMIT 2)",
    ),
    Cycle(
        table="stock",
        column="^reorder_at$",
        steps={
            "reorder_at integer": "ALTER TABLE stock ALTER reorder_at TYPE bigint",
            "reorder_at bigint": "ALTER TABLE stock ALTER reorder_at TYPE integer",
        },
        touch="UPDATE stock SET counted_on = current_date WHERE (sku, warehouse) IN"
        " (SELECT sku, warehouse FROM stock ORDER BY sku, warehouse LIMIT 2)",
    ),
    Cycle(
        table="carts",
        column=None,
        steps={
            "INDEX": "ALTER TABLE carts REPLICA IDENTITY DEFAULT",
            "DEFAULT": "ALTER TABLE carts REPLICA IDENTITY USING INDEX carts_token",
        },
        touch=TOUCH_CARTS,
    ),
    Cycle(
        table="carts",
        column="^(coupon|voucher)$",
        steps={
            "coupon text": "ALTER TABLE carts RENAME coupon TO voucher",
            "voucher text": "ALTER TABLE carts RENAME voucher TO coupon",
        },
        touch=TOUCH_CARTS,
    ),
)


def take_step(session: WorkloadSession, cycle: Cycle) -> bool:
    """Take the cycle's next step; return False if the state has none.

    If somebody changed the table by hand, it is left as it is.
    """
    state = cycle.state(session.conn)
    step = cycle.steps.get(state)
    numbers = "SELECT relnatts FROM pg_class WHERE oid = %s::regclass"
    adds = state == "absent" and cycle.adds_columns
    if step is None or (adds and session.value(numbers, (cycle.table,)) > MOST_COLUMN_NUMBERS):
        return False
    with session.transaction():
        session.claim(f"/migrations/{cycle.table}", actor="migrations")
        session.execute(step)
        session.execute(cycle.touch)
    session.tally.add("schema changes")
    return True


@timed(
    session="shop migrate",
    every_seconds=55,
    shows="add, rename, retype and drop a column, change a replica identity: one at a time",
)
def change_schema(session: WorkloadSession) -> None:
    """Take a step of a random cycle; cycles with more steps are taken more often."""
    weights = [len(cycle.steps) for cycle in CYCLES]
    take_step(session, session.rng.choices(CYCLES, weights)[0])

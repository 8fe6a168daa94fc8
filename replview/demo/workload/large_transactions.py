"""This module runs large transactions, which are streamed while open, and the stock import.

A reprice runs for many seconds in pieces, so that its growth is visible. The server streams it once
its changes exceed ``logical_decoding_work_mem``. Two sessions run reprices, so that one is open
about half of the time. Together they change some 200 rows a second; more would be most of what the
store has to keep.
"""

from replview.demo.workload.material import WAREHOUSES
from replview.demo.workload.scenarios import timed
from replview.demo.workload.seed import PRICES
from replview.demo.workload.session import WorkloadSession

#: Rows that a piece changes; a few pieces together exceed 64 kB of decoded changes.
PIECE_ROWS = 40
#: Mean seconds between two pieces: about 260 rows a second.
PIECE_SECONDS = 0.15
IMPORT_LINES = 240
_COPY_STOCK = "COPY stock_import (line_no, sku, warehouse, counted, counted_at) FROM STDIN"


def _reprice(session: WorkloadSession, *, discard: bool, slips: bool) -> None:
    """Update the price list in pieces; ``slips`` rolls three pieces back to a savepoint, twice."""
    rng = session.rng
    pieces = rng.randint(40, 140)
    start = rng.randrange(PRICES)
    slip_at = {pieces // 4, pieces // 2} if slips else set()
    with session.transaction(discard=discard):
        session.claim("/jobs/prices", actor="price engine")
        for number in range(pieces):
            if number in slip_at:
                with session.transaction(discard=True):
                    for offset in range(3):
                        _reprice_piece(session, start + (number + offset) * PIECE_ROWS)
            _reprice_piece(session, start + number * PIECE_ROWS)


def _reprice_piece(session: WorkloadSession, first: int) -> None:
    """Update a piece, without rows that another reprice has locked, so that neither waits."""
    first = 1 + first % PRICES
    session.execute(
        "UPDATE price_list SET updated_at = clock_timestamp(),"
        " price = greatest(1, least(200, price * %s)) WHERE id IN"
        " (SELECT id FROM price_list WHERE id BETWEEN %s AND %s FOR UPDATE SKIP LOCKED)",
        (session.rng.choice((0.97, 0.99, 1.01, 1.03)), first, first + PIECE_ROWS - 1),
    )
    session.pause(PIECE_SECONDS * session.rng.uniform(0.6, 1.4))


@timed(session="shop batch", every_seconds=150, shows="streamed while open, then committed")
def reprice_region(session: WorkloadSession) -> None:
    """Run a large transaction that commits."""
    _reprice(session, discard=False, slips=False)
    session.tally.add("large committed")


@timed(
    session="shop batch",
    every_seconds=210,
    shows="streamed, with parts rolled back to savepoints after they were sent",
)
def reprice_with_second_thoughts(session: WorkloadSession) -> None:
    """Run a large transaction that rolls back to savepoints and commits."""
    _reprice(session, discard=False, slips=True)
    session.tally.add("large committed")


@timed(session="shop batch", every_seconds=270, shows="streamed, then wholly rolled back: aborted")
def reprice_in_vain(session: WorkloadSession) -> None:
    """Run a large transaction that rolls back."""
    _reprice(session, discard=True, slips=True)
    session.tally.add("large rolled back")


@timed(session="shop import", every_seconds=40, shows="a truncate, then a refill by COPY")
def import_stock(session: WorkloadSession) -> None:
    """Truncate the import table and fill it by COPY."""
    rng = session.rng
    with session.transaction():
        session.claim("/jobs/stock-import", actor="stock import")
        skus = [sku for (sku,) in session.execute("SELECT sku FROM products").fetchall()]
        session.execute("TRUNCATE stock_import")
        with session.conn.cursor().copy(_COPY_STOCK) as copy:
            for line in range(1, IMPORT_LINES + 1):
                counted = rng.randint(0, 400)
                copy.write_row((line, rng.choice(skus), rng.choice(WAREHOUSES), counted, "now"))

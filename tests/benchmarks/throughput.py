"""Stored changes a second against ``pg_recvlogical`` to /dev/null, on the same WAL.

All indexes and features of replview's are on, its slots are sampled and alerts judged meanwhile.
Its rate is rows divided by the time from the start of the stream to the last commit in the store;
``pg_recvlogical``'s by the time the program runs.
"""

from functools import partial

from tests.benchmarks.bench_servers import bench
from tests.benchmarks.pairs import Pairs, in_turn
from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result
from tests.benchmarks.stack import sampling

PAIRS = 3
#: Single-row streams differ more from run to run: the median of more.
SINGLE_ROW_PAIRS = 5


def measure(rows: int, rows_per_transaction: int, pairs: int) -> Pairs:
    """Rows a second of each pair: replview with everything on, and ``pg_recvlogical``."""
    found = []
    with bench() as servers, sampling(servers):
        for number in range(pairs):
            ours, theirs = f"ours_{number}", f"theirs_{number}"
            with servers.slots(ours, theirs):
                end_lsn = servers.load(rows, rows_per_transaction)
                seconds = in_turn(
                    number,
                    partial(servers.stored_seconds, ours, end_lsn),
                    partial(servers.recvlogical_seconds, theirs, end_lsn),
                )
            found.append([rows / taken for taken in seconds])
        if servers.store_row("SELECT 1 FROM slot_sample LIMIT 1") is None:
            raise Failed("nothing was sampled meanwhile")
    return Pairs([pair[0] for pair in found], [pair[1] for pair in found])


def hundred_rows(*, quick: bool) -> list[Result]:
    """A hundred rows a transaction."""
    return [_result(measure(200_000 if quick else 1_000_000, 100, PAIRS), "100 rows", 0.5)]


def one_row(*, quick: bool) -> list[Result]:
    """One row a transaction."""
    pairs = measure(60_000, 1, PAIRS) if quick else measure(200_000, 1, SINGLE_ROW_PAIRS)
    return [_result(pairs, "1 row", 0.4)]


def _result(pairs: Pairs, size: str, bar: float) -> Result:
    detail = f"{pairs.our_median:,.0f} of {pairs.their_median:,.0f} changes/s; pairs {pairs.each}"
    what = f"stored / pg_recvlogical, {size} a transaction"
    return Result.at_least(what, pairs.ratio, bar, detail=detail)

"""The receiver's memory through one very large transaction, streamed while in progress and not."""

import time

from tests.benchmarks.bench_servers import Bench, bench
from tests.benchmarks.processes import peak_rss_bytes
from tests.benchmarks.report import Result

BAR_BYTES = 150_000_000
_OPTIONS = {"streamed": {}, "not streamed": {"streaming": "off"}}


def one_large_transaction(*, quick: bool) -> list[Result]:
    """Peak resident memory of a receiver's process: Python, Django and psycopg included."""
    rows = 600_000 if quick else 2_000_000
    with bench() as servers:
        slots = {how: how.replace(" ", "_") for how in _OPTIONS}
        with servers.slots(*slots.values()):
            end_lsn = servers.load(rows, rows)
            return [_result(servers, how, slots[how], rows, end_lsn) for how in _OPTIONS]


def _result(servers: Bench, how: str, slot: str, rows: int, end_lsn: str) -> Result:
    started = time.monotonic()
    with servers.receiver(slot, _OPTIONS[how]) as process:
        servers.wait_stored(process, slot, end_lsn)
        peak_bytes = peak_rss_bytes(process)
    seconds = time.monotonic() - started
    inserts, streamed = _stored(servers, slot)
    detail = f"{inserts:,} rows stored in {seconds:.0f} s"
    result = Result.at_most(
        f"receiver's peak memory, one transaction of {rows:,} rows, {how}",
        peak_bytes / 1e6, BAR_BYTES / 1e6, detail=detail, unit=" MB",
    )  # fmt: skip
    if inserts != rows or streamed != (how == "streamed"):
        return result.spoilt(f"stored {inserts:,} rows, streamed: {streamed}")
    return result


def _stored(servers: Bench, slot: str) -> tuple[int, bool]:
    """Rows of the slot's largest transaction, and whether it came while in progress."""
    row = servers.store_row(
        """
        SELECT t.inserts, t.streamed FROM transaction t
        JOIN slot s ON s.incarnation_id = t.incarnation_id
        WHERE s.name = %s AND t.state = 'committed' ORDER BY t.inserts DESC LIMIT 1
        """,
        slot,
    )
    return (int(str(row[0])), bool(row[1])) if row else (0, False)

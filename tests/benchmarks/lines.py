"""Lines a second of ``replview changes``, against ``psql`` copying the same rows to /dev/null.

Both read the whole record of one slot, start of the process included; which of them goes first
alternates. It is looked at that the command wrote a line for every change.
"""

import time

from replview.runtime.servers.server_programs import pg_bin
from tests.benchmarks.bench_servers import Bench, bench
from tests.benchmarks.pairs import Pairs, in_turn
from tests.benchmarks.processes import Failed, module, run
from tests.benchmarks.report import Result

PAIRS = 5
SLOT = "written"
#: The limits as shares of the rate of ``psql``: in all, and without the time in which the command
#: starts.
BAR, BAR_LINES = 0.2, 0.3
_COPY = """
    COPY (SELECT t.*, c.* FROM transaction t JOIN change c ON c.transaction_id = t.id
          ORDER BY t.commit_seq, c.seq) TO STDOUT
"""


def changes_command(*, quick: bool) -> list[Result]:
    """A hundred rows a transaction, inserts of eight columns."""
    rows = 100_000 if quick else 400_000
    found, starts = [], []
    with bench() as servers, servers.slots(SLOT):
        servers.stored_seconds(SLOT, servers.load(rows, 100))
        for number in range(3 if quick else PAIRS):
            ours, theirs = in_turn(
                number,
                lambda: _ours(servers, rows),
                lambda: _seconds(servers, str(pg_bin(18) / "psql"), "-X", "-d",
                                 servers.store.dsn("replview"), "-o", "/dev/null", "-c", _COPY),
            )  # fmt: skip
            found.append((ours, theirs))
            starts.append(_seconds(servers, *_command(1)))
    start = min(starts)
    results = []
    for what, bar, spent in (
        ("whole", BAR, 0.0), ("without its start", BAR_LINES, start)
    ):  # fmt: skip
        speeds = Pairs([rows / (ours - spent) for ours, _ in found], [rows / t for _, t in found])
        detail = (f"{speeds.our_median:,.0f} of {speeds.their_median:,.0f} lines/s, start "
                  f"{start:.2f} s; pairs {speeds.each}")  # fmt: skip
        about = f"lines of replview changes / rows of psql COPY, {what}"
        results.append(Result.at_least(about, speeds.ratio, bar, detail=detail))
    return results


def _command(limit: int | None = None, output: str = "/dev/null") -> list[str]:
    limited = ["--limit", str(limit)] if limit else []
    return module("django", "changes", "--slot", SLOT, "--output", output, *limited)


def _ours(servers: Bench, rows: int) -> float:
    file = servers.folder / "lines.jsonl"
    seconds = _seconds(servers, *_command(output=str(file)))
    with file.open("rb") as written:
        lines = sum(1 for _ in written)
    # With each load comes the table's TRUNCATE.
    if lines < rows:
        raise Failed(f"the command wrote {lines:,} lines of {rows:,}")
    return seconds


def _seconds(servers: Bench, *argv: str) -> float:
    started = time.monotonic()
    run(argv, servers.environment, servers.folder / "lines.log")
    return time.monotonic() - started

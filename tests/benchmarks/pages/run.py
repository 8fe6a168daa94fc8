"""Asks for every kind and tells what it cost. Needs Django to be set up."""

import resource
import time
from collections.abc import Callable, Iterator

from django.db import connection

from tests.benchmarks.pages.asked import Kind
from tests.benchmarks.pages.draws import Draws
from tests.benchmarks.pages.kinds import all_kinds
from tests.benchmarks.pages.measuring import Asker, Cost, Measured, Refused, server_cpu_seconds
from tests.benchmarks.pages.reads import all_reads
from tests.benchmarks.pages.reference import Reference
from tests.benchmarks.pages.scale import Scale
from tests.benchmarks.report import Result

Say = Callable[[str], None]
_REFERENCES = 5


def roll_up(say: Say) -> Iterator[Result]:
    """Sum the record up, as the beat's task does; what a transaction costs it."""
    from replview.store.models import HistoryBlock
    from replview.store.sums.activity import roll

    before, started = HistoryBlock.objects.count(), time.monotonic()
    ours = resource.getrusage(resource.RUSAGE_SELF)
    server = server_cpu_seconds()
    while roll(time.monotonic() + 60):
        say(f"  summed up to {HistoryBlock.objects.count():,} blocks")
    rolled = HistoryBlock.objects.count() - before
    if not rolled:
        return
    now = resource.getrusage(resource.RUSAGE_SELF)
    cpu = now.ru_utime + now.ru_stime - ours.ru_utime - ours.ru_stime
    backend = (server_cpu_seconds() or 0) - (server or 0)
    each_us = (cpu + backend) / rolled * 1000
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) history_block, relation_activity, actor_activity")
    yield Result.at_most(
        "summing up, CPU a transaction",
        each_us,
        1000,
        unit=" µs",
        detail=f"{rolled:,} blocks in {time.monotonic() - started:.0f} s; "
        f"ours {cpu:.0f} s, the server's {backend:.0f} s",
    )


def measure(scale: Scale, requests: int, only: list[str], say: Say) -> list[Result]:
    """Every kind, and before and after each the reference."""
    from replview.ui.serving import spare_what_stays

    # A web process does the same when it starts.
    spare_what_stays()
    draws, asker, reference = Draws(scale), Asker(), Reference()
    reference.cost()
    references = Measured()
    results = []

    def refer() -> float:
        costs = [reference.cost() for _ in range(_REFERENCES)]
        references.costs += costs
        return min(cost.ms for cost in costs)

    for kind in all_kinds():
        if only and not any(word in kind.name for word in only):
            continue
        before = refer()
        measured = _ask(kind, draws, asker, requests)
        results.append(_result(kind.name, measured, kind, (before + refer()) / 2))
        say(f"  {results[-1]}")
        if not measured.problem:
            worst = measured.worst
            say(f"      slowest: {worst.address}")
            say(f"      {worst.slowest_ms:.0f} ms: {worst.slowest[:200]}")
    for name, bar_ms, read in all_reads():
        if only and not any(word in name for word in only):
            continue
        results.append(_read_result(name, bar_ms, read(draws, requests), refer()))
        say(f"  {results[-1]}")
    p50, p95 = references.at(0.5), references.at(0.95)
    cpu = references.at(0.5, lambda cost: cost.cpu_ms or 0.0)
    words = f"p50 {p50:.1f}, p95 {p95:.1f} ms, CPU p50 {cpu:.1f}"
    results.append(Result("reference: 50 rows by key, a template", words, "", ok=True))
    return results


def _ask(kind: Kind, draws: Draws, asker: Asker, requests: int) -> Measured:
    try:
        addresses = kind.addresses(draws, asker, requests)
    except Refused as problem:
        return Measured(problem=str(problem))
    except Exception as error:  # a page that is not there yet has no address
        return Measured(problem=f"{type(error).__name__}: {error}")
    return asker.measure(addresses)


def _result(name: str, measured: Measured, kind: Kind, reference_ms: float) -> Result:
    most = kind.bar_queries
    bar = f"p95 ≤ {kind.bar_ms:.0f} ms" + (f", ≤ {most} queries" if most else "")
    if measured.problem:
        return Result(name, f"not measured: {measured.problem}", bar, ok=False)
    p95 = measured.at(0.95)
    ok = p95 <= kind.bar_ms and (most is None or measured.queries <= most)
    return Result(name, f"{_words(measured, reference_ms)}, {measured.queries} queries", bar, ok)


def _read_result(name: str, bar_ms: float, measured: Measured, reference_ms: float) -> Result:
    """Return the result of a read without its page, judged by its time in the database."""
    bar = f"database p95 ≤ {bar_ms:.0f} ms"
    if measured.problem:
        return Result(name, f"not measured: {measured.problem}", bar, ok=False)
    ok = measured.at(0.95, _database) <= bar_ms
    return Result(name, f"{_words(measured, reference_ms)}, {measured.queries} queries", bar, ok)


def _database(cost: Cost) -> float:
    return cost.database_ms


def _words(measured: Measured, reference_ms: float) -> str:
    p50, p95, longest = (measured.at(share) for share in (0.5, 0.95, 1.0))
    database = measured.at(0.95, _database)
    cpu = measured.at(0.95, lambda cost: cost.cpu_ms or 0.0)
    return (
        f"p50 {p50:.0f}, p95 {p95:.0f}, max {longest:.0f} ms (database p95 {database:.0f}, "
        f"CPU p95 {cpu:.0f}); {p95 / reference_ms:.1f} × reference"
    )

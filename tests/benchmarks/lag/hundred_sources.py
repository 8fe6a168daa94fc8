"""A hundred sources of ten slots, looked at every five seconds by one worker: does it keep up?

And how long it then takes from a sample to an open page's chart, while all that goes on.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.benchmarks.lag.extension import sample_to_chart
from tests.benchmarks.lag.instance import Instance, instance, server_cpu_seconds
from tests.benchmarks.lag.many_sources import LOGICAL_EACH, ManySources, many_sources
from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result

SLOTS_EACH = 10
EVERY_SECONDS = 5
#: The least share of the looks that fit into the time, for the worst source.
KEPT = 0.95
#: In shares of one core.
CPU_BAR = 1.0
_SETTLE_SECONDS = 15
#: The wait until each source was looked at once; it is not measured.
_FIRST_SECONDS = 240.0


def hundred_sources(*, quick: bool) -> list[Result]:
    """The share of samples that are there, the worker's CPU, and the way to a chart."""
    count, seconds = (20, 30) if quick else (100, 60)
    with many_sources(count, SLOTS_EACH) as many, _watched(many) as replview:
        replview.start_sampling()
        every = f"SELECT count(DISTINCT slot_id) >= {count * SLOTS_EACH} FROM slot_sample"
        replview.wait_for(
            lambda: replview.rows(every)[0][0], "tasks", "sampled not every slot", _FIRST_SECONDS
        )
        time.sleep(_SETTLE_SECONDS)
        kept = _kept(replview, many, seconds)
        try:
            replview.start_web()
            return kept + sample_to_chart(replview, many, seconds=seconds // 2)
        except Failed as problem:
            return [*kept, Result("sample to chart", f"not measured: {problem}", "", ok=False)]


@contextmanager
def _watched(many: ManySources) -> Iterator[Instance]:
    """An instance that knows the sources."""
    with instance() as replview:
        known = [(name, many.dsn(name), f"{name}_l0") for name in many.names]
        replview.environment["BENCH_SOURCES"] = json.dumps(known)
        replview.client("tests.benchmarks.lag.register_sources")
        yield replview


def _kept(replview: Instance, many: ManySources, seconds: int) -> list[Result]:
    """Sample for so long, and count."""
    servers = (replview.store, many.server)
    [[began]] = replview.rows("SELECT clock_timestamp()")
    before = [replview.cpu_seconds("tasks"), *map(server_cpu_seconds, servers)]
    started = time.monotonic()
    while (left := started + seconds - time.monotonic()) > 0:
        many.write_some_wal()
        time.sleep(min(1.0, max(left, 0)))
    lasted = time.monotonic() - started
    after = [replview.cpu_seconds("tasks"), *map(server_cpu_seconds, servers)]
    ours, stores, theirs = ((then - now) / lasted for now, then in zip(before, after, strict=True))
    samples, worst, latest = _counted(replview, began, lasted)
    slots = len(many.names) * SLOTS_EACH
    expected = lasted / EVERY_SECONDS
    what = (
        f"{len(many.names)} sources × {SLOTS_EACH} slots ({LOGICAL_EACH} logical) every "
        f"{EVERY_SECONDS} s for {lasted:.0f} s"
    )
    detail = (
        f"{samples:,} samples, {samples / slots / expected:.0%} of all; the worst slot "
        f"{worst} of {expected:.0f}, longest pause {latest:.1f} s"
    )
    cost = f"the store {stores:.2f}, the {len(many.names)} sources {theirs:.2f}"
    return [
        # A minute may hold one look less than it is long: it began between two.
        Result.at_least(f"{what}: of the worst", (worst + 1) / expected, KEPT, detail=detail),
        Result(
            f"{what}: cores the worker took", f"{ours:.2f} ({cost})", f"≤ {CPU_BAR:g}",
            ours <= CPU_BAR,
        ),
    ]  # fmt: skip


def _counted(replview: Instance, began: object, lasted: float) -> tuple[int, int, float]:
    """Samples in the time, those of the slot with the fewest, and the longest pause of any."""
    [[samples, worst, pause]] = replview.rows(
        """
        WITH looked AS (
            SELECT slot_id, sampled_at,
                   sampled_at - lag(sampled_at) OVER (PARTITION BY slot_id ORDER BY sampled_at)
                     AS pause
              FROM slot_sample
             WHERE sampled_at >= %s AND sampled_at < %s + make_interval(secs => %s)
        ), counted AS (
            SELECT w.id, count(l.slot_id) AS found, max(l.pause) AS pause
              FROM watched_slot AS w LEFT JOIN looked AS l ON l.slot_id = w.id GROUP BY w.id
        )
        SELECT sum(found)::int, min(found)::int, coalesce(extract(epoch FROM max(pause)), 0)::float8
          FROM counted
        """,
        began,
        began,
        lasted,
    )
    return int(str(samples or 0)), int(str(worst or 0)), float(str(pause))

"""Rolls up samples of many slots and evaluates alerts over them: what each costs.

Usage: ``python -m tests.benchmarks.lag.thousand_client SOURCES SLOTS_EACH MINUTES EVALUATIONS``;
prints seconds of CPU, of this process and of its session's server process, as JSON.
"""

import datetime as dt
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import django

_LIMIT_BYTES = 64_000_000_000
#: The number of slots in ten that nobody reads: they alert, and go on alerting.
_INACTIVE_OF_TEN = 1
_EVERY = dt.timedelta(seconds=5)
#: One run of the beat's task may last so long; all of it runs here.
_ROLL_SECONDS = 30.0


def make_slots(sources: int, each: int, now: dt.datetime) -> list[int]:
    """The sources and the slots last seen on them, none of them replview's."""
    from replview.store import models

    models.Source.objects.bulk_create(
        models.Source(
            name=f"s{number:03}", conninfo="", checked_at=now, server_version=180004,
            max_slot_wal_keep_bytes=_LIMIT_BYTES,
        )
        for number in range(sources)
    )  # fmt: skip
    made = []
    looks = []
    for source in models.Source.objects.order_by("pk"):
        looks.append(
            models.SourceLook(source=source, looked_at=now, prepared=[], running=[], holders={})
        )
        made += [_slot(source, number, now) for number in range(each)]
    models.SourceLook.objects.bulk_create(looks)
    models.WatchedSlot.objects.bulk_create(made)
    return [slot.pk for slot in made]


def _slot(source: Any, number: int, now: dt.datetime) -> Any:
    from replview.store import models

    active = number % 10 >= _INACTIVE_OF_TEN
    retained = (number + 1) * 1_000_000_000
    facts = {
        "slot_name": f"slot_{number}", "slot_type": "logical", "plugin": "pgoutput",
        "database": "shop", "temporary": False, "active": active, "active_pid": 4711,
        "wal_status": "reserved", "invalidation_reason": None, "failover": False, "synced": False,
        "restart_lsn": "1/5E000028", "confirmed_flush_lsn": "1/5E000060",
        "safe_wal_size": _LIMIT_BYTES - retained, "retained_wal_bytes": retained,
        "unconfirmed_wal_bytes": retained // 3, "replay_lag_seconds": 0.4 if active else None,
    }  # fmt: skip
    return models.WatchedSlot(
        id=1_000_000 + source.pk * 1000 + number, source=source, name=f"slot_{number}",
        plugin="pgoutput", database="shop", last_seen_at=now, facts=facts,
        inactive_since=None if active else now - dt.timedelta(hours=1),
    )  # fmt: skip


def cost(work: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds of this process, and of its session's server process."""
    from django.db import connection

    from tests.benchmarks.pages.measuring import server_cpu_seconds

    connection.ensure_connection()
    ours, servers = time.process_time(), server_cpu_seconds()
    work()
    then = server_cpu_seconds()
    return time.process_time() - ours, (then or 0.0) - (servers or 0.0)


def roll_up() -> dict[str, float]:
    """Sum up all that is there, then once more with nothing new."""
    from django.db import connection

    from replview.features.sampling.rollups import roll

    def count() -> tuple[int, int]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*), count(DISTINCT sampled_at) FROM slot_sample_minute")
            rows, minutes = cursor.fetchone()
            return int(rows), int(minutes)

    def all_of_it() -> None:
        before = -1
        while (rows := count()[0]) != before:
            before = rows
            roll(time.monotonic() + _ROLL_SECONDS)

    ours, servers = cost(all_of_it)
    rows, minutes = count()
    idle = sum(cost(lambda: roll(time.monotonic() + _ROLL_SECONDS)))
    return {"ours": ours, "servers": servers, "rows": rows, "minutes": minutes, "idle": idle}


def evaluations(now: dt.datetime, times: int) -> dict[str, Any]:
    """Evaluate the alerts ``times`` times, as if five seconds apart; the first run creates them."""
    from replview.features.alerts.evaluation import evaluate
    from replview.store.models import Alert
    from tests.benchmarks.pages.measuring import Cost, read_cost

    costs: list[Cost] = []
    for number in range(times):
        moment = now + number * _EVERY
        costs.append(read_cost(lambda moment=moment: evaluate(moment)))  # type: ignore[misc]
    return {
        "cpu_ms": [one.cpu_ms or 0.0 for one in costs],
        "ms": [one.ms for one in costs],
        "queries": max(one.queries for one in costs[1:]),
        "slowest": max(costs[1:], key=lambda one: one.slowest_ms).slowest[:200],
        "alerts": Alert.objects.filter(state__in=["pending", "firing"]).count(),
    }


def main(sources: int, each: int, minutes: int, times: int) -> None:
    """Fill, evaluate, roll up, print."""
    from tests.benchmarks.lag.year_filling import fill_raw

    now = dt.datetime.now(dt.UTC)
    slots = make_slots(sources, each, now)
    samples = fill_raw(slots, now, dt.timedelta(minutes=minutes))
    found: dict[str, Any] = {"slots": len(slots), "samples": samples}
    for name, work in (
        ("evaluations", lambda: evaluations(now, times)),
        ("roll_up", roll_up),
    ):
        try:
            found[name] = work()
        except Exception as problem:  # the other one can still be measured
            found[name] = f"{type(problem).__name__}: {problem}"
    print(json.dumps(found))


if __name__ == "__main__":
    django.setup()
    main(*map(int, sys.argv[1:5]))

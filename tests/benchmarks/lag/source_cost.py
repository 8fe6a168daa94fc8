"""Measures what sampling every five seconds costs an otherwise idle source.

``pg_stat_database.active_time`` is how long the sessions of a database were active, and only
replview's are there. Two databases are measured: one sampled by a role in pg_monitor, one by a
role without any rights.
"""

import json
import time

import psycopg

from replview.runtime.servers.postgres import EmbeddedPostgres
from tests.benchmarks.lag.instance import Instance, instance
from tests.benchmarks.report import Result

#: In percent of one core.
BAR_PERCENT = 0.2
SLOTS = 10
#: The number of tables in each database; all are published.
TABLES = 5000
_COLUMNS = ", ".join(f"c{n} text" for n in range(9))
#: From another database, that its sessions do not count; their own end is told within a second.
_ACTIVE = "SELECT active_time FROM pg_stat_database WHERE datname = %s"
_DATABASES = {"monitored": "a role of pg_monitor", "plain": "a role without rights"}
_PASSWORD = "bench-looks"
#: Sessions are opened, first statements are planned.
_SETTLE_SECONDS = 12


def cost_to_the_source(*, quick: bool) -> list[Result]:
    """Return a result for each database: the active time of its sessions in percent of a core."""
    seconds = 20 if quick else 65
    with EmbeddedPostgres.temporary() as source, instance() as replview:
        _prepare(source)
        known = [(name, source.dsn(name, name, _PASSWORD), f"{name}_l0") for name in _DATABASES]
        replview.environment["BENCH_SOURCES"] = json.dumps(known)
        replview.client("tests.benchmarks.lag.register_sources")
        replview.start_sampling()
        replview.wait_for(lambda: _looks(replview)[1], "tasks", "stored no sample of both")
        time.sleep(_SETTLE_SECONDS)
        before, (earlier, _) = _active_ms(source), _looks(replview)
        started = time.monotonic()
        time.sleep(seconds)
        lasted = time.monotonic() - started
        after, (later, _) = _active_ms(source), _looks(replview)
    looks = (later - earlier) / len(_DATABASES)
    return [_result(name, after[name] - before[name], looks, lasted) for name in _DATABASES]


def _result(name: str, active_ms: float, looks: float, lasted: float) -> Result:
    percent = active_ms / lasted / 10
    each = f"{active_ms / looks:.1f} ms a look" if looks else "no look"
    return Result(
        f"cost to a source with {SLOTS} slots and {TABLES:,} tables, {_DATABASES[name]}",
        f"{percent:.3f} % of a core ({each}, {looks:.0f} looks in {lasted:.0f} s)",
        f"≤ {BAR_PERCENT:g} %",
        0 < percent <= BAR_PERCENT and looks >= 0.9 * (lasted / 5 - 1),
    )


def _prepare(source: EmbeddedPostgres) -> None:
    with psycopg.connect(source.dsn(), autocommit=True) as connection:
        for name in _DATABASES:
            connection.execute(f"CREATE DATABASE {name}")
            connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{_PASSWORD}'")
        connection.execute("GRANT pg_monitor TO monitored")
        connection.execute(
            "SELECT count(pg_create_physical_replication_slot('p' || n, true))"
            " FROM generate_series(1, %s) AS n",
            [SLOTS - len(_DATABASES)],
        )
    for name in _DATABASES:
        with psycopg.connect(source.dsn(name), autocommit=True) as connection:
            connection.execute(
                f"SELECT pg_create_logical_replication_slot('{name}_l0', 'pgoutput')"
            )
            for first in range(0, TABLES, 100):
                connection.execute(
                    "; ".join(
                        f"CREATE TABLE t{n} (id int PRIMARY KEY, {_COLUMNS})"
                        for n in range(first, first + 100)
                    )
                )
            connection.execute("CREATE PUBLICATION bench FOR ALL TABLES")


def _active_ms(source: EmbeddedPostgres) -> dict[str, float]:
    with psycopg.connect(source.dsn(), autocommit=True) as connection:
        found = {}
        for name in _DATABASES:
            row = connection.execute(_ACTIVE, [name]).fetchone()
            assert row is not None
            found[name] = float(row[0])
        return found


def _looks(replview: Instance) -> tuple[int, bool]:
    """Return how often replview's own slots were sampled, and whether both were."""
    [[samples, slots]] = replview.rows(
        "SELECT count(*)::int, count(DISTINCT slot_id)::int FROM slot_sample"
        " WHERE slot_id IN (SELECT id FROM slot)"
    )
    return int(str(samples)), slots == len(_DATABASES)

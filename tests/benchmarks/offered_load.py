"""Transactions offered to the source at a rate, by pgbench: one inserted row each."""

import re
from dataclasses import dataclass

from replview.runtime.servers.server_programs import pg_bin
from tests.benchmarks.bench_servers import Bench
from tests.benchmarks.processes import Failed, run

_SCRIPT = r"""
\set customer random(1, 10000)
INSERT INTO measured VALUES (nextval('measured_id'), :customer, 17, 3, 19.25, 'pending', now(),
    'a short note of the row');
"""
_CLIENTS = 4


@dataclass(frozen=True, slots=True)
class Offered:
    """The number of transactions pgbench ran, and its rate."""

    transactions: int
    per_second: float


def prepare(servers: Bench) -> None:
    """Create the sequence that the pgbench transactions use on the source."""
    servers.on_source("CREATE SEQUENCE IF NOT EXISTS measured_id CACHE 100")


def offer(servers: Bench, per_second: int, seconds: int) -> Offered:
    """Commit transactions at that rate, at random moments as independent users would."""
    script = servers.folder / "offered.sql"
    script.write_text(_SCRIPT)
    argv = [str(pg_bin(18) / "pgbench"), "--no-vacuum", "--protocol=prepared", "-f", str(script)]
    argv += ["-R", str(per_second), "-c", str(_CLIENTS), "-j", "1", "-T", str(seconds)]
    said = run([*argv, servers.source.dsn("bench")], servers.environment,
               servers.folder / "pgbench.log")  # fmt: skip
    done = re.search(r"actually processed: (\d+)", said)
    rate = re.search(r"^tps = ([\d.]+)", said, re.MULTILINE)
    if not done or not rate:
        raise Failed(f"pgbench said something else: {said[-300:]}")
    return Offered(int(done[1]), float(rate[1]))

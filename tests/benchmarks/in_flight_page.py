"""The in-flight page while 1,000 prepared transactions wait: how long the server takes for it.

Measured through Django's client in a process of its own: routing, middleware, session, queries,
template; not the network, not the browser.
"""

import json
import os
import secrets
import tempfile
from pathlib import Path

from replview.runtime.servers.postgres import EmbeddedPostgres
from tests.benchmarks.bench_servers import STORE
from tests.benchmarks.processes import module, run
from tests.benchmarks.report import Result

WAITING = 1000
BAR_MS = 200


def thousand_prepared(*, quick: bool) -> list[Result]:
    """The median: of the whole page, of it with a drawer, and of the part that is renewed."""
    requests = 20 if quick else 100
    with (
        tempfile.TemporaryDirectory(prefix="replview-bench-") as folder,
        EmbeddedPostgres.temporary(settings=STORE) as store,
    ):
        store.create_database("replview")
        environment = {
            **os.environ,
            "REPLVIEW_STORE_URL": store.dsn("replview"),
            "REPLVIEW_DATA": folder,
            "REPLVIEW_SECRET_KEY": secrets.token_urlsafe(24),
            "REPLVIEW_LOG_LEVEL": "WARNING",
            "DJANGO_SETTINGS_MODULE": "replview.settings",
        }
        run(module("django", "migrate", "-v", "0"), environment, Path(folder, "migrate.log"))
        client = module("tests.benchmarks.in_flight_client", str(WAITING), str(requests))
        said = run(client, environment, Path(folder, "client.log"))
    measured: dict[str, list[float]] = json.loads(said.strip().splitlines()[-1])
    return [_result(what, times_ms) for what, times_ms in measured.items()]


def _result(what: str, times_ms: list[float]) -> Result:
    ordered = sorted(times_ms)
    p50, p95 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.95))
    detail = f"p95 {p95:.0f} ms, slowest {ordered[-1]:.0f} ms of {len(ordered)}"
    name = f"in-flight page, {WAITING:,} prepared waiting, {what}"
    return Result.at_most(name, p50, BAR_MS, detail=detail, unit=" ms")

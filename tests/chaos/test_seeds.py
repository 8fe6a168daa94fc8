"""Two short seeds of the chaos test; ``make chaos`` runs twenty long ones."""

import os
import subprocess
import sys

import pytest

from tests.chaos.servers import ROOT
from tests.support.source_databases import VERSIONS

pytestmark = pytest.mark.slow
#: Servers, workers, two faults and the comparison take about 40 s where nothing else runs.
_LIMIT_SECONDS = 300


@pytest.mark.parametrize(
    ("seed", "interface", "source_version"),
    # With versions named, a seed on each.
    [pytest.param(n, ("walsender", "sql")[n % 2], n, id=str(n)) for n in VERSIONS]
    or [
        pytest.param(1, "walsender", 18, id="1"),
        pytest.param(4, "sql", 16, id="4", marks=pytest.mark.long),
    ],
    indirect=["source_version"],
)
def test_the_record_is_true_through_faults(seed: int, interface: str, source_version: int) -> None:
    command = ["-m", "tests.chaos", "--seed", str(seed), "--interface", interface]
    options = [
        "--version",
        str(source_version),
        "--hits",
        "2",
        "--seconds",
        "15",
        "--workers",
        "bare",
    ]

    # A test of the web server before this one may have switched the pool on in this process: its
    # connections outlive the restarts of the store.
    environment = {**os.environ, "REPLVIEW_DB_POOL": "0"}
    with subprocess.Popen(
        [sys.executable, *command, *options],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            said, _ = run.communicate(timeout=_LIMIT_SECONDS)
        except BaseException:
            run.terminate()  # it takes its servers along
            run.wait(60)
            raise

    assert run.returncode == 0, said

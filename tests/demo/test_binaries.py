"""Finding the servers' programs, and saying so where there are none."""

import pytest

from replview.runtime.machine import StackProblem
from replview.runtime.servers import server_programs
from replview.runtime.servers.server_programs import pg_bin, redis_server


@pytest.mark.parametrize("version", [16, 18])
def test_the_wheel_brings_what_the_demo_and_the_benchmarks_run(version: int) -> None:
    for name in ("postgres", "initdb", "pg_ctl", "pgbench", "pg_recvlogical"):
        assert (pg_bin(version) / name).exists()


def test_a_missing_wheel_is_one_line_with_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_programs, "find_spec", lambda package: None)
    for find in (pg_bin, redis_server):
        with pytest.raises(StackProblem, match=r"no wheel for .*pip install .*replview up") as told:
            find()
        assert "\n" not in str(told.value)


def test_a_version_that_is_nowhere_is_refused() -> None:
    with pytest.raises(StackProblem, match=r"no PostgreSQL 9 .*apt-get install postgresql-15"):
        pg_bin(9)

"""The shop as a process: it keeps its rate, stops at once, outlives the server's restart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psycopg
import pytest

from replview.demo.workload.__main__ import SOURCE_URL
from replview.demo.workload.runner import Workload, cast
from replview.demo.workload.seed import prepare
from replview.demo.workload.session import Outage
from replview.runtime.servers.postgres import EmbeddedPostgres
from tests.support.copied_clusters import copied
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with copied(settings={"logical_decoding_work_mem": "64kB"}) as server:
        server.create_database("shop")
        server.create_database("empty")
        with psycopg.connect(server.dsn("shop"), autocommit=True) as conn:
            prepare(conn)
        yield server


def command(dsn: str | None, *arguments: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != SOURCE_URL}
    return subprocess.Popen(
        [sys.executable, "-m", "replview.demo.workload", *arguments],
        env=environment | ({SOURCE_URL: dsn} if dsn else {}),
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until_open(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert "the shop is open" in process.stderr.readline()


def committed(workload: Workload) -> int:
    return workload.tally.counts()["committed"]


def sessions_of_the_shop(conn: psycopg.Connection) -> list[str]:
    names = conn.execute(
        "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'shop %'"
    )
    return [name for (name,) in names]


def waiting_for_locks(conn: psycopg.Connection) -> bool:
    waiting = conn.execute(
        "SELECT FROM pg_stat_activity WHERE application_name LIKE 'shop %' "
        "AND wait_event_type = 'Lock'"
    )
    return waiting.fetchone() is not None


@pytest.mark.parametrize("rate", [0.5, 20, 500])
def test_the_roles_share_the_rate(rate: float) -> None:
    assert sum(role.rate or 0 for role in cast(rate)) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("database", "arguments", "code", "says"),
    [
        (None, [], 2, f"{SOURCE_URL} is not set"),
        ("empty", [], 1, "run with --prepare first"),
        ("shop", ["--prepare"], 0, "the shop was there already"),
        ("nowhere", ["--prepare"], 1, 'database "nowhere" does not exist'),
    ],
)
def test_the_command_says_what_is_the_matter_in_one_line(
    server: EmbeddedPostgres, database: str | None, arguments: list[str], code: int, says: str
) -> None:
    process = command(database and server.dsn(database), *arguments)
    _, said = process.communicate(timeout=30)

    assert process.returncode == code
    assert says in said
    assert len(said.splitlines()) == 1
    assert server.password not in said


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_even_while_it_waits_for_locks(
    server: EmbeddedPostgres, number: signal.Signals
) -> None:
    process = command(server.dsn("shop"), "--rate", "50", "--calm-seconds", "0")
    wait_until_open(process)
    with psycopg.connect(server.dsn("shop")) as blocker:
        blocker.execute("LOCK TABLE orders, price_list IN ACCESS EXCLUSIVE MODE")
        wait_for(lambda: waiting_for_locks(blocker))
        process.send_signal(number)
        # The locks are held until it has stopped.
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "the shop is closed" in said
    with psycopg.connect(server.dsn("shop")) as conn:
        assert sessions_of_the_shop(conn) == []


@pytest.mark.slow
def test_a_second_workload_on_the_same_database_does_not_start(server: EmbeddedPostgres) -> None:
    first = command(server.dsn("shop"))
    wait_until_open(first)
    second = command(server.dsn("shop"))
    _, said = second.communicate(timeout=30)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=30)

    assert second.returncode == 1
    assert "another demo workload is running" in said


@pytest.mark.slow
@pytest.mark.parametrize("rate", [20, pytest.param(300, marks=pytest.mark.long)])
def test_it_keeps_near_the_rate(server: EmbeddedPostgres, rate: float) -> None:
    workload = Workload(server.dsn("shop"), rate=rate, seed=5, calm_seconds=0)
    workload.start()
    time.sleep(2)
    before = committed(workload)
    time.sleep(6)
    reached = (committed(workload) - before) / 6
    with psycopg.connect(server.dsn("shop")) as conn:
        names = set(sessions_of_the_shop(conn))

    assert workload.stop()
    assert 0.4 * rate < reached < 1.8 * rate
    assert {"shop web", "shop pos", "shop batch", "shop settle", "shop migrate"} <= names


@pytest.mark.slow
def test_a_table_altered_by_hand_does_not_stop_the_rest(
    server: EmbeddedPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    server.create_database("altered")
    with psycopg.connect(server.dsn("altered"), autocommit=True) as conn:
        prepare(conn)
        conn.execute("DROP TABLE page_views; DELETE FROM stock; DELETE FROM products")
    workload = Workload(server.dsn("altered"), rate=60, seed=2, calm_seconds=0)
    workload.start()
    wait_for(lambda: workload.tally.counts()["given up"] and committed(workload) > 60)

    assert workload.stop()
    said = [record.getMessage() for record in caplog.records]
    assert any('relation "page_views" does not exist' in line for line in said)
    assert all("\n" not in line for line in said)


@pytest.mark.slow
def test_stopping_leaves_nothing_prepared(server: EmbeddedPostgres) -> None:
    workload = Workload(server.dsn("shop"), rate=5, seed=1, calm_seconds=0)
    workload.start()
    wait_for(lambda: workload.tally.counts()["prepared"])

    assert workload.stop()
    with psycopg.connect(server.dsn("shop")) as conn:
        assert conn.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []


def test_an_outage_is_said_once_though_an_idle_session_sees_it_late(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage, lost = Outage(), psycopg.errors.AdminShutdown("terminating connection")
    began = time.monotonic()
    with caplog.at_level("INFO", "replview.demo.workload"):
        outage.failed("shop web", lost, began)
        outage.over(time.monotonic())
        outage.failed("shop janitor", lost, began)
        assert len(caplog.records) == 2
        outage.failed("shop web", lost, time.monotonic())

    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


@pytest.mark.slow
def test_it_goes_on_after_the_server_restarted(
    server: EmbeddedPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    workload = Workload(server.dsn("shop"), rate=40, calm_seconds=0)
    with caplog.at_level("INFO", "replview.demo.workload"):
        workload.start()
        wait_for(lambda: committed(workload) > 20)
        server.stop()
        wait_for(lambda: "not reachable" in caplog.text)
        server.start()
        before = committed(workload)
        wait_for(lambda: committed(workload) >= before + 100)

    assert workload.stop()
    said = [record.message for record in caplog.records]
    assert sum("not reachable" in line for line in said) <= 3
    assert any("reached again" in line for line in said)
    assert all("\n" not in line for line in said)

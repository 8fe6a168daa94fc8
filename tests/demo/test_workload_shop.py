"""The shop's workload stays sound for weeks: preparing, left-overs, cycles, bounds."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest

from replview.demo.workload import ddl, janitor, orders, two_phase
from replview.demo.workload.material import invent
from replview.demo.workload.schema import ADVISORY_LOCK, TABLES, NotOurDatabase
from replview.demo.workload.seed import prepare
from replview.demo.workload.session import Stopping, WorkloadCounts, WorkloadSession, minute_line
from replview.runtime.servers.postgres import EmbeddedPostgres
from tests.support.copied_clusters import copied

pytestmark = pytest.mark.slow

CATALOG = """
SELECT oid, relfilenode, relreplident, relnatts FROM pg_class
WHERE relnamespace::regnamespace::text IN ('public', 'warehouse') ORDER BY oid
"""


def whole_database(conn: psycopg.Connection) -> list[object]:
    """The catalog's rows and the number of rows in each table."""
    counts = [conn.execute(f"SELECT count(*) FROM {table}").fetchall() for table in TABLES]
    return [conn.execute(CATALOG).fetchall(), counts]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with copied() as server:
        server.create_database("shop")
        with psycopg.connect(server.dsn("shop"), autocommit=True) as conn:
            prepare(conn)
        yield server


@pytest.fixture
def conn(server: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn("shop"), autocommit=True) as conn:
        yield conn


@pytest.fixture
def session(conn: psycopg.Connection) -> WorkloadSession:
    return WorkloadSession(
        conn,
        rng=random.Random(7),
        material=invent(7),
        tally=WorkloadCounts(),
        stop=threading.Event(),
        hurry=True,
    )


def test_preparing_again_changes_nothing(conn: psycopg.Connection) -> None:
    before = whole_database(conn)

    assert prepare(conn) is False
    assert whole_database(conn) == before


@pytest.mark.parametrize("theirs", ["CREATE TABLE orders (id int)", "CREATE SCHEMA warehouse"])
def test_a_database_that_is_not_ours_is_refused(server: EmbeddedPostgres, theirs: str) -> None:
    name = "theirs_" + theirs.split()[1].lower()
    server.create_database(name)
    with psycopg.connect(server.dsn(name), autocommit=True) as conn:
        conn.execute(theirs)
        with pytest.raises(NotOurDatabase):
            prepare(conn)
        assert conn.execute("SELECT to_regclass('customers')").fetchone() == (None,)


def test_left_over_prepared_transactions_are_resolved(session: WorkloadSession) -> None:
    two_phase.prepare_settlement(session, payments=5)
    two_phase.prepare_settlement(session, payments=5)
    session.execute("BEGIN")
    session.execute("UPDATE customers SET vip = vip")
    session.execute("PREPARE TRANSACTION 'someone elses'")

    prepare(session.conn)

    left = session.execute("SELECT gid FROM pg_prepared_xacts").fetchall()
    session.execute("ROLLBACK PREPARED 'someone elses'")
    assert left == [("someone elses",)]


def test_a_running_workload_keeps_its_prepared_transactions(
    session: WorkloadSession, server: EmbeddedPostgres
) -> None:
    gid = two_phase.prepare_settlement(session, payments=5)
    with psycopg.connect(server.dsn("shop"), autocommit=True) as running:
        running.execute("SELECT pg_advisory_lock(%s)", (ADVISORY_LOCK,))
        assert two_phase.resolve_left_over_if_alone(session.conn) is None
    assert [prepared.gid for prepared in two_phase.read_prepared(session.conn)] == [gid]
    two_phase.finish(session.conn, gid, commit=True)


def test_at_most_three_are_prepared_at_once(session: WorkloadSession) -> None:
    for _ in range(6):
        two_phase.settle_payments(session)

    assert len(two_phase.read_prepared(session.conn)) == 3
    assert two_phase.resolve_left_over(session.conn) == 3


def test_a_prepared_transaction_is_due_after_ten_to_sixty_seconds() -> None:
    for number in range(50):
        young = two_phase.OwnPrepared("pos_settle_20261120_07", str(number), 9.9)
        old = two_phase.OwnPrepared("pos_settle_20261120_07", str(number), 60.1)
        assert (young.due, old.due) == (False, True)


@pytest.mark.parametrize("cycle", ddl.CYCLES, ids=lambda cycle: f"{cycle.table} {cycle.column}")
def test_a_schema_cycle_returns_to_its_beginning(
    session: WorkloadSession, cycle: ddl.Cycle
) -> None:
    seen = []
    for _ in cycle.steps:
        seen.append(cycle.state(session.conn))
        assert ddl.take_step(session, cycle)

    assert sorted(seen) == sorted(cycle.steps)
    assert cycle.state(session.conn) == seen[0]


def test_a_worn_out_table_gets_no_more_columns(
    session: WorkloadSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ddl, "MOST_COLUMN_NUMBERS", 5)

    assert not ddl.take_step(session, ddl.CYCLES[0])


def test_a_schema_change_gives_up_on_a_locked_table(
    session: WorkloadSession, server: EmbeddedPostgres
) -> None:
    session.execute("SET lock_timeout = '100ms'")
    with psycopg.connect(server.dsn("shop")) as other:
        other.execute("LOCK TABLE customers IN ROW EXCLUSIVE MODE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            ddl.take_step(session, ddl.CYCLES[0])
    assert ddl.CYCLES[0].state(session.conn) == "absent"


def test_the_janitor_keeps_tables_bounded(
    session: WorkloadSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(janitor.KEEP, "orders", 100)
    monkeypatch.setattr(janitor, "KEEP_CUSTOMERS", 200)
    monkeypatch.setattr(janitor, "EMPTY_ABOVE_BYTES", 0)
    session.execute("INSERT INTO page_views SELECT gen_random_uuid(), '/', '', '::1', '1s'")

    janitor.clean_up(session)

    assert session.value("SELECT count(*) FROM orders") <= 100
    assert session.value("SELECT count(*) FROM order_items") <= 200
    assert session.value("SELECT count(*) FROM customers") <= 200
    janitor.empty_large(session, above_bytes=0)
    assert session.value("SELECT count(*) FROM page_views") == 0


def test_a_pause_ends_when_the_workload_stops(session: WorkloadSession) -> None:
    session.hurry = False
    threading.Timer(0.05, session.stop.set).start()

    with pytest.raises(Stopping):
        session.pause(30)


def test_the_same_seed_invents_the_same_people() -> None:
    assert invent(3) == invent(3)
    assert invent(3) != invent(4)


def test_stock_never_runs_out(session: WorkloadSession) -> None:
    for _ in range(400):
        session.execute(orders.RESERVE, (4, 4, "MUG-350-BL", "berlin"))

    on_hand, reserved = session.execute(
        "SELECT on_hand, reserved FROM stock WHERE (sku, warehouse) = ('MUG-350-BL', 'berlin')"
    ).fetchall()[0]
    assert 0 < on_hand < 1_000
    assert 0 <= reserved < 60


def test_the_minute_is_told_in_plain_words() -> None:
    counts = Counter({"committed": 1190, "rolled back": 10, "prepared": 4, "given up": 0})

    assert minute_line(counts - Counter(), 60) == (
        "20.0 transactions a second: committed 1190, rolled back 10, prepared 4"
    )

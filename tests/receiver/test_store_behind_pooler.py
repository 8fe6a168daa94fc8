"""The store behind a real PgBouncer: session pooling serves, any other is refused at the start."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.db import connections

from replview.management.commands.up import check_store
from replview.runtime.machine import StackProblem
from replview.store.connecting import connect_store
from tests.support.copied_clusters import STORE
from tests.support.pooler import pooler
from tests.support.source_databases import SourceDatabase

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

#: Connects as the web server does, with its pool, its limit and a lock of its own, and checks that
#: all is migrated.
WEB = """
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from replview.store.connecting import alone
call_command("migrate", check_unapplied=True, verbosity=0)
with connection.cursor() as cursor, alone(4711) as mine:
    print(mine, cursor.execute("SHOW statement_timeout").fetchone()[0])
"""


@pytest.fixture
def store(store_cluster) -> SourceDatabase:
    return SourceDatabase(store_cluster, STORE)


@pytest.fixture
def pooled(
    transactional_db: None, store: SourceDatabase, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of session pooling, where this process finds the store, too."""
    with pooler(store, mode="session", pool_size=40) as dsn:
        parts = urlsplit(dsn)
        address = {"HOST": "127.0.0.1", "PORT": str(parts.port), "PASSWORD": parts.password}
        for name, value in address.items():
            monkeypatch.setitem(connections["default"].settings_dict, name, value)
        yield dsn
        connections.close_all()  # what comes next goes to the store itself


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_shares_sessions_is_refused_at_the_start(
    store: SourceDatabase, mode: str
) -> None:
    with (
        pooler(store, mode=mode) as dsn,
        pytest.raises(StackProblem, match="a pooler in front of the store") as raised,
    ):
        check_store(dsn)
    assert "pool_mode = session" in raised.value.remedy


@pytest.mark.parametrize(("mode", "told"), [("transaction", 1), ("session", 0)])
def test_the_doctor_tells_of_it_too(
    transactional_db: None, store: SourceDatabase, source: SourceDatabase, settings, capsys,
    monkeypatch: pytest.MonkeyPatch, mode: str, told: int,
) -> None:  # fmt: skip
    settings.STORE_URL = "postgresql://the-test-store/"
    with pooler(store, mode=mode) as dsn:
        parts = urlsplit(dsn)
        address = {"HOST": "127.0.0.1", "PORT": str(parts.port), "PASSWORD": parts.password}
        for name, value in address.items():
            monkeypatch.setitem(connections["default"].settings_dict, name, value)
        connections.close_all()
        with suppress(SystemExit):
            call_command("doctor", source.dsn)
        connections.close_all()
    out = capsys.readouterr().out
    assert out.count("problem  a pooler in front of the store") == told
    assert out.count("pool_mode = session") == told


def test_a_receiver_stores_through_session_pooling(pooled: str, source, record) -> None:
    check_store(pooled)
    with connect_store("a test") as session:
        assert session.execute("SHOW timezone").fetchone() == ("UTC",)
        assert session.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("10s",)
        [pid] = session.execute("SELECT pg_backend_pid()").fetchone()
        assert pid != session.info.backend_pid, "it goes through the pooler"
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    source.run("INSERT INTO t VALUES (1)")
    recording.caught_up()

    [stored] = recording.transactions()
    assert [change.new["id"] for change in recording.changes(stored)] == ["1"]


def test_pages_and_locks_go_through_session_pooling(pooled: str) -> None:
    environment = {
        **os.environ, "REPLVIEW_STORE_URL": pooled, "REPLVIEW_DB_POOL": "1",
        "DJANGO_SETTINGS_MODULE": "replview.settings",
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", WEB], env=environment, capture_output=True, text=True, timeout=120
    )
    assert ran.stdout.split() == ["True", "30s"], ran.stderr

"""Real servers for every test that needs one, on free ports, gone when the run ends.

The store (Django's test database) is an embedded PostgreSQL 18, started at the first test that
asks for a database. Sources are further clusters, one a version, with a fresh database a test.
All of them are copies of clusters made once a run (``copied_clusters``).
"""

import itertools
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.redis import EmbeddedRedis
from replview.runtime.servers.server_user import debian_postgres15
from tests.copied_clusters import STORE_TEMPLATE, copied, originals
from tests.slow_part import takes_its_time

SOURCE_SETTINGS = {
    "logical_decoding_work_mem": "64kB",
    "max_prepared_transactions": 40,
    "track_commit_timestamp": "on",
    "max_replication_slots": 40,
    "max_wal_senders": 40,
}
STORE = "test_replview"
#: Those that take the fixture ``spark``: each worker would start a JVM of its own.
_SPARK_MODULES = {
    f"tests/spark/test_{name}.py"
    for name in (
        "archive_streaming",
        "data_source",
        "dataset_roots",
        "history",
        "history_as_of",
        "writing",
        "writing_snippets",
    )
}
#: Those that take the fixtures ``kept_server`` and ``kept_browser``: each time another module came
#: between, they would be started anew.
_BROWSER = "tests/browser/test_"
_names = itertools.count(1)
_run = ExitStack()


def pytest_configure() -> None:
    """A run that is told to end (a time limit, CI) takes its servers along, as with Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A run in the background is born deaf to Ctrl-C, and so would be all programs tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Compiled once, not by each worker and each of the many programs that tests start.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "conf"))
    _run.enter_context(originals())


def pytest_unconfigure() -> None:
    """The originals go; in a worker that is the run's business."""
    _run.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile`` one worker takes all modules that share a Spark session; and two
    those that share a web server and a browser, each half of them.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            if scope.startswith(_BROWSER):
                return "browser" if scope < f"{_BROWSER}i" else "browser, the rest"
            return "spark" if scope in _SPARK_MODULES else scope

    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules with long tests first: side by side, none of them is what all wait for at the end."""
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long)
    for item in items:
        if takes_its_time(item):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def store_cluster() -> Iterator[EmbeddedPostgres]:
    """The cluster of the store."""
    with copied(settings={"max_connections": 200}, store=True) as server:
        yield server


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_blocker, store_cluster: EmbeddedPostgres
) -> Iterator[None]:
    """In place of pytest-django's: a copy of the migrated database, on the store's cluster."""
    from django.conf import settings
    from django.db import connections
    from django.test import TransactionTestCase
    from servestatic.middleware import ServeStaticMiddleware

    from tests.emptying import empty_the_store
    from tests.static_files import found_once

    with psycopg.connect(store_cluster.dsn(), autocommit=True) as session:
        session.execute(f"CREATE DATABASE {STORE} TEMPLATE {STORE_TEMPLATE}")
    address = {
        "NAME": STORE,
        "HOST": "127.0.0.1",
        "PORT": str(store_cluster.port),
        "USER": store_cluster.user,
        "PASSWORD": store_cluster.password,
    }
    settings.DATABASES["default"].update(address)
    connections["default"].settings_dict.update(address)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_the_store)
        patch.setattr(ServeStaticMiddleware, "add_files_from_finders", found_once)
        yield
    with django_db_blocker.unblock():
        connections.close_all()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[EmbeddedRedis]:
    """A real Redis: broker and channel layer."""
    with EmbeddedRedis.temporary() as server:
        yield server


@pytest.fixture
def channel_layer_on_redis(redis_server: EmbeddedRedis, settings) -> None:
    """Channels on the real Redis, for tests in this process."""
    from channels.layers import channel_layers

    settings.REDIS_URL = redis_server.url()
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [redis_server.url()], "capacity": 100, "prefix": "replview-test"},
        }
    }
    channel_layers.backends = {}


@dataclass
class SourceDatabase:
    """One fresh database on a source cluster."""

    server: EmbeddedPostgres
    name: str

    @property
    def dsn(self) -> str:
        """Superuser's address of it, with the password."""
        return self.server.dsn(self.name)

    def connect(self, **options) -> psycopg.Connection:
        """A session of its own, in autocommit mode."""
        return psycopg.connect(self.dsn, autocommit=True, **options)

    def run(self, *statements: str) -> None:
        """Run each as one simple-protocol query string."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)


def _source_cluster(version: int) -> Iterator[EmbeddedPostgres]:
    with copied(version, SOURCE_SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def source_cluster_18() -> Iterator[EmbeddedPostgres]:
    """A source of PostgreSQL 18."""
    yield from _source_cluster(18)


@pytest.fixture(scope="session")
def source_cluster_16() -> Iterator[EmbeddedPostgres]:
    """A source of PostgreSQL 16."""
    yield from _source_cluster(16)


@pytest.fixture(scope="session")
def source_cluster_15() -> Iterator[EmbeddedPostgres]:
    """A source of PostgreSQL 15, where Debian's is installed."""
    if debian_postgres15() is None:
        pytest.skip("PostgreSQL 15 is not installed (Debian's postgresql-15)")
    yield from _source_cluster(15)


def fresh_database(server: EmbeddedPostgres, options: str = "") -> Iterator[SourceDatabase]:
    """A database of its own, for a fixture; gone when the test is over, with its slots."""
    name = f"source_{next(_names)}"
    SourceDatabase(server, "postgres").run(
        f"CREATE DATABASE {name} TEMPLATE template0 {options} LOCALE 'C'"
        if options
        else f"CREATE DATABASE {name}"
    )
    yield SourceDatabase(server, name)
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        _remove_database(connection, server, name)


def _remove_database(connection: psycopg.Connection, server: EmbeddedPostgres, name: str) -> None:
    """Leave nothing behind: prepared transactions, slots, then the database."""
    with psycopg.connect(server.dsn(name), autocommit=True) as inside:
        prepared = "SELECT gid FROM pg_prepared_xacts WHERE database = %s"
        for (gid,) in inside.execute(prepared, [name]).fetchall():
            inside.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
    slots = "SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = %s"
    for slot, pid in connection.execute(slots, [name]).fetchall():
        if pid:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        with suppress(psycopg.errors.UndefinedObject):
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def source(source_cluster_18: EmbeddedPostgres) -> Iterator[SourceDatabase]:
    """A fresh database on PostgreSQL 18."""
    yield from fresh_database(source_cluster_18)


@pytest.fixture(params=[18, 16, 15])
def any_source(request: pytest.FixtureRequest) -> Iterator[SourceDatabase]:
    """A fresh database on each supported version in turn."""
    server = request.getfixturevalue(f"source_cluster_{request.param}")
    yield from fresh_database(server)


@pytest.fixture
def signed_in(db) -> Any:
    """A client whose user has signed in."""
    from django.core.cache import cache
    from django.test import Client

    from tests.people import make_user

    cache.clear()
    client = Client()
    client.force_login(make_user("alice"))
    return client


@pytest.fixture
def scene(db) -> Any:
    """Five sources, worst: billing-eu."""
    from tests.pages.scene import build_scene

    return build_scene()

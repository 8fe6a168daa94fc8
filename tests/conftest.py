"""Real servers for every test that needs one, on free ports, gone when the run ends.

The store (Django's test database) is an embedded PostgreSQL 18, started at the first test that
asks for a database. Sources are further clusters, one a version, with a fresh database a test.
"""

import itertools
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import sql

from replview.demo.binaries import debian_postgres15
from replview.demo.postgres import EmbeddedPostgres
from replview.demo.redis import EmbeddedRedis

SOURCE_SETTINGS = {
    "logical_decoding_work_mem": "64kB",
    "max_prepared_transactions": 40,
    "track_commit_timestamp": "on",
    "max_replication_slots": 40,
    "max_wal_senders": 40,
}
_names = itertools.count(1)


def pytest_configure() -> None:
    """A run that is told to end (a time limit, CI) takes its servers along, as with Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules with long tests first: side by side, none of them is what all wait for at the end."""
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(scope="session")
def store_cluster() -> Iterator[EmbeddedPostgres]:
    """The cluster of the store."""
    with EmbeddedPostgres.temporary(settings={"max_connections": 200}) as server:
        yield server


@pytest.fixture(scope="session")
def django_db_modify_db_settings(store_cluster: EmbeddedPostgres) -> None:
    """Point Django at the store's cluster before pytest-django makes the test database."""
    from django.conf import settings
    from django.db import connections

    address = {
        "HOST": "127.0.0.1",
        "PORT": str(store_cluster.port),
        "USER": store_cluster.user,
        "PASSWORD": store_cluster.password,
    }
    settings.DATABASES["default"].update(address)
    connections["default"].settings_dict.update(address)


@pytest.fixture(autouse=True)
def _unmanaged_tables_are_emptied(request: pytest.FixtureRequest) -> Iterator[None]:
    """Django's flush after a committing test leaves the tables it does not manage."""
    yield
    marker = request.node.get_closest_marker("django_db")
    commits = marker is not None and marker.kwargs.get("transaction")
    if commits or "transactional_db" in request.fixturenames:
        from django.db import connection

        request.getfixturevalue("django_db_blocker").unblock()
        with connection.cursor() as cursor:
            cursor.execute(
                "TRUNCATE change, slot_sample, slot_sample_minute, slot_sample_hour, source_sample"
            )
        connection.close()
        request.getfixturevalue("django_db_blocker").restore()


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
    with EmbeddedPostgres.temporary(version=version, settings=SOURCE_SETTINGS) as server:
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

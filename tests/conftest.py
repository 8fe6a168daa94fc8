"""Real servers for every test that needs one, on free ports, gone when the run ends.

The store (Django's test database) is an embedded PostgreSQL 18, started at the first test that
asks for a database. Sources are further clusters, one a version, with a fresh database a test.
All of them are copies of clusters made once a run (``copied_clusters``).
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.redis import EmbeddedRedis
from replview.runtime.servers.server_programs import debian_postgres15
from tests.support import server_programs
from tests.support.copied_clusters import STORE, STORE_TEMPLATE, copied
from tests.support.run_folder import run_folder
from tests.support.slow_part import takes_its_time
from tests.support.source_databases import SOURCE_SETTINGS, VERSIONS, SourceDatabase, fresh_database
from tests.support.waiting import wait_for

#: Fixtures that tests of many folders use, and the option ``--share``.
pytest_plugins = ["tests.support.recording", "tests.support.shares"]
#: Modules that take the fixture ``spark``: each worker would start a JVM of its own.
_SPARK_MODULES = {
    f"tests/spark/test_{name}.py"
    for name in (
        "data_source",
        "dataset_roots",
        "history",
        "history_as_of",
        "own_names",
        "truncations",
        "writing",
        "writing_snippets",
    )
}
#: Modules that take the fixtures ``kept_server`` and ``kept_browser``: each time another module
#: came between, they would be started anew.
_BROWSER = "tests/browser/test_"
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
    _run.enter_context(run_folder())


def pytest_unconfigure() -> None:
    """Remove the run's folder; a worker leaves that to the run."""
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


def pytest_collection() -> None:
    """Collect thousands of tests without a search for garbage, of which there is little."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what was collected out of garbage collection."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Modules with long tests first: side by side, none of them is what all wait for at the end."""
    chosen = [item for item in items if _of_its_version(item)]
    config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
    items[:] = chosen
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long)
    for item in items:
        if takes_its_time(item):
            item.add_marker(pytest.mark.slow)


def _of_its_version(item: pytest.Item) -> bool:
    """Return True if the test's source is new enough for its ``pg`` marks.

    A test without a version of its own runs on 18, or not at all where the run names versions.
    """
    chosen = item.callspec.params if hasattr(item, "callspec") else {}
    version = chosen.get("any_version", chosen.get("source_version", None if VERSIONS else 18))
    return version is not None and all(version >= mark.args[0] for mark in item.iter_markers("pg"))


@pytest.fixture(scope="session")
def store_cluster() -> Iterator[EmbeddedPostgres]:
    """The cluster of the store."""
    with copied(settings={"max_connections": 200}, store=True) as server:
        yield server


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_blocker, store_cluster: EmbeddedPostgres
) -> Iterator[None]:
    """Replace pytest-django's fixture: copy the migrated database on the store's cluster."""
    from django.conf import settings
    from django.db import connections
    from django.test import TransactionTestCase
    from servestatic.middleware import ServeStaticMiddleware

    from tests.support.emptying import empty_the_store
    from tests.support.static_files import found_once

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


@pytest.fixture(scope="session")
def source_clusters() -> Iterator[Callable[[int], EmbeddedPostgres]]:
    """``source_clusters(14)``: a source of that version, one a run."""
    with ExitStack() as running:

        @cache
        def cluster(version: int) -> EmbeddedPostgres:
            return running.enter_context(copied(version, SOURCE_SETTINGS))

        yield cluster


@pytest.fixture(scope="session")
def source_cluster_18(source_clusters: Callable[[int], EmbeddedPostgres]) -> EmbeddedPostgres:
    """A source of PostgreSQL 18."""
    return source_clusters(18)


@pytest.fixture(scope="session")
def source_cluster_16(source_clusters: Callable[[int], EmbeddedPostgres]) -> EmbeddedPostgres:
    """A source of PostgreSQL 16."""
    return source_clusters(16)


@pytest.fixture(scope="session")
def source_cluster_15(source_clusters: Callable[[int], EmbeddedPostgres]) -> EmbeddedPostgres:
    """A source of Debian's PostgreSQL 15 with its output plugins, where it is installed."""
    if debian_postgres15() is None:
        pytest.skip("PostgreSQL 15 is not installed (Debian's postgresql-15)")
    return source_clusters(15)


@pytest.fixture
def source_15(source_cluster_15: EmbeddedPostgres) -> Iterator[SourceDatabase]:
    """A fresh database on PostgreSQL 15, with every output plugin that is installed allowed."""
    with psycopg.connect(source_cluster_15.dsn(), autocommit=True) as session:
        listed = "SELECT setting FROM pg_settings WHERE name = 'output_plugin_libraries'"
        if session.execute(listed).fetchone() is not None:  # in the newest minor releases
            plugins = "pgoutput, test_decoding, wal2json"
            session.execute(f"ALTER SYSTEM SET output_plugin_libraries = {plugins}")
            session.execute("SELECT pg_reload_conf()")
            wait_for(lambda: session.execute(listed).fetchone() == (plugins,), 10, "the list")
    yield from fresh_database(source_cluster_15)


@pytest.fixture(scope="module", params=VERSIONS or None)
def source_version(request: pytest.FixtureRequest) -> int:
    """The major version of ``source``."""
    return _available(getattr(request, "param", 18))


def _available(version: int) -> int:
    """Return the version, or skip the test if the programs of that version are missing."""
    try:
        server_programs.ensure(version)
    except server_programs.ProgramsMissing as problem:
        pytest.skip(str(problem))
    return version


@pytest.fixture
def source_cluster(
    source_version: int, source_clusters: Callable[[int], EmbeddedPostgres]
) -> EmbeddedPostgres:
    """The cluster of ``source``."""
    return source_clusters(source_version)


@pytest.fixture
def source(source_cluster: EmbeddedPostgres) -> Iterator[SourceDatabase]:
    """A fresh database on PostgreSQL 18, or on each version under test."""
    yield from fresh_database(source_cluster)


# 16 lies between the other two: CI tests it in the shares.
@pytest.fixture(params=VERSIONS or [18, pytest.param(16, marks=pytest.mark.long), 15])
def any_version(request: pytest.FixtureRequest) -> int:
    """The major version of ``any_source``."""
    return _available(request.param)


@pytest.fixture
def any_source(
    any_version: int, source_clusters: Callable[[int], EmbeddedPostgres]
) -> Iterator[SourceDatabase]:
    """A fresh database on each of three versions in turn, or on each version under test."""
    yield from fresh_database(source_clusters(any_version))


@pytest.fixture
def signed_in(db) -> Any:
    """A client whose user has signed in."""
    from django.core.cache import cache
    from django.test import Client

    from tests.support.people import make_user

    cache.clear()
    client = Client()
    client.force_login(make_user("alice"))
    return client


@pytest.fixture
def scene(db) -> Any:
    """Five sources, worst: billing-eu."""
    from tests.support.scene import build_scene

    return build_scene()

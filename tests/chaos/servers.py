"""The servers of one run: a source with its slots, a store, Redis; fresh, and gone at the end."""

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.redis import EmbeddedRedis
from tests.support.copied_clusters import ROOT, STORE_TEMPLATE, copied

DATABASE = "chaos"
STORE_DATABASE = "replview"
#: The slot under test, and the one that nobody touches until the end.
SLOT, WITNESS = "chaos", "witness"
PUBLICATION = "chaos"

_SOURCE: dict[str, str | int] = {
    # The smallest there is: large transactions are streamed.
    "logical_decoding_work_mem": "64kB",
    "max_prepared_transactions": 60,
    "max_connections": 60,
    "track_commit_timestamp": "on",
    "deadlock_timeout": "200ms",
    "checkpoint_timeout": "30s",
    "max_wal_size": "2GB",
}
_STORE: dict[str, str | int] = {"max_connections": 60, "max_wal_size": "2GB"}


@dataclass
class Servers:
    """The servers of a run, with addresses that lead past the proxies."""

    source: EmbeddedPostgres
    store: EmbeddedPostgres
    redis: EmbeddedRedis
    folder: Path
    secret_key: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def on_source(self, **options: Any) -> psycopg.Connection[Any]:
        """A session on the source, in autocommit mode."""
        return psycopg.connect(
            self.source.dsn(DATABASE), autocommit=True, connect_timeout=10, **options
        )

    def on_store(self, **options: Any) -> psycopg.Connection[Any]:
        """A session on the store, in autocommit mode."""
        return psycopg.connect(
            self.store.dsn(STORE_DATABASE), autocommit=True, connect_timeout=10, **options
        )

    def environment(self, *, store_port: int, source_port: int) -> dict[str, str]:
        """Return the environment for a process that reaches both servers by these ports."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DJANGO_SETTINGS_MODULE": "replview.settings",
            "REPLVIEW_STORE_URL": _at(self.store.dsn(STORE_DATABASE), self.store, store_port),
            "REPLVIEW_REDIS_URL": self.redis.url(),
            "REPLVIEW_DATA": str(self.folder),
            "REPLVIEW_SECRET_KEY": self.secret_key,
            "CHAOS_SOURCE": _at(self.source.dsn(DATABASE), self.source, source_port),
        }


def _at(dsn: str, server: EmbeddedPostgres, port: int) -> str:
    """Return the DSN with another port."""
    return dsn.replace(f"127.0.0.1:{server.port}/", f"127.0.0.1:{port}/")


@contextmanager
def servers(version: int) -> Iterator[Servers]:
    """Fresh servers, the store migrated and this process's Django on it."""
    with (
        tempfile.TemporaryDirectory(prefix="replview-chaos-") as folder,
        copied(version, _SOURCE) as source,
        copied(settings=_STORE, store=True) as store,
        EmbeddedRedis.temporary() as redis,
    ):
        source.create_database(DATABASE)
        with psycopg.connect(store.dsn(), autocommit=True) as session:
            session.execute(f"CREATE DATABASE {STORE_DATABASE} TEMPLATE {STORE_TEMPLATE}")
        made = Servers(source, store, redis, Path(folder))
        _point_django_at(store)
        yield made


def _point_django_at(store: EmbeddedPostgres) -> None:
    """This process's ORM reads the run's store; a run before it had another."""
    from django.db import connections

    connections.close_all()
    connections["default"].settings_dict.update(
        {
            "NAME": STORE_DATABASE,
            "HOST": "127.0.0.1",
            "PORT": str(store.port),
            "USER": store.user,
            "PASSWORD": store.password,
        }
    )

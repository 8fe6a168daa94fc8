"""Servers that may be crashed, apart from those of all other tests."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from replview.runtime.servers.postgres import EmbeddedPostgres
from tests.support.copied_clusters import copied
from tests.support.crash_stores import CrashStore
from tests.support.received_slots import ReceivedSlot, make_slot
from tests.support.source_databases import SOURCE_SETTINGS, SourceDatabase
from tests.support.workload import TABLES

#: Makes a slot, its rows in the store, and (unless ``start=False``) its first receiver.
Receive = Callable[..., ReceivedSlot]
_names = itertools.count(1)


@pytest.fixture(scope="session")
def store_server() -> Iterator[EmbeddedPostgres]:
    """The server of every store here."""
    with copied(store=True) as server:
        yield server


@pytest.fixture
def store(store_server: EmbeddedPostgres) -> Iterator[CrashStore]:
    """An empty store."""
    made = CrashStore.fresh(store_server)
    yield made
    made.remove()


@pytest.fixture(scope="session")
def source_server() -> Iterator[EmbeddedPostgres]:
    """The server of most sources here, PostgreSQL 18."""
    with copied(settings=SOURCE_SETTINGS) as server:
        yield server


@pytest.fixture
def source(source_server: EmbeddedPostgres) -> Iterator[SourceDatabase]:
    """A fresh database with the workload's tables, on a server that a test may crash."""
    yield from fresh_source(source_server)


def fresh_source(server: EmbeddedPostgres) -> Iterator[SourceDatabase]:
    """A database of one test; the server is started again if the test left it stopped."""
    name = f"crashing_{next(_names)}"
    server.create_database(name)
    source = SourceDatabase(server, name)
    source.run(*TABLES)
    yield source
    if not server.is_ready():
        server.start()
    _remove(server, name)


def _remove(server: EmbeddedPostgres, name: str) -> None:
    """Leave nothing behind: prepared transactions, slots, then the database."""
    with psycopg.connect(server.dsn(name), autocommit=True) as inside:
        prepared = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
        for (gid,) in inside.execute(prepared).fetchall():
            inside.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
        inside.execute(
            "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots "
            "WHERE active AND database = current_database()"
        )
        inside.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = current_database()"
        )
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def receive(store: CrashStore, tmp_path: Path) -> Iterator[Receive]:
    """``receive(source, …)``: a slot being received; every receiver ends with the test."""
    made: list[ReceivedSlot] = []

    def make(source: SourceDatabase, *, start: bool = True, **options: Any) -> ReceivedSlot:
        where = options.pop("store", store)
        slot = make_slot(where, source, tmp_path, **options)
        made.append(slot)
        if start:
            slot.start()
            slot.streaming()
        return slot

    yield make
    for slot in made:
        slot.end()

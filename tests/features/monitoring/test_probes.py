"""``/healthz`` and ``/readyz``."""

import socket
import time

import pytest
from django.db import connection
from django.test import AsyncClient, Client

from replview.access.tokens import make_token
from tests.support.people import make_user


@pytest.fixture
def servers(settings, redis_server) -> None:
    """The broker; the store comes with ``db``."""
    settings.REDIS_URL = redis_server.url()


@pytest.fixture
def black_hole(settings):
    """A port that takes connections and never says anything."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(8)
        yield listening.getsockname()[1]


def test_alive_without_asking_anybody() -> None:
    # No mark for the store: a query would fail this test.
    answer = Client().get("/healthz", headers={"host": "10.1.2.3:8642"})

    assert (answer.status_code, answer.json()) == (200, {"alive": True})


def test_ready_in_words(db, servers) -> None:
    answer = Client().get("/readyz", headers={"host": "10.1.2.3:8642"})

    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True, "checks": {"store": "ok", "migrations": "ok", "redis": "ok"},
    }  # fmt: skip


async def test_ready_under_the_asynchronous_server(db, servers) -> None:
    answer = await AsyncClient().get("/readyz")

    assert answer.status_code == 200
    assert answer.json()["ready"] is True


def test_a_program_with_a_token_is_told_how_long(db, servers, settings) -> None:
    settings.REDIS_URL = "redis://:geheim@127.0.0.1:1/0"
    token, _ = make_token(make_user("alice"), "probe")

    answer = Client(headers={"Authorization": f"Bearer {token}"}).get("/readyz")
    checks = answer.json()["checks"]

    assert checks["store"]["state"] == "ok"
    assert 0 < checks["store"]["seconds"] < 60
    assert checks["redis"]["error"] == "ConnectionError"
    assert "geheim" not in answer.content.decode()
    stranger = Client(headers={"Authorization": "Bearer rv_wrong"}).get("/readyz")
    assert stranger.json()["checks"]["store"] == "ok"


def test_without_redis_pages_go_on(db, settings) -> None:
    settings.REDIS_URL = "redis://:geheim@127.0.0.1:1/0"

    answer = Client().get("/readyz")

    assert answer.status_code == 200
    assert answer.json()["checks"]["redis"] == "failed"


def test_not_ready_without_a_migration(transactional_db, servers) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_migrations RENAME TO away")
        try:
            nothing = Client().get("/readyz")
            cursor.execute("CREATE TABLE django_migrations (app text, name text)")
            some = Client().get("/readyz")
            cursor.execute("DROP TABLE django_migrations")
        finally:
            cursor.execute("ALTER TABLE away RENAME TO django_migrations")

    for answer in (nothing, some):
        assert answer.status_code == 503
        told = {"store": "ok", "migrations": "missing", "redis": "ok"}
        assert answer.json() == {"ready": False, "checks": told}


def test_a_store_that_hangs_is_late_and_not_waited_for(
    db, servers, black_hole, monkeypatch
) -> None:
    began = time.monotonic()

    with monkeypatch.context() as elsewhere:
        elsewhere.setitem(connection.settings_dict, "PORT", str(black_hole))
        answer = Client().get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["checks"]["store"] in ("late", "failed")
    assert time.monotonic() - began < 20

"""``replview watch``: as a process of its own, ended by Ctrl-C, leaving no trace."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from replview.store.models import Change, Slot, Source
from replview.store.retention.tidy import make_partitions
from tests.support.source_traces import left_on

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def watch(store_cluster, redis_server) -> Iterator[Callable[..., subprocess.Popen]]:
    """``watch(dsn, …)``: starts the command on the test's store."""
    make_partitions()
    Change.objects.all().delete()  # the flush between tests knows nothing of partitioned tables
    running = []

    def start(*words: str) -> subprocess.Popen:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "replview.settings",
            "REPLVIEW_STORE_URL": store_cluster.dsn(connection.settings_dict["NAME"]),
            "REPLVIEW_REDIS_URL": redis_server.url(),
            "REPLVIEW_URL": "http://127.0.0.1:4711/",
            "PYTHONUNBUFFERED": "1",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "django", "watch", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_it_shows_changes_and_leaves_nothing_behind(watch, shop) -> None:
    process = watch(shop.dsn, "--yes")
    wait_for(lambda: Slot.objects.filter(state="streaming").exists())
    with shop.connect() as session:
        temporary = "SELECT temporary FROM pg_replication_slots WHERE database = %s"
        assert session.execute(temporary, [shop.name]).fetchall() == [(True,)]
    shop.run("INSERT INTO orders VALUES (1)", "INSERT INTO audit VALUES (now(), 'x')")
    wait_for(lambda: Change.objects.count() == 2)

    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=20)

    assert process.returncode == 0
    assert "Open http://127.0.0.1:4711/live/?slot=watch-" in text
    assert 'CREATE PUBLICATION "replview_watch_' in text
    assert "and at its end: DROP PUBLICATION" in text
    assert shop.server.password not in text
    assert left_on(shop) == (set(), set())
    assert not Source.objects.exists()
    assert not Change.objects.exists()


def test_publications_that_are_there_are_used(watch, shop) -> None:
    shop.run("CREATE PUBLICATION theirs FOR TABLE orders")
    process = watch(shop.dsn)
    wait_for(lambda: Slot.objects.filter(state="streaming").exists())
    process.terminate()
    text, _ = process.communicate(timeout=20)

    assert "reading through publication theirs" in text
    assert left_on(shop) == ({"theirs"}, set())


def test_nothing_is_made_without_a_yes(watch, shop) -> None:
    process = watch(shop.dsn)
    text, _ = process.communicate(timeout=20)

    assert process.returncode == 1
    assert "--yes" in text
    assert left_on(shop) == (set(), set())
    assert not Source.objects.exists()


def test_a_slot_that_waits_says_for_whom_and_still_ends(watch, shop) -> None:
    with shop.connect() as writer:
        writer.execute("BEGIN; INSERT INTO orders VALUES (1)")
        process = watch(shop.dsn, "--tables", "orders", "--yes")
        lines = iter(process.stdout.readline, "")
        assert any(f"waits for: process {writer.info.backend_pid}" in line for line in lines)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)

        assert process.returncode == 0
        assert left_on(shop) == (set(), set())
        assert not Source.objects.exists()

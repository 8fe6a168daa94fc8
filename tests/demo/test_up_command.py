"""``replview up`` from outside: against servers that are there, and against some that are not."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from replview.runtime.machine import free_port, marked_processes
from replview.runtime.servers.redis import EmbeddedRedis
from tests.support.copied_clusters import copied

pytestmark = pytest.mark.slow

_CODE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    """The environment that names a store and a broker."""
    with copied() as store, EmbeddedRedis.temporary() as broker:
        store.create_database("replview")
        yield {
            "REPLVIEW_STORE_URL": store.dsn("replview"),
            "REPLVIEW_REDIS_URL": broker.url(),
            "REPLVIEW_SECRET_KEY": "a key for this test alone, long enough for Django's liking",
        }


def up(data: Path, variables: dict[str, str], *options: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("REPLVIEW_")}
    return subprocess.Popen(
        [sys.executable, str(_CODE / "manage.py"), "up", "--data", str(data), *options],
        cwd=_CODE,
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def refusal(data: Path, variables: dict[str, str], *options: str) -> str:
    """Run ``replview up``, assert that it fails with one line, and return the line."""
    process = up(data, variables, *options)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 1, said
    assert len(said.strip().splitlines()) == 1, said
    return said


@pytest.mark.parametrize(
    "name", ["REPLVIEW_STORE_URL", "REPLVIEW_REDIS_URL", "REPLVIEW_SECRET_KEY"]
)
def test_a_missing_variable_is_named(name: str, servers: dict[str, str], tmp_path: Path) -> None:
    variables = {key: value for key, value in servers.items() if key != name}
    assert f"{name} is not set. Set it, for example" in refusal(tmp_path, variables)


def test_a_store_that_is_away_is_named_without_its_password(
    servers: dict[str, str], tmp_path: Path
) -> None:
    away = f"postgresql://replview:geheim@127.0.0.1:{free_port()}/replview"
    said = refusal(tmp_path, {**servers, "REPLVIEW_STORE_URL": away})
    assert "the store cannot be reached" in said
    assert "Check REPLVIEW_STORE_URL" in said
    assert "geheim" not in said


def test_a_broker_that_is_away_is_named_without_its_password(
    servers: dict[str, str], tmp_path: Path
) -> None:
    away = f"redis://:geheim@127.0.0.1:{free_port()}/0"
    said = refusal(tmp_path, {**servers, "REPLVIEW_REDIS_URL": away})
    assert "Redis cannot be reached" in said
    assert "Check REPLVIEW_REDIS_URL" in said
    assert "geheim" not in said


# The demo runs the same programs every time.
@pytest.mark.long
@pytest.mark.slow
def test_it_migrates_runs_everything_and_stops(servers: dict[str, str], tmp_path: Path) -> None:
    port = free_port()
    process = up(tmp_path, servers, "--port", str(port), "--receivers", "2")
    assert process.stdout is not None
    with process.stdout as output:
        said = ""
        while "replview is at" not in said:
            line = output.readline()
            assert line, said
            said += line
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            assert answer.status == 200
        with psycopg.connect(servers["REPLVIEW_STORE_URL"]) as store:
            assert store.execute("SELECT count(*) FROM django_migrations").fetchone() != (0,)
        # supervisord, two receivers' workers, the tasks' worker, beat, web
        assert len(marked_processes(tmp_path)) >= 6
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        said += output.read()
    assert process.wait(timeout=60) == 0
    assert time.monotonic() - began < 60
    assert marked_processes(tmp_path) == []

"""``replview up --only``: one process each, its secrets from files, for a process manager."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from django.core.exceptions import ImproperlyConfigured

import replview
from replview.cli import main
from replview.management.commands.up import url_of_pages
from replview.runtime.data_folder import DataFolder
from replview.runtime.environment import value
from replview.runtime.machine import free_port
from replview.runtime.programs import KINDS, program
from replview.runtime.servers.redis import EmbeddedRedis
from tests.support.copied_clusters import copied
from tests.support.variables import ROOT

KEY = "a key for this test alone, long enough for Django's liking"


@pytest.fixture
def variables(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment that names files: a store without tables, a broker, a key."""
    with copied() as store, EmbeddedRedis.temporary() as broker:
        store.create_database("replview")
        names = ("REPLVIEW_STORE_URL", "REPLVIEW_REDIS_URL", "REPLVIEW_SECRET_KEY")
        secrets = (store.dsn("replview"), broker.url(), KEY)
        found = {k: v for k, v in os.environ.items() if not k.startswith("REPLVIEW_")}
        for name, secret in zip(names, secrets, strict=True):
            # Relative, as somebody may write it; the processes run elsewhere.
            (tmp_path / name).write_text(f"{secret}\n")
            found[f"{name}_FILE"] = name
        yield found


def up(folder: Path, variables: dict[str, str], *words: str) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        str(ROOT / "manage.py"),
        "up",
        "--data",
        str(folder / "data"),
        *words,
    ]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ready(port: int) -> bool:
    """Return True if the web server, the store and its tables are ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


@pytest.mark.slow
def test_processes_that_start_together_migrate_once_serve_and_stop(
    variables: dict[str, str], tmp_path: Path
) -> None:
    port = free_port()
    web = up(tmp_path, variables, "--only", "web", "--port", str(port))
    worker = up(tmp_path, variables, "--only", "receivers", "--name", "receivers-7")
    try:
        deadline = time.monotonic() + 120
        while not ready(port):
            assert (web.poll(), worker.poll()) == (None, None)
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for process in (web, worker):
            # The processes replace themselves with what they run, and their environment has no
            # secrets.
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
            while "manage.py" in " ".join(words):
                time.sleep(0.1)
                words = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
            assert {"uvicorn", "celery"} & set(words)
            assert KEY not in Path(f"/proc/{process.pid}/environ").read_text()
        assert "receivers-7@%h" in words
        for process in (web, worker):
            process.send_signal(signal.SIGTERM)
        said = [process.communicate(timeout=30)[0] for process in (web, worker)]
        assert [process.returncode for process in (web, worker)] in ([0, 0], [-15, 0]), said
    finally:
        for process in (web, worker):
            process.kill()
            process.wait()


def test_each_kind_is_a_program_of_its_own(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    lines = {
        kind: " ".join(program(kind, folder=folder, host="::1", port=1, name="x").argv)
        for kind in KINDS
    }
    assert "--host ::1 --port 1 " in lines["web"]
    assert "-Q receivers " in lines["receivers"]
    assert "-Q default " in lines["tasks"]
    assert lines["tasks"].endswith("-n x@%h")
    assert f"--schedule {tmp_path}/run/beat-schedule" in lines["beat"]


@pytest.mark.parametrize(
    ("text", "also", "why"),
    [
        (None, "", "cannot be read: No such file"),
        (" \n", "", "is empty"),
        ("one", "another", "both set"),
    ],
)
def test_a_secret_that_cannot_be_told_is_refused(
    text: str | None, also: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("REPLVIEW_SECRET_KEY_FILE", str(file))
    monkeypatch.setenv("REPLVIEW_SECRET_KEY", also)
    with pytest.raises(ImproperlyConfigured, match=f"REPLVIEW_SECRET_KEY.*{why}"):
        value("REPLVIEW_SECRET_KEY")


@pytest.mark.parametrize(
    ("host", "names", "origins", "url"),
    [
        ("127.0.0.1", ["localhost"], [], "http://127.0.0.1:80"),
        ("::1", ["localhost"], [], "http://[::1]:80"),
        ("0.0.0.0", [".example", "replview.example"], [], "http://replview.example:80"),
        ("::", ["*"], [], "http://127.0.0.1:80"),
        ("0.0.0.0", ["*"], ["https://*.example", "https://r.example/"], "https://r.example"),
    ],
)
def test_the_first_admin_is_sent_where_the_pages_answer(
    host: str, names: list[str], origins: list[str], url: str, settings: Any
) -> None:
    settings.ALLOWED_HOSTS, settings.CSRF_TRUSTED_ORIGINS = names, origins
    assert url_of_pages(host, 80) == url


def test_the_version_is_our_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["replview", "--version"])
    main()
    assert capsys.readouterr().out == f"{replview.__version__}\n"


def test_a_command_says_so_in_one_line(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin", "REPLVIEW_SECRET_KEY_FILE": str(tmp_path / "nothing")}
    said = subprocess.run(
        [sys.executable, "manage.py", "up"], cwd=ROOT, env=environment, capture_output=True,
        text=True,
    )  # fmt: skip
    assert said.returncode == 1
    assert said.stderr.startswith("replview: REPLVIEW_SECRET_KEY_FILE: ")
    assert len(said.stderr.splitlines()) == 1

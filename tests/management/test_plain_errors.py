"""Expected errors of the commands: one line, the remedy in it, an exit status, no traceback."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from replview.management.instance import PlainCommand

pytestmark = pytest.mark.slow

MANAGE = Path(__file__).parents[2] / "manage.py"


def run(*words: str, store: str = "", folder: Path) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if "REPLVIEW" not in name}
    if store:
        environment["REPLVIEW_STORE_URL"] = store
    return subprocess.run(
        [sys.executable, str(MANAGE), *words],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "words", [["slot", "list"], ["source", "list"], ["changes", "--slot", "x"]]
)
def test_no_instance_is_status_2(words, tmp_path) -> None:
    done = run(*words, folder=tmp_path)

    assert done.returncode == 2
    assert done.stderr == (
        "replview: no replview is running here: start one with 'replview demo', or set "
        "REPLVIEW_STORE_URL\n"
    )


def test_a_store_that_does_not_answer(tmp_path) -> None:
    done = run("slot", "list", store="postgresql://u:geheim@127.0.0.1:1/x", folder=tmp_path)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "127.0.0.1:1 does not answer" in done.stderr
    assert "geheim" not in done.stderr


def test_a_store_without_tables(tmp_path, store_cluster) -> None:
    done = run("slot", "list", store=store_cluster.dsn("postgres"), folder=tmp_path)

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "replview up" in done.stderr


def test_data_names_the_instance(tmp_path, store_cluster) -> None:
    (tmp_path / "env").write_text(f"REPLVIEW_STORE_URL={store_cluster.dsn('postgres')}\n")

    done = run("slot", "list", "--data", str(tmp_path), folder=tmp_path)

    assert "replview up" in done.stderr


def test_doctor_needs_no_instance(tmp_path, source) -> None:
    done = run("doctor", source.dsn, folder=tmp_path)

    assert done.returncode == 0
    assert source.server.password not in done.stdout + done.stderr


def test_a_reader_may_close_the_pipe(tmp_path, source) -> None:
    command = f"{sys.executable} {MANAGE} doctor '{source.dsn}' | head -1"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("ok")
    assert done.stderr == ""


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_servers_words_do_not_steer_the_terminal() -> None:
    hostile = "no \x1b]0;title\x07\x1b[2J\x9b31m table\r\u202e\ttab, 1.5\u00a0kB\n"
    screen, pipe = Screen(), io.StringIO()
    PlainCommand(screen, screen).say(hostile)
    PlainCommand(screen, screen).stderr.write(hostile)
    PlainCommand(pipe, pipe).say(hostile)

    shown = "no \\x1b]0;title\\x07\\x1b[2J\\x9b31m table\\r\\u202e\ttab, 1.5\u00a0kB\n"
    assert screen.getvalue() == shown * 2
    assert pipe.getvalue() == hostile

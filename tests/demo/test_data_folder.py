"""The data folder: closed to others, held by one, and telling how to reach what runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from replview.runtime import data_folder
from replview.runtime.data_folder import DataFolder
from replview.runtime.machine import StackProblem

URL = "http://127.0.0.1:8642/"


@pytest.fixture
def data(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path / "data")
    made.create()
    return made


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_others_may_not_look_into_it(data: DataFolder) -> None:
    data.secrets()
    data.write_env({"REPLVIEW_STORE_URL": "postgresql://…"})
    # Under root the account that runs PostgreSQL passes through, and sees nothing.
    assert mode(data.path) & 0o066 == 0
    assert mode(data.logs) == mode(data.run) == 0o700
    assert mode(data.path / "secrets") == mode(data.path / "env") == 0o600


def test_secrets_are_made_once(data: DataFolder) -> None:
    first = data.secrets()
    assert DataFolder(data.path).secrets() == first
    assert len(first["REPLVIEW_SECRET_KEY"]) >= 50


def test_a_second_stack_is_told_where_the_first_is(data: DataFolder) -> None:
    assert data.acquire(URL) is None
    with pytest.raises(StackProblem, match=rf"already runs .* at {URL}.*kill {os.getpid()}"):
        DataFolder(data.path).acquire("http://127.0.0.1:1/")
    data.release()
    second = DataFolder(data.path)
    assert second.acquire("http://127.0.0.1:1/") is None
    second.release()


def test_the_lock_of_a_killed_stack_is_taken_and_tells_of_it(data: DataFolder) -> None:
    held = f"""
from replview.runtime.data_folder import DataFolder
import os, signal
DataFolder({str(data.path)!r}).acquire({URL!r})
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.Popen(
        [sys.executable, "-c", held], cwd=Path(data_folder.__file__).parents[2]
    )
    killed.wait()
    before = data.acquire(URL)
    assert before is not None
    assert (before.pid, before.url) == (killed.pid, URL)
    data.release()


def test_nothing_is_to_be_found_after_an_orderly_end(data: DataFolder) -> None:
    data.acquire(URL)
    data.write_env({"REPLVIEW_URL": URL})
    data.release()
    assert not (data.path / "env").exists()
    assert data.acquire(URL) is None
    data.release()


def test_a_long_path_gets_its_socket_elsewhere_and_leaves_nothing(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / ("long" * 30))
    data.create()
    data.acquire(URL)
    socket = data.socket_path()
    assert len(str(socket)) < 100
    assert mode(socket.parent) == 0o700
    data.release()
    assert not socket.parent.exists()


def test_a_full_disk_is_said_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil.disk_usage(tmp_path)._replace(free=20 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(StackProblem, match=r"only 20\xa0MB are free .* --data"):
        DataFolder(tmp_path / "data").create()


def test_a_folder_that_cannot_be_made_is_said_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StackProblem, match=r"cannot be used: Not a directory.* --data"):
        DataFolder(tmp_path / "file" / "data").create()

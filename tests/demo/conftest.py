"""Folders for embedded servers, and what a test may find of them afterwards."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the servers' user can reach under root; pytest's own he cannot."""
    yield from reachable_folder()


def reachable_folder() -> Iterator[Path]:
    """Yield a folder that the servers' user can reach under root, for fixtures."""
    path = Path(tempfile.mkdtemp(prefix="replview-test-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


def shared_memory() -> set[str]:
    """The System V segments on this machine, and PostgreSQL's POSIX ones."""
    listed = subprocess.run(["ipcs", "-m"], capture_output=True, text=True, check=True).stdout
    segments = {line.split()[1] for line in listed.splitlines() if line.startswith("0x")}
    return segments | {path.name for path in Path("/dev/shm").glob("PostgreSQL.*")}


def shared_memory_of(pids: Iterable[int]) -> set[str]:
    """Return the shared memory segments that these processes use, not those of other tests."""
    held = set()
    for pid in pids:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            *_, inode, path = f"{line} -".split(maxsplit=5)[:6]
            held |= {inode, path.rpartition("/")[2].split()[0]}
    return held & shared_memory()

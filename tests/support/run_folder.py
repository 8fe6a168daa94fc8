"""The folder of one test run: temporary files and servers' data lie in it and go with it.

A run that is killed cannot stop its servers. The next run does: a run holds a lock on its folder
as long as it lives, so a folder without a holder belongs to a run that is dead.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.util import Finalize
from pathlib import Path

import psutil
import pytest

from replview.runtime.servers.postmaster import postmaster_pid
from replview.runtime.servers.server_user import REACHABLE_PLACE
from replview.spark.scratch import lock, temporary_files_in, without_lock

#: The variable that names the folder; every process that a run starts inherits it.
RUN_FOLDER = "REPLVIEW_TEST_RUN"
_PREFIX = "replview-run-"
#: Seconds that a process has to end before it is killed.
_END_SECONDS = 5


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make the folder of this run the place of all temporary files, and remove what killed runs
    left. The folder is removed when this process exits. A run inside another one, in a process that
    a test starts, uses the outer run's folder.
    """
    if RUN_FOLDER in os.environ:
        yield Path(os.environ[RUN_FOLDER])
        return
    temporary = Path(tempfile.gettempdir())
    remove_dead_runs(temporary)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    # The servers' own user passes through.
    folder.chmod(0o711)
    with lock(folder), pytest.MonkeyPatch.context() as patch:
        for name, value in {RUN_FOLDER: str(folder), **temporary_files_in(folder)}.items():
            patch.setenv(name, value)
        patch.setattr(tempfile, "tempdir", None)
        try:
            yield folder
        finally:
            _stop(folder)
            # Folders of multiprocessing lie in this one: it removes them at exit, with -100.
            Finalize(None, shutil.rmtree, [folder], {"ignore_errors": True}, exitpriority=-200)


def remove_dead_runs(temporary: Path) -> None:
    """Stop the servers and remove the folders of runs that ended without doing so."""
    for folder in without_lock(temporary.glob(f"{_PREFIX}*")):
        _stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _stop(folder: Path) -> None:
    """End every process of a run but this one, and delete the data that is not in its folder."""
    elsewhere = _data_elsewhere(folder)
    for data in elsewhere:
        if pid := postmaster_pid(data):
            _end([psutil.Process(pid)])
    _end([process for process in psutil.process_iter() if _belongs(process, folder)])
    for data in elsewhere:
        shutil.rmtree(data, ignore_errors=True)


def _data_elsewhere(folder: Path) -> list[Path]:
    """Return the data folders that the servers' user could not have reached inside ``folder``:
    they lie in a place for them, and links in the folder lead there.
    """
    links = (Path(at, name) for at, names, _ in os.walk(folder) for name in names)
    targets = (link.resolve() for link in links if link.is_symlink())
    return [target for target in targets if target.is_relative_to(REACHABLE_PLACE)]


def _belongs(process: psutil.Process, folder: Path) -> bool:
    """Return whether a run started this process: its environment, its arguments or the folder it
    works in tell.

    PostgreSQL servers start with a clean environment, but with their data folder as an argument.
    Redis writes its title over both, but works in its own folder.
    """
    if process.pid == os.getpid():
        return False
    with suppress(psutil.Error, OSError):
        if any(f"{folder}/" in argument for argument in (*process.cmdline(), process.cwd())):
            return True
        return process.environ().get(RUN_FOLDER) == str(folder)
    return False


def _end(processes: list[psutil.Process]) -> None:
    """End processes at once, servers in their immediate mode, and wait until they are gone."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            is_server = process.name() == "postgres"
            process.send_signal(signal.SIGQUIT if is_server else signal.SIGKILL)
    _, alive = psutil.wait_procs(processes, timeout=_END_SECONDS)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()

"""A scratch folder holds the temporary files of one job: Python's, and those of its JVMs.

A job has its folder locked as long as it lives. A folder without a lock was left by a job that was
killed together with the process that started it; the next job removes it.
"""

import fcntl
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

_LOCK = "lock"


def make_scratch(parent: Path) -> tuple[Path, IO[str]]:
    """Make a folder for one job, and remove those that killed jobs left beside it.

    Returns the folder and the file that locks it, for the job's process to inherit. Raises
    ``OSError``.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for abandoned in without_lock(parent.iterdir()):
        shutil.rmtree(abandoned, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=parent))
    return folder, lock(folder)


def lock(folder: Path) -> IO[str]:
    """Lock a new folder until the returned file is closed in every process that has it open."""
    # Give the file its name once it is locked, so that nobody finds it without a lock.
    file = open(folder / f"{_LOCK}.new", "w")  # noqa: SIM115
    fcntl.flock(file, fcntl.LOCK_EX)
    os.rename(file.name, folder / _LOCK)
    return file


def without_lock(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the folders that were locked by processes that have ended; each is locked meanwhile."""
    for folder in folders:
        # BlockingIOError: the folder is locked.
        with suppress(OSError), open(folder / _LOCK, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder


def temporary_files_in(folder: Path) -> dict[str, str]:
    """Return the variables with which Python and Spark keep temporary files in the folder.

    Java ignores ``TMPDIR``. Without a setting of its own Spark uses Java's folder for what does not
    fit into memory, too; ``spark.local.dir`` and ``SPARK_LOCAL_DIRS`` keep their meaning.
    """
    option = shlex.quote(f"-Djava.io.tmpdir={folder}")
    java_options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {option}".strip()
    return {"TMPDIR": str(folder), "SPARK_SUBMIT_OPTS": java_options}

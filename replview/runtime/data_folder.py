"""This module manages the data folder of a stack: its lock, its secrets, and how to reach it.

``lock``     a file that is locked (flock) by the command that runs the stack; it holds pid and URL
``env``      the variables to reach the running stack, KEY=VALUE lines; exists only while it runs
``secrets``  the secret key and the password of the login, made once and kept
``logs/``    one file for each process
``run/``     supervisord's configuration, socket and pid
"""

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from replview.runtime.machine import StackProblem
from replview.runtime.servers.server_user import server_user
from replview.text.formats import bytes_words

#: A Unix socket's path has at most 108 bytes; supervisord adds its pid to the path while binding.
_MAX_SOCKET_PATH_BYTES = 90
_NEEDED_FREE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class FolderHolder:
    """The process that has locked a data folder, or had when it was killed."""

    pid: int
    url: str


class DataFolder:
    """A data folder, which ``acquire`` locks until ``release`` or the end of the process."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        self.logs = self.path / "logs"
        self.run = self.path / "run"
        #: A file with the folder of the socket if it is elsewhere, which the next start removes.
        self._socket_record = self.run / "socket-folder"
        self._lock: int | None = None

    def create(self) -> None:
        """Create the folder, closed to others; under root the servers' user may pass through it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o711 if server_user() else 0o700)
            for folder in (self.logs, self.run):
                folder.mkdir(exist_ok=True)
                folder.chmod(0o700)
        except OSError as error:
            raise StackProblem(
                f"the data folder {self.path} cannot be used: {error.strerror}",
                "Choose another with --data",
            ) from None
        free_bytes = shutil.disk_usage(self.path).free
        if free_bytes < _NEEDED_FREE_BYTES:
            raise StackProblem(
                f"only {bytes_words(free_bytes)} are free in {self.path}, about "
                f"{bytes_words(_NEEDED_FREE_BYTES)} is needed",
                "Free some, or choose a folder on another disk with --data",
            )

    def acquire(self, url: str) -> FolderHolder | None:
        """Lock the folder until our process ends, in whatever way.

        Returns the holder that was killed while it had the lock, or None. Raises ``StackProblem``
        if another process holds the lock.
        """
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            holder = self.holder()
            url_text = f" at {holder.url}" if holder else ""
            stop = f" or `kill {holder.pid}`" if holder else ""
            raise StackProblem(
                f"replview already runs on {self.path}{url_text}",
                f"Stop it with Ctrl-C in its terminal{stop}, or choose another folder with --data",
            ) from None
        former_holder = self.holder()
        self._lock = descriptor
        self._remove_socket_folder()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {url}\n".encode(), 0)
        return former_holder

    def release(self) -> None:
        """Unlock the folder when nothing runs on it any more."""
        self.remove_env()
        self._remove_socket_folder()
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def holder(self) -> FolderHolder | None:
        """Return the process that the lock file names; it may have ended."""
        with suppress(OSError, ValueError):
            pid, url = (self.path / "lock").read_text().split()
            return FolderHolder(int(pid), url)
        return None

    def secrets(self) -> dict[str, str]:
        """Return the secret key and the login's password, made at the first start."""
        variables = _read_lines(self.path / "secrets")
        lengths = {"REPLVIEW_SECRET_KEY": 48, "REPLVIEW_LOGIN_PASSWORD": 9}
        if not lengths.keys() <= variables.keys():
            generated = {name: secrets.token_urlsafe(length) for name, length in lengths.items()}
            variables = {**generated, **variables}
            _write_lines(self.path / "secrets", variables)
        return variables

    def write_env(self, variables: Mapping[str, str]) -> None:
        """Write the file that tells other commands how to reach the running stack."""
        _write_lines(self.path / "env", variables)

    def remove_env(self) -> None:
        """Remove the file that tells other commands how to reach the stack."""
        (self.path / "env").unlink(missing_ok=True)

    def socket_path(self) -> Path:
        """Return a path for supervisord's socket that is short enough and in a private folder."""
        path = self.run / "supervisor.sock"
        if len(os.fsencode(path)) <= _MAX_SOCKET_PATH_BYTES:
            return path
        folder = Path(tempfile.mkdtemp(prefix="replview-", dir="/tmp"))
        self._socket_record.write_text(str(folder))
        return folder / "supervisor.sock"

    def _remove_socket_folder(self) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._socket_record.read_text(), ignore_errors=True)
            self._socket_record.unlink()


def _read_lines(path: Path) -> dict[str, str]:
    with suppress(FileNotFoundError):
        pairs = (line.partition("=") for line in path.read_text().splitlines())
        return {name: value for name, separator, value in pairs if separator}
    return {}


def _write_lines(path: Path, variables: Mapping[str, str]) -> None:
    """Write KEY=VALUE lines to a file that only we may read, atomically."""
    aside = path.with_name(f"{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(aside, flags, stat.S_IRUSR | stat.S_IWUSR), "w") as file:
        file.writelines(f"{name}={value}\n" for name, value in variables.items())
    aside.replace(path)

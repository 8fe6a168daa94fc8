"""This module decides which account runs the embedded servers, and gives it access to files.

PostgreSQL refuses to run as root. An unprivileged user may have no access to a private home, where
both the virtual environment and the data folder may be. Parent folders are never opened: programs
are copied, and data kept, below ``/var/lib/replview``, which only root writes.
"""

import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from replview.runtime.machine import StackProblem

#: The folder for files that the servers' user must read and cannot reach where they are.
REACHABLE_PLACE = Path("/var/lib/replview")


@dataclass(frozen=True, slots=True)
class ServerUser:
    """The account that servers run as."""

    name: str
    uid: int
    gid: int

    def can_enter(self, folder: Path) -> bool:
        """Return whether the account may enter the folder (asked of the kernel, so ACLs count)."""
        completed = subprocess.run(
            ["test", "-x", str(folder)], user=self.uid, group=self.gid, extra_groups=[], check=False
        )
        return completed.returncode == 0

    def own(self, path: Path) -> None:
        """Give a file or folder to the account."""
        os.chown(path, self.uid, self.gid, follow_symlinks=False)


@cache
def server_user() -> ServerUser | None:
    """Return the account that runs the servers; None: our own, which is not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return ServerUser(name, entry.pw_uid, entry.pw_gid)
    raise StackProblem(
        "PostgreSQL does not run as root and there is no account `postgres` or `nobody`",
        "Add one (`useradd --system postgres`) or run as an ordinary user",
    )


def reachable_programs(bin_folder: Path) -> Path:
    """Return the folder of the programs, or of a copy that the servers' user can run.

    The copy belongs to root, so that nobody can change what root later runs. It is made in a
    temporary folder and renamed, so that a parallel start sees all of it or nothing.
    """
    user = server_user()
    if user is None or user.can_enter(bin_folder):
        return bin_folder
    install, package = bin_folder.parent, bin_folder.parent.parent
    stamp = f"{bin_folder / 'postgres'} {(bin_folder / 'postgres').stat().st_mtime_ns}"
    target = _root_folder("programs") / hashlib.sha256(stamp.encode()).hexdigest()[:16]
    copied_bin = target / package.name / install.name / "bin"
    if copied_bin.exists():
        return copied_bin
    aside = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    skip = shutil.ignore_patterns("include", "*.a", "pkgconfig", "doc", "man")
    shutil.copytree(install, aside / package.name / install.name, ignore=skip, symlinks=True)
    # The wheel keeps shared libraries in a folder beside the package, found relative to bin.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, aside / libraries.name, symlinks=True)
    _open_for_reading(aside)
    try:
        aside.rename(target)
    except OSError:
        # A parallel start was faster.
        shutil.rmtree(aside)
    return copied_bin


def reachable_data(data_dir: Path) -> Path:
    """Return the folder of a cluster that the servers' user can enter.

    If the user cannot enter the parent of ``data_dir``, this is a folder below
    ``/var/lib/replview/data``, always the same for the same ``data_dir``, which becomes a link to
    it.
    """
    user = server_user()
    if user is None or user.can_enter(data_dir.parent):
        return data_dir
    digest = hashlib.sha256(str(data_dir).encode()).hexdigest()[:16]
    real = _root_folder("data") / f"{data_dir.name}-{digest}"
    if not data_dir.is_symlink():
        if data_dir.exists():
            raise StackProblem(
                f"the account `{user.name}`, which must run PostgreSQL, cannot reach {data_dir}",
                "Choose another folder with --data",
            )
        # The link and the password are gone, so nobody can open an old cluster there.
        shutil.rmtree(real, ignore_errors=True)
        data_dir.symlink_to(real)
    return real


def _root_folder(name: str) -> Path:
    """Return a folder in ``/var/lib/replview`` that everyone may enter and only root may write."""
    folder = REACHABLE_PLACE / name
    for step in (REACHABLE_PLACE, folder):
        step.mkdir(exist_ok=True)
        step.chmod(0o755)
    return folder


def _open_for_reading(tree: Path) -> None:
    """Make a copy that root owns readable for everyone, whatever root's umask."""
    for folder, _, files in os.walk(tree):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)

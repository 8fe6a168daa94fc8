"""Who runs the embedded servers.

PostgreSQL refuses to run as root. The unprivileged user may be shut out of a private home, where
both the virtual environment and the data folder may lie. Parent folders are never opened up for
him: programs are copied, and his data kept, below ``/var/lib/replview``, which only root writes.
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

#: For what the server's user must reach and cannot reach where it is.
REACHABLE_PLACE = Path("/var/lib/replview")


@dataclass(frozen=True, slots=True)
class ServerUser:
    """The account that servers run as."""

    name: str
    uid: int
    gid: int

    def can_enter(self, folder: Path) -> bool:
        """Whether the account may go into the folder (asked of the kernel, so ACLs count)."""
        done = subprocess.run(
            ["test", "-x", str(folder)], user=self.uid, group=self.gid, extra_groups=[], check=False
        )
        return done.returncode == 0

    def own(self, path: Path) -> None:
        """Give a file or folder to the account."""
        os.chown(path, self.uid, self.gid, follow_symlinks=False)


@cache
def server_user() -> ServerUser | None:
    """Who runs the servers; ``None`` is ourselves, as whenever we are not root."""
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
    """The same programs where the server's user can run them: a copy if need be.

    The copy stays root's, so that nobody can change what root later runs. It is made aside and
    renamed: whoever starts at the same moment sees all of it or nothing.
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
    except OSError:  # another start was quicker
        shutil.rmtree(aside)
    return copied_bin


def reachable_data(data_dir: Path) -> Path:
    """Where a cluster with this name really lies: there, or where the server's user can go.

    In the second case ``data_dir`` becomes a link to a folder below ``/var/lib/replview/data``,
    always the same for the same ``data_dir``.
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
        # The folder that named it is gone, and its password with it: nobody can open it.
        shutil.rmtree(real, ignore_errors=True)
        data_dir.symlink_to(real)
    return real


def _root_folder(name: str) -> Path:
    """A folder below ``/var/lib/replview`` that everyone may enter and only root may write."""
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

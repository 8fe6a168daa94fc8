"""Clusters made once a run and then copied: initdb and the migrations are most of a server's start.

Copies of one cluster have one system identifier and one password. Whatever must be *another*
cluster than those beside it is made anew: ``EmbeddedPostgres.temporary``.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.server_user import server_user
from tests.support import server_programs
from tests.support.run_folder import RUN_FOLDER

ROOT = Path(__file__).resolve().parents[2]
#: In a copied store's cluster: a migrated database to copy with CREATE DATABASE … TEMPLATE.
STORE_TEMPLATE = "template_store"
#: The tests' store, a copy of it.
STORE = "test_replview"


def copied(
    version: int = 18, settings: Mapping[str, str | int] | None = None, *, store: bool = False
) -> EmbeddedPostgres:
    """A server for tests that starts from a copy; with ``store``, ``STORE_TEMPLATE`` is in it.

    Raises ``ProgramsMissing`` where that version is not to be had.
    """
    server_programs.ensure(version)
    # Debian's server compiles large queries on catalogs, which takes longer than running them.
    chosen = {"jit": "off", **(settings or {})}
    if version < 13:
        chosen.pop("logical_decoding_work_mem", None)
    server = EmbeddedPostgres.temporary(version=version, settings=chosen)
    copy_cluster(server.data_dir, version, store=store)
    return server


def copy_cluster(data_dir: Path, version: int = 18, *, store: bool = False) -> None:
    """Put a copy where an ``EmbeddedPostgres`` that has not been started will look for it."""
    original = _original(version, store=store)
    # With its owner, which shutil would not see to.
    subprocess.run(["cp", "-a", str(original.data_dir), str(data_dir)], check=True)
    password = f"{data_dir.name}.password"
    shutil.copy2(original.data_dir.with_name("data.password"), data_dir.with_name(password))


def _original(version: int, *, store: bool) -> EmbeddedPostgres:
    """The cluster to copy, made by whoever needs it first; others wait until it is whole."""
    clusters = Path(os.environ[RUN_FOLDER]) / "clusters"
    folder = clusters / (f"{version}-store" if store else str(version))
    folder.mkdir(exist_ok=True, parents=True)
    with _locked(folder.with_suffix(".lock")):
        whole = folder / "whole"
        if server_user():
            folder.chmod(0o711)
            clusters.chmod(0o711)
        server = EmbeddedPostgres(folder / "data", version=version, fast=True)
        if not whole.exists():
            if store:
                _migrate(server)
            else:
                server.prepare()
            whole.touch()
    return server


def _migrate(server: EmbeddedPostgres) -> None:
    server.start()
    try:
        server.create_database(STORE_TEMPLATE)
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--skip-checks", "--verbosity", "0"],
            cwd=ROOT,
            env={**os.environ, "REPLVIEW_STORE_URL": server.dsn(STORE_TEMPLATE)},
            check=True,
            timeout=300,
        )
    finally:
        server.stop()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

"""This module creates, checks and configures a database cluster, and runs its programs.

Sources: PostgreSQL documentation, "initdb" and "Setting Parameters".
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from replview.runtime.machine import StackProblem
from replview.runtime.servers.server_programs import pg_bin
from replview.runtime.servers.server_user import reachable_programs, server_user

_CONFIGURATION = "replview.conf"
#: The environment of the servers, without our secrets and without PGPORT or LC_ALL.
CLEAN_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def make_cluster(folder: Path, *, version: int, user: str, password: str, encoding: str) -> None:
    """Create a cluster in a new folder, then rename it: an interrupted one is never used."""
    aside = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    descriptor, password_file = tempfile.mkstemp(prefix="replview-")
    with os.fdopen(descriptor, "w") as file:
        file.write(password)
    if account := server_user():
        account.own(aside)
        account.own(Path(password_file))
    # No sync is needed, as the checkpoint of the first start syncs the files.
    fast_options = ["--no-sync", "--auth=scram-sha-256"]
    login_options = [f"--username={user}", f"--pwfile={password_file}"]
    # Strings sort the same way on every machine; non-ASCII letters are known where possible.
    sort_options = [f"--encoding={encoding}", "--locale=C"]
    if version >= 17 and encoding == "UTF8":
        sort_options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    try:
        run_program(
            version, "initdb", "-D", str(aside), *fast_options, *login_options, *sort_options
        )
    finally:
        os.unlink(password_file)
    with open(aside / "postgresql.conf", "a") as configuration:
        configuration.write(f"\ninclude '{_CONFIGURATION}'\n")
    if folder.exists():
        # This removes only an empty folder; other content is not ours.
        folder.rmdir()
    aside.rename(folder)


def check_version(folder: Path, version: int) -> None:
    """Raise ``StackProblem`` unless the cluster is of this major version."""
    made_by = (folder / "PG_VERSION").read_text().strip()
    if made_by != str(version):
        raise StackProblem(
            f"{folder} holds data of PostgreSQL {made_by}, this is {version}",
            "Choose another folder with --data",
        )


def write_configuration(folder: Path, settings: Mapping[str, str | int]) -> None:
    """Write our settings to a file, which overrides initdb's settings but not ALTER SYSTEM's."""
    quoted = {name: str(value).replace("'", "''") for name, value in settings.items()}
    path = folder / _CONFIGURATION
    # The servers' user owns the folder, so root must not follow a link in it.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in quoted.items())
    if account := server_user():
        account.own(path)


def program(version: int, name: str) -> str:
    """Return the full path of a program that the servers' user can run."""
    return str(reachable_programs(pg_bin(version)) / name)


def run_program(version: int, name: str, *arguments: str) -> None:
    """Run a program to its end as the servers' user. Raises ``StackProblem`` with its last line.

    It has a session of its own; otherwise Ctrl-C in the terminal would reach a server that pg_ctl
    starts. Its output goes to a file, because that server would keep a pipe open.
    """
    user = server_user()
    with tempfile.TemporaryFile() as output:
        completed = subprocess.run(
            [program(version, name), *arguments],
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
            cwd="/",
            env=CLEAN_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            check=False,
        )
        output.seek(0)
        output_text = output.read().decode(errors="replace")
    if completed.returncode:
        last_line = output_text.strip().splitlines()[-1:] or [f"exit status {completed.returncode}"]
        raise StackProblem(f"{name} failed: {last_line[0]}")

"""A cluster on disk: made by initdb, checked, and given its configuration file.

Sources: PostgreSQL documentation, "initdb" and "Setting Parameters".
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from replview.runtime.problems import StackProblem
from replview.runtime.servers.pg_programs import run_program
from replview.runtime.servers.server_user import server_user

_CONFIGURATION = "replview.conf"


def make_cluster(folder: Path, *, version: int, user: str, password: str, encoding: str) -> None:
    """Make a cluster aside and rename it: an interrupted one is never taken for whole."""
    aside = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    descriptor, password_file = tempfile.mkstemp(prefix="replview-")
    with os.fdopen(descriptor, "w") as file:
        file.write(password)
    if account := server_user():
        account.own(aside)
        account.own(Path(password_file))
    # Nothing is worth a sync before the first start, whose checkpoint syncs it.
    quick = ["--no-sync", "--no-instructions", "--auth=scram-sha-256"]
    who = [f"--username={user}", f"--pwfile={password_file}"]
    try:
        options = [*quick, *who, *_locale_options(version, encoding)]
        run_program(version, "initdb", "-D", str(aside), *options)
    finally:
        os.unlink(password_file)
    with open(aside / "postgresql.conf", "a") as configuration:
        configuration.write(f"\ninclude '{_CONFIGURATION}'\n")
    if folder.exists():
        folder.rmdir()  # an empty one is fine, anything else is not ours
    aside.rename(folder)


def check_version(folder: Path, version: int) -> None:
    """Raise unless the cluster was made by this major version."""
    made_by = (folder / "PG_VERSION").read_text().strip()
    if made_by != str(version):
        raise StackProblem(
            f"{folder} holds data of PostgreSQL {made_by}, this is {version}",
            "Choose another folder with --data",
        )


def write_configuration(folder: Path, settings: Mapping[str, str | int]) -> None:
    """Our settings, in a file of their own: after initdb's, before ALTER SYSTEM's."""
    lines = []
    for name, value in settings.items():
        quoted = str(value).replace("'", "''")
        lines.append(f"{name} = '{quoted}'\n")
    path = folder / _CONFIGURATION
    # The folder is the server user's: root must not follow a link he may have put there.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w") as file:
        file.writelines(lines)
    if account := server_user():
        account.own(path)


def _locale_options(version: int, encoding: str) -> list[str]:
    """The same order of strings on every machine; letters beyond ASCII known where possible."""
    options = [f"--encoding={encoding}", "--locale=C"]
    if version >= 17 and encoding == "UTF8":
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return options

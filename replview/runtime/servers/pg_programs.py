"""Running PostgreSQL's own programs as the account that owns the clusters."""

import subprocess
import tempfile

from replview.runtime.binaries import pg_bin
from replview.runtime.problems import StackProblem
from replview.runtime.servers.server_user import reachable_programs, server_user

#: The servers see nothing of our environment: neither its secrets nor a PGPORT or LC_ALL.
CLEAN_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def program(version: int, name: str) -> str:
    """The full path of a program, where the servers' user can run it."""
    return str(reachable_programs(pg_bin(version)) / name)


def run_program(version: int, name: str, *arguments: str) -> None:
    """Run a program to its end as the servers' user; raise with the last it said.

    In a session of its own, or Ctrl-C in the terminal would reach a server that pg_ctl starts.
    Output goes to a file: that server would keep a pipe open for ever.
    """
    user = server_user()
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
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
        said = output.read().decode(errors="replace")
    if done.returncode:
        last = said.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise StackProblem(f"{name} failed: {last[0]}")

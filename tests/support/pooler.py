"""A real PgBouncer before a database, where one is installed."""

import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from replview.runtime.machine import free_port
from replview.runtime.servers.server_user import server_user
from tests.support.source_databases import SourceDatabase

_PROGRAM = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")


@contextmanager
def pooler(
    source: SourceDatabase, *, pool_size: int = 3, mode: str = "transaction"
) -> Iterator[str]:
    """The DSN of the source's database through the pooler; skips the test where there is none."""
    if _PROGRAM is None:
        pytest.skip("PgBouncer is not installed (Debian's pgbouncer)")
    user = server_user()  # it does not run as root
    folder = Path(tempfile.mkdtemp(prefix="replview-bouncer-"))
    port, password = free_port(None), secrets.token_urlsafe(12)
    server = source.server
    (folder / "users.txt").write_text(f'"postgres" "{password}"\n')
    (folder / "pgbouncer.ini").write_text(
        f"""
[databases]
{source.name} = host=127.0.0.1 port={server.port} user=postgres password={server.password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {folder}/users.txt
pool_mode = {mode}
default_pool_size = {pool_size}
logfile = {folder}/log
"""
    )
    for path in (folder, *folder.iterdir()):
        path.chmod(0o700)
        if user:
            user.own(path)
    process = subprocess.Popen(
        [_PROGRAM, "-q", str(folder / "pgbouncer.ini")],
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    dsn = f"postgresql://postgres:{quote(password)}@127.0.0.1:{port}/{source.name}"
    try:
        _wait_until_it_answers(dsn, process)
        yield dsn
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_it_answers(dsn: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 10
    while True:
        assert process.poll() is None, "PgBouncer ended"
        try:
            psycopg.connect(dsn).close()
            return
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, "PgBouncer does not answer"
            time.sleep(0.05)

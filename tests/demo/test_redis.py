"""The embedded Redis: a real server, started and stopped."""

from pathlib import Path

from replview.runtime.machine import is_running
from replview.runtime.servers.redis import EmbeddedRedis


def pid_of(server: EmbeddedRedis) -> int:
    return int((server.data_dir / "redis.pid").read_text())


def test_answers_with_its_password_and_not_without() -> None:
    with EmbeddedRedis.temporary() as server:
        assert server.is_ready()
        right, server.password = server.password, "wrong"
        assert not server.is_ready()
        server.password = right


def test_keeps_its_password_to_its_owner(folder: Path) -> None:
    server = EmbeddedRedis(folder / "redis").prepare()
    assert (server.data_dir / "redis.conf").stat().st_mode & 0o777 == 0o600
    assert server.password not in " ".join(server.argv())


def test_stopping_leaves_neither_process_nor_folder() -> None:
    with EmbeddedRedis.temporary() as server:
        pid = pid_of(server)
    assert not is_running(pid)
    assert not server.data_dir.exists()


def test_takes_over_from_a_server_left_running(folder: Path) -> None:
    left = EmbeddedRedis(folder / "redis")
    left.start()
    pid = pid_of(left)
    with EmbeddedRedis(folder / "redis") as server:
        assert server.is_ready()
        assert pid_of(server) != pid
    left.stop()

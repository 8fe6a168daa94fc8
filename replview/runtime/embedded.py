"""This module manages the embedded servers of a stack: the store, the source, Redis."""

import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from replview.runtime.data_folder import DataFolder
from replview.runtime.machine import TAKEN, StackProblem, StartInterrupted
from replview.runtime.programs import priority
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.redis import EmbeddedRedis
from replview.runtime.servers.server_user import server_user
from replview.runtime.supervisor import Program, Supervisor

#: Settings of the store, which is written in batches and read by pages.
_STORE_SETTINGS = {"shared_buffers": "128MB", "wal_level": "replica", "max_wal_size": "2GB"}
#: Settings of the source. A small ``logical_decoding_work_mem`` makes the shop's larger
#: transactions stream while in progress; the limit on retained WAL protects the disk.
_SOURCE_SETTINGS = {
    "logical_decoding_work_mem": "64kB",
    "max_slot_wal_keep_size": "4GB",
    "track_commit_timestamp": "on",
}
_READY_SECONDS = 60
#: States of a program that ended; supervisord restarts it, except from the last one.
_ENDED_STATES = ("EXITED", "BACKOFF", "FATAL")


class PortTaken(Exception):
    """Another program took a port that was free a moment ago; prepare and start again."""


class Servers:
    """Store, Redis, and (unless ``source`` is false) the cluster of the demo's shop.

    The store has a cluster of its own because otherwise the walsender would have to read the WAL
    that storing its own changes writes.
    """

    def __init__(self, folder: DataFolder, *, source: bool = True) -> None:
        self.store = EmbeddedPostgres(folder.path / "store", settings=_STORE_SETTINGS)
        self.redis = EmbeddedRedis(folder.path / "redis")
        self.source = (
            EmbeddedPostgres(folder.path / "source", settings=_SOURCE_SETTINGS) if source else None
        )

    def end_leftovers(self) -> int:
        """Stop servers that a killed stack left running, and return their number."""
        ended = int(self.redis.end_leftover())
        for server in self._clusters():
            ended += server.stop(timeout_seconds=30)
        return ended

    def prepare(self) -> None:
        """Create the clusters at the first start, choose ports, write configurations."""
        with ThreadPoolExecutor() as pool:
            futures = [pool.submit(cluster.prepare) for cluster in self._clusters()]
            self.redis.prepare()
        for future in futures:
            future.result()

    def programs(self) -> list[Program]:
        """Return the prepared servers as programs for the process manager."""
        programs = [
            Program(name="redis", argv=self.redis.argv(), priority=priority("redis")),
            _program("store", self.store),
        ]
        return [*programs, _program("source", self.source)] if self.source else programs

    def wait_until_ready(self, supervisor: Supervisor, stopping: threading.Event) -> None:
        """Wait until all servers answer. Raises ``PortTaken`` if another start may succeed."""
        waiting: dict[str, EmbeddedPostgres | EmbeddedRedis]
        waiting = {"store": self.store, "redis": self.redis}
        if self.source:
            waiting["source"] = self.source
        deadline = time.monotonic() + _READY_SECONDS
        while waiting:
            waiting = {name: server for name, server in waiting.items() if not server.is_ready()}
            _refuse_taken_port(supervisor, waiting)
            refuse_if_failed(supervisor, waiting, deadline)
            if stopping.wait(0.03):
                raise StartInterrupted
        self.store.create_database("replview")
        if self.source:
            self.source.create_database("shop")

    def environment(self) -> dict[str, str]:
        """Return the variables with which replview's processes reach the servers."""
        variables = {
            "REPLVIEW_STORE_URL": self.store.dsn("replview"),
            "REPLVIEW_REDIS_URL": self.redis.url(),
        }
        if self.source:
            variables["REPLVIEW_DEMO_SOURCE_URL"] = self.source.dsn("shop")
        return variables

    def _clusters(self) -> Sequence[EmbeddedPostgres]:
        return [self.store, self.source] if self.source else [self.store]


def _refuse_taken_port(supervisor: Supervisor, names: Iterable[str]) -> None:
    """Raise ``PortTaken`` if a server ended because its port was taken.

    Without this, the stack would wait until supervisord gives up.
    """
    ended_names = {state.name for state in supervisor.states() if state.state in _ENDED_STATES}
    for name in ended_names & set(names):
        if any(message in line for message in TAKEN for line in supervisor.last_lines(name, 6)):
            raise PortTaken


def refuse_if_failed(supervisor: Supervisor, names: Iterable[str], deadline: float) -> None:
    """Raise ``StackProblem`` if supervisord gave up an awaited program, or it takes too long."""
    states = {state.name: state for state in supervisor.states()}
    for name in names:
        state = states[name]
        is_late = time.monotonic() > deadline
        if state.is_given_up or is_late:
            log_lines = " | ".join(supervisor.last_lines(name, 6)) or state.spawn_error
            raise StackProblem(
                f"{name} {'takes too long to start' if is_late else 'does not start'}"
                f"{f': {log_lines}' if log_lines else ', and says nothing'}",
                f"Its log is {supervisor.log_path(name)}",
            )


def _program(name: str, server: EmbeddedPostgres) -> Program:
    """Return the program of a PostgreSQL server.

    It is stopped by SIGINT, PostgreSQL's fast shutdown: sessions end, and committed data is on
    disk.
    """
    user = server_user()
    return Program(
        name=name,
        argv=server.argv(),
        priority=priority(name),
        stop_signal="INT",
        user=user.name if user else None,
        # Our own folder may be closed to the account of the servers.
        folder=Path("/"),
    )

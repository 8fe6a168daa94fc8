"""Where troubles are made: the shop's server, the store, the demo's processes."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

import psycopg

from replview.demo.workload.session import connect
from replview.runtime.leftovers import marked_processes

#: Of the slot that the demo receives.
OUR_SLOT = "replview"
SOURCE_NAME = "shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Everything a trouble may reach."""

    #: The shop's database, as superuser.
    dsn: str
    #: Of the running stack; its processes carry it as their mark.
    data: Path

    @contextmanager
    def shop(self, who: str) -> Iterator[psycopg.Connection]:
        """A session of its own in autocommit mode, named ``trouble …`` to the server."""
        with connect(self.dsn, f"trouble {who}") as connection:
            yield connection

    def processes(self, program: str) -> list[int]:
        """The stack's Celery workers of this name, or of this name and a number."""
        return [pid for pid in marked_processes(self.data) if _worker_of(pid).startswith(program)]


def wait_until(holds: Callable[[], bool], seconds: float, every_seconds: float = 0.2) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_seconds)
    return True


def number(connection: psycopg.Connection, query: LiteralString, *values: object) -> int | None:
    """The one number a query tells; None: it tells none."""
    row = connection.execute(query, values).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def _worker_of(pid: int) -> str:
    """The Celery worker's name before the ``@``; empty: not a worker."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    if b"-n" not in words[:-1] or b"worker" not in words:
        return ""
    return os.fsdecode(words[words.index(b"-n") + 1]).partition("@")[0]

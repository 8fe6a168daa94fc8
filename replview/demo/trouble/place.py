"""Where troubles are made: the shop's server, the store, the demo's processes."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, LiteralString

import psycopg

from replview.demo.workload.session import connect
from replview.runtime.machine import marked_processes

MB = 1 << 20
#: The WAL a slot retains.
RETAINED: LiteralString = (
    "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) FROM pg_replication_slots"
    " WHERE slot_name = %s"
)
#: Of the slot that the demo receives.
OUR_SLOT = "replview"
SOURCE_NAME = "shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
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


class CannotMake(Exception):
    """Why the trouble cannot be made now, in a sentence for the page."""


class Trouble(ABC):
    """One way in which replication goes wrong."""

    #: As ``store.demo_troubles.NAMES`` has it.
    name: ClassVar[str]
    #: It ends by itself after so long.
    lasts_seconds: ClassVar[float] = 300.0
    #: Alert rules, beside those that come with replview, that are on while the trouble is: a demo
    #: has no patience for half an hour.
    rules: ClassVar[tuple[dict[str, Any], ...]] = ()

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def make(self) -> Iterator[bool]:
        """Make it and keep it up: False while it is coming, True while it is there.

        Asked for the next every ``pause_seconds``; it may end by itself. Raises ``CannotMake``.
        """

    @abstractmethod
    def end(self) -> None:
        """Undo it, whoever made it and however far it came; nothing is left when this returns.

        May be called when there is nothing to undo.
        """

    def is_over(self) -> bool:
        """Whether its consequences are over, once it has been ended."""
        return True

    #: Between two steps of ``make``.
    pause_seconds: ClassVar[float] = 0.5

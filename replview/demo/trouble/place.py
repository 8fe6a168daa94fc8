"""This module gives troubles access to the shop's server and to the demo's processes."""

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
#: The query for the WAL that a slot retains.
RETAINED: LiteralString = (
    "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) FROM pg_replication_slots"
    " WHERE slot_name = %s"
)
#: The name of the slot that the demo receives.
OUR_SLOT = "replview"
SOURCE_NAME = "shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleSite:
    """The place where troubles are made."""

    #: DSN of the shop's database, as superuser.
    dsn: str
    #: Data folder of the running stack, by which its processes are marked.
    data: Path

    @contextmanager
    def shop(self, session_name: str) -> Iterator[psycopg.Connection]:
        """Yield a session in autocommit mode with the application name ``trouble …``."""
        with connect(self.dsn, f"trouble {session_name}") as connection:
            yield connection

    def processes(self, program: str) -> list[int]:
        """Return the pids of Celery workers with this name, or a name that begins with it."""
        return [pid for pid in marked_processes(self.data) if _worker_of(pid).startswith(program)]


def number(connection: psycopg.Connection, query: LiteralString, *values: object) -> int | None:
    """Return the number that a query returns; None: it returns none."""
    row = connection.execute(query, values).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def _worker_of(pid: int) -> str:
    """Return the Celery worker's name before the ``@``; empty: the process is no worker."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    if b"-n" not in arguments[:-1] or b"worker" not in arguments:
        return ""
    return os.fsdecode(arguments[arguments.index(b"-n") + 1]).partition("@")[0]


class CannotMake(Exception):
    """The reason why a trouble cannot be made now, as a sentence for the page."""


class Trouble(ABC):
    """A way in which replication goes wrong."""

    #: A name of ``store.demo_troubles.NAMES``.
    name: ClassVar[str]
    #: Seconds after which the trouble ends by itself.
    lasts_seconds: ClassVar[float] = 300.0
    #: Alert rules that are on while the trouble lasts, because the rules that come with replview
    #: may take half an hour to fire.
    rules: ClassVar[tuple[dict[str, Any], ...]] = ()

    def __init__(self, place: TroubleSite) -> None:
        self.place = place

    @abstractmethod
    def make(self) -> Iterator[bool]:
        """Make the trouble and keep it up: yield False while it develops, True while it is present.

        The next value is requested every ``pause_seconds``. The trouble may end by itself. Raises
        ``CannotMake``.
        """

    @abstractmethod
    def end(self) -> None:
        """Undo the trouble, whoever made it and however far it came; nothing may be left.

        It may be called when there is nothing to undo.
        """

    def is_over(self) -> bool:
        """Return whether the effects have ended, once the trouble was undone."""
        return True

    #: Seconds between two steps of ``make``.
    pause_seconds: ClassVar[float] = 0.5

"""This module keeps connections to sources open, because opening one costs more than a sample.

Each keeps what seldom changes: the server's facts, which columns the role may read, and the size of
the WAL directory, which is read less often than the rest.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import psycopg

from replview.catalog.connections import Connection, cut_after, open_reading
from replview.catalog.problems import explain
from replview.catalog.server import ServerFacts

Answer = TypeVar("Answer")
_NOT_PREPARED = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)


@dataclass(slots=True)
class CachedConnection:
    """A connection and the answers that were read on it; a new connection starts without any."""

    connection: Connection
    conninfo: str
    facts: ServerFacts | None = None
    #: ``time.monotonic()`` when the facts were read.
    facts_at: float = 0.0
    subscription_columns: list[str] = field(default_factory=list)
    may_list_wal: bool = False
    may_read_checkpoints: bool = False
    wal_directory_bytes: int | None = None
    wal_directory_at: float = 0.0


class KeptConnections:
    """At most one connection for each source; only one thread samples a source at a time."""

    def __init__(self) -> None:
        self._kept: dict[int, CachedConnection] = {}
        #: Sources whose connections lost prepared statements.
        self._unprepared: set[int] = set()
        self._lock = threading.Lock()

    def ask(
        self,
        source_id: int,
        conninfo: str,
        question: Callable[[CachedConnection], Answer],
        *,
        deadline_seconds: float,
    ) -> Answer:
        """Return the answer of the source to ``question``. Raises ``SourceProblem``.

        A kept connection that turns out to be closed is reopened once. A connection that does not
        answer in time is closed.
        """
        try:
            cached = self._take(source_id, conninfo)
            if cached is not None:
                try:
                    return self._ask_cached(source_id, cached, question, deadline_seconds)
                except _NOT_PREPARED:
                    # There is a pooler that was not detected.
                    self._unprepared.add(source_id)
                except _ConnectionClosed:
                    pass
            prepare = source_id not in self._unprepared
            opened = open_reading(conninfo, deadline_seconds=deadline_seconds, prepare=prepare)
            cached = CachedConnection(connection=opened, conninfo=conninfo)
            try:
                return self._ask_cached(source_id, cached, question, deadline_seconds)
            except _ConnectionClosed as ended:
                raise ended.error from None
        except psycopg.Error as error:
            raise explain(error, conninfo) from None

    def close_others(self, source_ids: Iterable[int]) -> None:
        """Close the connections of all sources but these; nothing may be asking them."""
        remaining_ids = set(source_ids)
        with self._lock:
            removed = [self._kept.pop(key) for key in list(self._kept) if key not in remaining_ids]
        for cached in removed:
            cached.connection.close()

    def close(self) -> None:
        """Close all connections that no thread is using."""
        self.close_others(())

    def _take(self, source_id: int, conninfo: str) -> CachedConnection | None:
        """Remove and return the connection; None where there is none to this address."""
        with self._lock:
            cached = self._kept.pop(source_id, None)
        if cached is not None and (cached.conninfo != conninfo or cached.connection.closed):
            cached.connection.close()
            return None
        return cached

    def _ask_cached(
        self,
        source_id: int,
        cached: CachedConnection,
        question: Callable[[CachedConnection], Answer],
        deadline_seconds: float,
    ) -> Answer:
        """Return the answer, and keep the connection if there was no error."""
        try:
            with cut_after(deadline_seconds, cached.connection) as was_cut:
                answer = question(cached)
        except psycopg.OperationalError as error:
            was_closed = cached.connection.closed and not was_cut.is_set()
            cached.connection.close()
            if was_closed:
                raise _ConnectionClosed(error) from None
            raise
        except BaseException:
            cached.connection.close()
            raise
        with self._lock:
            former = self._kept.pop(source_id, None)
            self._kept[source_id] = cached
        if former is not None:
            former.connection.close()
        return answer


class _ConnectionClosed(Exception):
    """The other side closed the connection."""

    def __init__(self, error: psycopg.OperationalError) -> None:
        super().__init__(str(error))
        self.error = error

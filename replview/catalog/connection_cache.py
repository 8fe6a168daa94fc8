"""Connections to sources that are kept between looks: opening one costs more than a look.

Each keeps what seldom changes: the server's facts, which columns may be read, and the size of the
WAL directory, which is asked for less often than the rest.
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
class Kept:
    """One connection with what was asked on it; new with every connection."""

    connection: Connection
    conninfo: str
    facts: ServerFacts | None = None
    #: ``time.monotonic()`` of the last time each was asked.
    facts_at: float = 0.0
    subscription_columns: list[str] = field(default_factory=list)
    may_list_wal: bool = False
    may_read_checkpoints: bool = False
    wal_directory_bytes: int | None = None
    wal_directory_at: float = 0.0


class KeptConnections:
    """At most one a source; a source is looked at by one thread at a time."""

    def __init__(self) -> None:
        self._kept: dict[int, Kept] = {}
        #: Sources whose connections turned out not to keep what was prepared on them.
        self._unprepared: set[int] = set()
        self._lock = threading.Lock()

    def ask(
        self,
        source_id: int,
        conninfo: str,
        question: Callable[[Kept], Answer],
        *,
        deadline_seconds: float,
    ) -> Answer:
        """What the source answers; raises ``SourceProblem``. A kept connection that turns out to
        be dead is opened anew once; one that does not answer in time is given up.
        """
        try:
            kept = self._take(source_id, conninfo)
            if kept is not None:
                try:
                    return self._asked(source_id, kept, question, deadline_seconds)
                except _NOT_PREPARED:
                    # A pooler we did not notice.
                    self._unprepared.add(source_id)
                except _Ended:
                    pass
            prepare = source_id not in self._unprepared
            opened = open_reading(conninfo, deadline_seconds=deadline_seconds, prepare=prepare)
            kept = Kept(connection=opened, conninfo=conninfo)
            try:
                return self._asked(source_id, kept, question, deadline_seconds)
            except _Ended as ended:
                raise ended.error from None
        except psycopg.Error as error:
            raise explain(error, conninfo) from None

    def close_others(self, source_ids: Iterable[int]) -> None:
        """Close what belongs to sources that are no more; none of them is being asked."""
        wanted = set(source_ids)
        with self._lock:
            gone = [self._kept.pop(key) for key in list(self._kept) if key not in wanted]
        for kept in gone:
            kept.connection.close()

    def close(self) -> None:
        """Close all that nobody is asking at this moment."""
        self.close_others(())

    def _take(self, source_id: int, conninfo: str) -> Kept | None:
        """The connection, now the caller's; None where there is none to this address."""
        with self._lock:
            kept = self._kept.pop(source_id, None)
        if kept is not None and (kept.conninfo != conninfo or kept.connection.closed):
            kept.connection.close()
            return None
        return kept

    def _asked(
        self,
        source_id: int,
        kept: Kept,
        question: Callable[[Kept], Answer],
        deadline_seconds: float,
    ) -> Answer:
        """Ask, and keep the connection if all went well."""
        try:
            with cut_after(deadline_seconds, kept.connection) as was_cut:
                answer = question(kept)
        except psycopg.OperationalError as error:
            ended = kept.connection.closed and not was_cut.is_set()
            kept.connection.close()
            if ended:
                raise _Ended(error) from None
            raise
        except BaseException:
            kept.connection.close()
            raise
        with self._lock:
            former = self._kept.pop(source_id, None)
            self._kept[source_id] = kept
        if former is not None:
            former.connection.close()
        return answer


class _Ended(Exception):
    """The other side had closed the connection."""

    def __init__(self, error: psycopg.OperationalError) -> None:
        super().__init__(str(error))
        self.error = error

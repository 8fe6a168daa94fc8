"""Run query strings of the simple protocol on an ordinary connection, without blocking.

Every pooler passes the simple protocol on. Several statements in one string are one transaction, so
``SET LOCAL`` applies to them and to no later one.

Source: PostgreSQL documentation, "Asynchronous Command Processing"; "Multiple Statements in a
Simple Query".
"""

import select
import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq

#: Limit of rows or bytes where the caller sets none.
_ALL = 1 << 62
#: Seconds that the server may take to end a cancelled query before the connection is closed.
_CANCEL_SECONDS = 2.0


class SimpleQueries:
    """A runner of query strings, one at a time, on one connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self.socket = self._pgconn.socket
        self._readable = select.poll()
        self._readable.register(self.socket, select.POLLIN)
        self._woken = select.poll()
        self._woken.register(self.socket, select.POLLIN)
        self._both = select.poll()
        self._both.register(self.socket, select.POLLIN | select.POLLOUT)
        #: True while a query string runs.
        self.running = False
        self._copying = False
        self._error: psycopg.Error | None = None
        #: Rows of the SELECTs in this string that have ended, one list for each.
        self.results: list[list[tuple[bytes | None, ...]]] = []

    def send(self, query: bytes) -> None:
        """Send a query string. Raises ``psycopg.OperationalError`` if the connection is lost."""
        self.results = []
        self._error = None
        self._copying = False
        self._pgconn.send_query(query)
        self.running = True
        while self._pgconn.flush():
            # Not select(): it does not support descriptors above 1023.
            self._both.poll(1000)
            self._pgconn.consume_input()

    def read(self, max_rows: int = _ALL, max_bytes: int = _ALL) -> list[bytes]:
        """Return rows of a COPY that have arrived, up to ``max_rows`` or about ``max_bytes``.

        Rows of SELECTs go into ``results``. Never blocks. An error is raised when the string has
        ended and the connection can be used again.
        """
        rows: list[bytes] = []
        size = 0
        get = self._pgconn.get_copy_data
        if not self.running:
            self._pgconn.consume_input()  # raises if the server closed the connection
        while self.running and len(rows) < max_rows and size < max_bytes:
            if self._copying:
                length, buffer = get(1)
                if length > 0:
                    rows.append(bytes(buffer))
                    size += length
                elif length < 0:
                    self._copying = False
                elif not self._more_arrives():
                    break
            elif not self._pgconn.is_busy() or self._more_arrives():
                if not self._pgconn.is_busy():
                    self._take(self._pgconn.get_result())
            else:
                break
        if not self.running and self._error is not None:
            raise self._error
        return rows

    def run(self, query: bytes, deadline: float) -> list[list[tuple[bytes | None, ...]]]:
        """Run a query string to its end, and return the rows of its SELECTs, one list for each.

        A row is a tuple of the columns' text as bytes (None: NULL). Raises ``psycopg.Error`` of the
        server, and ``psycopg.OperationalError`` after ``deadline`` (seconds, monotonic).
        """
        self.send(query)
        self.finish(deadline)
        return self.results

    def finish(self, deadline: float) -> None:
        """Wait until the string has ended, and discard the rows of a COPY.

        Raises the same as ``run``.
        """
        self.read(max_bytes=1 << 20)
        while self.running:
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                raise psycopg.OperationalError("timeout: the server did not answer in time")
            self._readable.poll(min(seconds_left, 1.0) * 1000)
            self.read(max_bytes=1 << 20)

    def cancel(self) -> None:
        """Cancel the running string, and wait for its end.

        If it does not end in time, the caller must close the connection.
        """
        with suppress(psycopg.Error):
            self._connection.cancel_safe(timeout=_CANCEL_SECONDS)
            with suppress(psycopg.errors.QueryCanceled):
                self.finish(time.monotonic() + _CANCEL_SECONDS)

    def watch(self, descriptor: int) -> None:
        """Make ``wait`` return when this descriptor becomes readable, too."""
        self._woken.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait for data, for a watched descriptor, or for the timeout.

        Returns whether a watched descriptor is readable.
        """
        ready = self._woken.poll(max(0.0, seconds) * 1000)
        return any(descriptor != self.socket for descriptor, _ in ready)

    def _more_arrives(self) -> bool:
        if not self._readable.poll(0):
            return False
        self._pgconn.consume_input()
        return True

    def _take(self, result: pq.abc.PGresult | None) -> None:
        if result is None:
            self.running = False
        elif result.status == pq.ExecStatus.COPY_OUT:
            self._copying = True
        elif result.status == pq.ExecStatus.TUPLES_OK:
            columns = range(result.nfields)
            self.results.append(
                [tuple(result.get_value(row, c) for c in columns) for row in range(result.ntuples)]
            )
        elif result.status == pq.ExecStatus.FATAL_ERROR and self._error is None:
            self._error = psycopg.errors.error_from_result(result)

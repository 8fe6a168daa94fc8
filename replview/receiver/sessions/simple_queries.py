"""Query strings of the simple protocol on an ordinary connection, without ever blocking.

The simple protocol is what every pooler passes on. Several statements in one string are one
transaction, so ``SET LOCAL`` holds for them and for nobody after them.

Source: PostgreSQL documentation, "Asynchronous Command Processing"; "Multiple Statements in a
Simple Query".
"""

import select
import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq

#: Read this much of a COPY at most where nobody sets limits.
_ALL = 1 << 62
#: How long the server may take to end a cancelled string before we hang up.
_CANCEL_SECONDS = 2.0


class SimpleQueries:
    """Runs one query string at a time."""

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
        #: A string was sent and has not ended.
        self.running = False
        self._copying = False
        self._error: psycopg.Error | None = None
        #: The rows of the SELECTs of this string that have ended, a list for each.
        self.results: list[list[tuple[bytes | None, ...]]] = []

    def send(self, query: bytes) -> None:
        """Begin a query string. Raises ``psycopg.OperationalError`` if the connection is lost."""
        self.results = []
        self._error = None
        self._copying = False
        self._pgconn.send_query(query)
        self.running = True
        while self._pgconn.flush():
            # Not select(), which knows no descriptor beyond 1023.
            self._both.poll(1000)
            self._pgconn.consume_input()

    def read(self, max_rows: int = _ALL, max_bytes: int = _ALL) -> list[bytes]:
        """Return the rows of a COPY that have arrived, ``max_rows`` or about ``max_bytes`` at most;
        rows of SELECTs go into ``results``. Never blocks.

        An error of the string is raised when the string has ended, and the connection can be used
        again.
        """
        rows: list[bytes] = []
        size = 0
        get = self._pgconn.get_copy_data
        if not self.running:
            self._pgconn.consume_input()  # raises if the server has hung up
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
        """Run a query string to its end, and return the rows of its SELECTs: a list for each
        SELECT, of tuples of the columns' text as bytes (None: NULL). Raises ``psycopg.Error`` as
        the server gave it, and ``psycopg.OperationalError`` past ``deadline`` (seconds, monotonic).
        """
        self.send(query)
        self.finish(deadline)
        return self.results

    def finish(self, deadline: float) -> None:
        """Wait until the string has ended, and discard what it copies. Raises as ``run``."""
        self.read(max_bytes=1 << 20)
        while self.running:
            left = deadline - time.monotonic()
            if left <= 0:
                raise psycopg.OperationalError("timeout: the server did not answer in time")
            self._readable.poll(min(left, 1.0) * 1000)
            self.read(max_bytes=1 << 20)

    def cancel(self) -> None:
        """Have the server cancel the string that runs, and wait for its end. Where it does not end
        in time, the caller closes the connection.
        """
        with suppress(psycopg.Error):
            self._connection.cancel_safe(timeout=_CANCEL_SECONDS)
            with suppress(psycopg.errors.QueryCanceled):
                self.finish(time.monotonic() + _CANCEL_SECONDS)

    def watch(self, descriptor: int) -> None:
        """Have ``wait`` return when this descriptor becomes readable, too."""
        self._woken.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait until something can be read, or a watched descriptor is readable, or the time is
        over. Returns whether a watched descriptor is.
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

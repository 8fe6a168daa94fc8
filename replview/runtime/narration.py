"""This module prints what a command does: a line for each step, then a line of status."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import psycopg

#: Seconds between lines of status where standard output is no terminal.
_STATUS_SECONDS = 30.0
_QUERY = """
    SELECT coalesce(sum(transactions_stored), 0)::bigint,
           coalesce(sum(changes_stored - changes_rolled_back - changes_discarded), 0)
               ::bigint,
           string_agg(DISTINCT state, ', ')
      FROM slot
"""


class Narration:
    """A printer of progress; a lost terminal or a closed pipe does not stop the command."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._in_place = self._out.isatty()
        self._open_line = False
        self._last_status = 0.0

    def line(self, text: str = "") -> None:
        """Print a line that stays."""
        self._end_open_line()
        self._write(f"{text}\n")

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Print what starts, and how long it took when it is done."""
        self._end_open_line()
        self._write(f"  {title} … ")
        self._open_line = True
        started_at = time.monotonic()
        yield
        if self._open_line:
            self._write(f"{time.monotonic() - started_at:.1f} s\n")
            self._open_line = False
        else:
            # Another line was printed in between.
            self._write(f"  {title}: done, {time.monotonic() - started_at:.1f} s\n")

    def status(self, text: str) -> None:
        """Show the status: in place on a terminal, else every half minute."""
        if self._in_place:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\x1b[K{text[:width]}")
            self._open_line = True
        elif time.monotonic() - self._last_status >= _STATUS_SECONDS:
            self._last_status = time.monotonic()
            self._write(f"{text}\n")

    def _end_open_line(self) -> None:
        if self._open_line:
            self._write("\n")
            self._open_line = False

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            # Without this, Python would fail again when it flushes the buffer at exit.
            with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), self._out.fileno())


class StatusLine:
    """The counts of what is stored, and the rate since the last call."""

    def __init__(self, store_url: str) -> None:
        self._store_url = store_url
        self._connection: psycopg.Connection | None = None
        self._before: tuple[float, int] | None = None

    def text(self) -> str:
        """Return the present line; it says so when the store does not answer."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(
                    self._store_url, autocommit=True, connect_timeout=2
                )
            row = self._connection.execute(_QUERY).fetchone()
        except psycopg.Error:
            self.close()
            return "the store does not answer"
        transactions, changes, states = row or (0, 0, None)
        now = time.monotonic()
        rate = ""
        if self._before and now > self._before[0]:
            per_second = (transactions - self._before[1]) / (now - self._before[0])
            rate = f" · {per_second:,.0f} a second"
        self._before = (now, transactions)
        return (
            f"{transactions:,} transactions, {changes:,} changes stored{rate}"
            f" · slot {states or 'none yet'}"
        )

    def close(self) -> None:
        """Close the connection to the store."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

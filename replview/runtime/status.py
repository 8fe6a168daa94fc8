"""The one line that says how a running stack does, read from the store."""

import time

import psycopg

_QUERY = """
    SELECT coalesce(sum(transactions_stored), 0)::bigint,
           coalesce(sum(changes_stored), 0)::bigint,
           string_agg(DISTINCT state, ', ')
      FROM slot
"""


class StatusLine:
    """Counts what is stored, and how fast it grows between two looks."""

    def __init__(self, store_url: str) -> None:
        self._store_url = store_url
        self._connection: psycopg.Connection | None = None
        self._before: tuple[float, int] | None = None

    def text(self) -> str:
        """The line as it stands now; says so when the store does not answer."""
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
        """Leave the store."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

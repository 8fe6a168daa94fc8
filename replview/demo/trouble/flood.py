"""More WAL than the receiver takes: a reprice of everything, again and again."""

from collections.abc import Iterator

import psycopg

from replview.demo.trouble.place import OUR_SLOT, number
from replview.demo.trouble.trouble import CannotMake, Trouble
from replview.demo.workload.seed import PRICES
from replview.store.models import AlertRule

_MB = 1 << 20
#: The slot is made to retain about this much: enough to be seen, soon caught up.
BEHIND_BYTES = 24 * _MB
ALERT_BYTES = 16 * _MB
#: All that one flood writes: what is received is kept in the store.
MOST_BYTES = 300 * _MB
_PIECE_ROWS = 2_000

_RETAINED = (
    "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) FROM pg_replication_slots"
    " WHERE slot_name = %s"
)
_POSITION = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
#: Rows that a reprice of the workload holds are left out.
_REPRICE = (
    "UPDATE price_list SET updated_at = clock_timestamp() WHERE id IN (SELECT id FROM price_list"
    " WHERE id BETWEEN %s AND %s FOR UPDATE SKIP LOCKED)"
)


class Flood(Trouble):
    """Updates in a hurry until replview's slot is behind, and then as many as it takes."""

    name = "flood"
    lasts_seconds = 120.0
    pause_seconds = 0.02
    rules = (
        {"name": "demo: over 16 MB of WAL retained", "kind": AlertRule.Kind.RETAINED_WAL,
         "threshold": float(ALERT_BYTES), "clear_threshold": float(ALERT_BYTES), "slot": OUR_SLOT},
    )  # fmt: skip

    def make(self) -> Iterator[bool]:
        """Ends by itself when it has written enough."""
        with self.place.shop("flood") as connection:
            began, first = number(connection, _POSITION) or 0, 0
            behind = False
            while (number(connection, _POSITION) or 0) - began < MOST_BYTES:
                retained = number(connection, _RETAINED, OUR_SLOT)
                if retained is None:
                    raise CannotMake("replview's slot is not there, or lost.")
                if retained < BEHIND_BYTES:
                    _reprice(connection, first)
                    first = (first + _PIECE_ROWS) % PRICES
                behind = behind or retained >= ALERT_BYTES
                yield behind

    def end(self) -> None:
        """It ends with its session."""

    def is_over(self) -> bool:
        """Whether the receiver has caught up, and the slot lets the WAL go.

        A slot's restart_lsn moves at the records that tell which transactions run; the server
        writes one every 15 s, and here more often.
        """
        with self.place.shop("flood") as connection:
            connection.execute("SELECT pg_log_standby_snapshot()")
            retained = number(connection, _RETAINED, OUR_SLOT)
            return retained is None or retained < ALERT_BYTES


def _reprice(connection: psycopg.Connection, first: int) -> None:
    connection.execute(_REPRICE, (first + 1, first + _PIECE_ROWS))

"""Collects rows of one generator process and writes them by COPY."""

from dataclasses import dataclass, field
from typing import Any

import psycopg

from replview.store.write import copy_rows


@dataclass
class Batch:
    """Rows that one COPY per table will write."""

    changes: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    rows: list[bytes] = field(default_factory=list)
    tombstones: list[tuple[Any, ...]] = field(default_factory=list)
    transitions: list[tuple[Any, ...]] = field(default_factory=list)

    def write(self, connection: psycopg.Connection[Any]) -> None:
        """Store it and begin anew."""
        copies = (
            ("change", copy_rows.CHANGE_COLUMNS, self.changes),
            ("transaction", copy_rows.TRANSACTION_COLUMNS, self.rows),
        )
        with connection.transaction(), connection.cursor() as cursor:
            for table, columns, pieces in copies:
                statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
                with cursor.copy(statement) as copy:
                    whole = (copy_rows.COPY_HEADER, *pieces, copy_rows.COPY_TRAILER)
                    copy.write(b"".join(whole))
            _copy_rows(
                cursor,
                "aborted_subtransaction (transaction_id, subxid, abort_lsn, aborted_at, changes,"
                " swept)",
                self.tombstones,
            )
            _copy_rows(
                cursor,
                "transition (transaction_id, state, lsn, source_time, recorded_at)",
                self.transitions,
            )
        self.__init__()  # type: ignore[misc]


def _copy_rows(cursor: psycopg.Cursor[Any], target: str, rows: list[tuple[Any, ...]]) -> None:
    with cursor.copy(f"COPY {target} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)

"""After the workload: end what is prepared, wait until all of it is stored, keep evidence."""

import contextlib
import random
import shutil
from pathlib import Path
from typing import Any

import psycopg

from tests.chaos.check import Verdict
from tests.chaos.servers import Servers
from tests.chaos.visibility import Stuck, Visibility

#: Without any progress for this long, a receiver will not come on.
_PATIENCE_SECONDS = 90.0
#: The SQL interface asks for open transactions apart, and at most this seldom.
_ASKED_FOR_SECONDS = 60.0
#: Prepared transactions that are left waiting: they must be shown so at the end.
_LEFT_WAITING = 2


def end_prepared(source: psycopg.Connection[Any], rng: random.Random) -> None:
    """End all but a few of the prepared transactions, one way or the other.

    None is left that has a table for itself (a truncation): the tables are to be read.
    """
    found = source.execute(
        """
        SELECT gid, EXISTS (SELECT FROM pg_locks AS held JOIN pg_locks AS own
                                USING (virtualtransaction)
                            WHERE own.transactionid = p.transaction AND own.pid IS NULL
                              AND held.pid IS NULL AND held.mode = 'AccessExclusiveLock') AS alone
        FROM pg_prepared_xacts p ORDER BY alone, gid
        """
    ).fetchall()
    left = [gid for gid, alone in found[:_LEFT_WAITING] if not alone]
    for gid in [gid for gid, _ in found if gid not in left]:
        source.execute(f"{rng.choice(['COMMIT', 'ROLLBACK'])} PREPARED '{gid}'")


def caught_up(made: Servers, visibility: Visibility, slot_id: int) -> None:
    """Wait until a last transaction is stored, and with it all before it. Raises ``Stuck``."""
    with made.on_source() as source:
        # A crash writes no abort: that a streamed transaction is gone the server tells with its
        # next list of running transactions, which a checkpoint writes, or the background writer
        # within 15 s.
        source.execute("CHECKPOINT")
        source.execute("BEGIN")
        source.execute("INSERT INTO ddl_log (kind) VALUES ('the end')")
        row = source.execute(
            "INSERT INTO ledger VALUES (-1, 0, txid_current(), NULL, NULL, 1, 0) RETURNING xid"
        ).fetchone()
        source.execute("COMMIT")
        prepared = "SELECT transaction::text::bigint FROM pg_prepared_xacts"
        waiting = [xid for (xid,) in source.execute(prepared)]
    assert row is not None
    with made.on_store() as store:

        def is_stored() -> bool:
            query = "SELECT FROM transaction WHERE xid = %s AND state = 'committed'"
            return store.execute(query, [row[0]]).fetchone() is not None

        stored = -1
        while not is_stored():
            try:
                look = visibility.until(
                    lambda look: look.transactions_stored > stored or is_stored(),  # noqa: B023
                    _PATIENCE_SECONDS,
                )
            except Stuck as stuck:
                raise Stuck(f"what was committed is not stored: {stuck}") from None
            stored = look.transactions_stored
        _wait_for_ends(store, visibility, waiting)


def _wait_for_ends(
    store: psycopg.Connection[Any], visibility: Visibility, prepared: list[int]
) -> None:
    """Wait until every transaction but those ``prepared`` on the source has ended in the store.

    A look through the SQL interface stores what is committed and may leave out open transactions,
    so that the end of one that aborted comes later. What stays open is the check's to report.
    """
    with contextlib.suppress(Stuck):
        query = """
            SELECT FROM transaction
             WHERE state IN ('receiving', 'streaming') AND xid <> ALL(%s) LIMIT 1
        """
        visibility.until(
            lambda _: store.execute(query, [prepared]).fetchone() is None,
            _ASKED_FOR_SECONDS + _PATIENCE_SECONDS / 3,
        )


def evidence(made: Servers, verdict: Verdict, folder: Path) -> None:
    """Keep what tells why a seed failed: the findings, all logs, the slot's own log."""
    (folder / "findings.txt").write_text("".join(f"{one}\n" for one in verdict.findings))
    for log in made.folder.glob("*.log"):
        shutil.copy(log, folder)
    for name, server in (("source", made.source), ("store", made.store)):
        log = server.data_dir / "replview.log"
        if log.exists():
            shutil.copy(log, folder / f"{name}-server.log")
    with made.on_store() as store:
        lines = store.execute(
            "SELECT at, kind, message, detail, lsn, after_commit_seq FROM slot_event ORDER BY id"
        ).fetchall()
        (folder / "slot-log.txt").write_text("".join(f"{line}\n" for line in lines))
        for table in ("transaction", "slot", "slot_incarnation", "aborted_subtransaction"):
            _copy(store, table, folder)
    with made.on_source() as source:
        _copy(source, "ledger", folder)


def _copy(connection: psycopg.Connection[Any], table: str, folder: Path) -> None:
    query = f"COPY {table} TO STDOUT (FORMAT csv, HEADER)"
    with (folder / f"{table}.csv").open("wb") as file, connection.cursor().copy(query) as copy:
        for piece in copy:
            file.write(bytes(piece))

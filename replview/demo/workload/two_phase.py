"""This module prepares settlements, holds them for a while, and commits or rolls them back.

How long a transaction is held and how it ends is computed from its gid and xid. So nothing has to
be remembered: a session that reconnects finds its prepared transactions in ``pg_prepared_xacts``.
"""

import datetime as dt
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import errors, sql
from psycopg.pq import TransactionStatus

from replview.demo.workload.scenarios import timed
from replview.demo.workload.schema import ADVISORY_LOCK
from replview.demo.workload.session import WorkloadSession

PREFIX = "pos_settle_"
MOST_AT_ONCE = 3
HELD_SECONDS = (10, 60)

#: Payments that make a transaction of over 64 kB of decoded changes, which is streamed.
MANY_PAYMENTS = 320

SETTLE: LiteralString = (
    "UPDATE payments SET settlement_id = %s WHERE id IN (SELECT id FROM payments"
    " WHERE captured AND settlement_id IS NULL ORDER BY id DESC LIMIT %s FOR UPDATE SKIP LOCKED)"
)


@dataclass(frozen=True)
class OwnPrepared:
    """A prepared transaction of ours, as the server lists it."""

    gid: str
    xid: str
    held_seconds: float

    @property
    def due(self) -> bool:
        """Return whether the transaction has been held long enough."""
        return self.held_seconds >= random.Random(f"{self.gid} {self.xid}").uniform(*HELD_SECONDS)

    @property
    def bank_agrees(self) -> bool:
        """Return whether the transaction is to be committed."""
        return random.Random(f"{self.xid} {self.gid}").random() < 0.75


def read_prepared(conn: psycopg.Connection) -> list[OwnPrepared]:
    """Return the prepared transactions of this workload, the oldest first."""
    rows = conn.execute(
        "SELECT gid, transaction::text, extract(epoch FROM clock_timestamp() - prepared)::float8"
        " FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)"
        " ORDER BY prepared",
        (PREFIX,),
    )
    return [OwnPrepared(*row) for row in rows]


def finish(conn: psycopg.Connection, gid: str, *, commit: bool) -> None:
    """Run COMMIT PREPARED or ROLLBACK PREPARED; a transaction that is gone is no error."""
    end = "COMMIT PREPARED {}" if commit else "ROLLBACK PREPARED {}"
    with suppress(errors.UndefinedObject):
        conn.execute(sql.SQL(end).format(sql.Literal(gid)))


def resolve_left_over(conn: psycopg.Connection) -> int:
    """Roll back the prepared transactions of an earlier run, and return their number."""
    left_over = read_prepared(conn)
    for prepared in left_over:
        finish(conn, prepared.gid, commit=False)
    return len(left_over)


def resolve_left_over_if_alone(conn: psycopg.Connection) -> int | None:
    """Call ``resolve_left_over``, unless a workload runs: then return None."""
    row = conn.execute("SELECT pg_try_advisory_lock(%s)", (ADVISORY_LOCK,)).fetchone()
    if row is None or not row[0]:
        return None
    try:
        return resolve_left_over(conn)
    finally:
        conn.execute("SELECT pg_advisory_unlock(%s)", (ADVISORY_LOCK,))


def be_the_only_one(session: WorkloadSession) -> None:
    """Take the workload's lock, so that only one workload runs on a database."""
    session.execute("SELECT pg_advisory_lock(%s)", (ADVISORY_LOCK,))


def leave_nothing_behind(session: WorkloadSession) -> None:
    """Roll back all prepared transactions when the workload stops."""
    if session.conn.info.transaction_status != TransactionStatus.IDLE:
        session.conn.rollback()
    resolve_left_over(session.conn)


def prepare_settlement(session: WorkloadSession, *, payments: int, slip: bool = False) -> str:
    """Settle payments up to PREPARE TRANSACTION, and return the gid.

    ``slip`` settles some more inside a savepoint and rolls it back.
    """
    gid = _next_gid(session.conn)
    session.execute("BEGIN")
    session.claim("/jobs/settle", actor="settlement")
    settlement_id = session.value(
        "INSERT INTO settlements (gid, bank, period) VALUES"
        " (%s, %s, tstzrange(now() - interval '1 hour', now())) RETURNING id",
        (gid, session.rng.choice(("northbank", "sparkasse", "credit lyonnais"))),
    )
    session.execute(SETTLE, (settlement_id, payments))
    if slip:
        with session.transaction(discard=True):
            session.execute(SETTLE, (settlement_id, MANY_PAYMENTS))
    session.execute(
        "UPDATE payments SET fee = round(amount * 0.014, 2) WHERE settlement_id = %s",
        (settlement_id,),
    )
    session.execute(
        "UPDATE settlements SET (payment_count, amount) = (SELECT count(*), coalesce(sum(amount),0)"
        " FROM payments WHERE settlement_id = %(id)s) WHERE id = %(id)s",
        {"id": settlement_id},
    )
    session.conn.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(gid)))
    session.tally.add("prepared")
    return gid


def _next_gid(conn: psycopg.Connection) -> str:
    """Return a free gid such as ``pos_settle_20261120_07``: day, and a number below 100."""
    row = conn.execute(
        "SELECT pg_sequence_last_value(pg_get_serial_sequence('settlements', 'id')::regclass)"
    ).fetchone()
    number = 1 + ((row[0] if row else None) or 0)
    used_gids = {prepared.gid for prepared in read_prepared(conn)}
    today = f"{dt.datetime.now(dt.UTC):%Y%m%d}"
    gids = (f"{PREFIX}{today}_{(number + step) % 100:02}" for step in range(100))
    return next(gid for gid in gids if gid not in used_gids)


@timed(session="shop settle", every_seconds=16, shows="prepared, held, later decided")
def settle_payments(session: WorkloadSession) -> None:
    """Prepare a settlement, unless there are enough."""
    if len(read_prepared(session.conn)) >= MOST_AT_ONCE:
        return
    rng = session.rng
    is_large = rng.random() < 0.4
    prepare_settlement(
        session, payments=MANY_PAYMENTS if is_large else rng.randint(5, 90), slip=rng.random() < 0.3
    )


@timed(session="shop settle", every_seconds=1, shows="a prepared one committed or rolled back")
def hear_from_bank(session: WorkloadSession) -> None:
    """Commit or roll back the settlements that are due."""
    for prepared in read_prepared(session.conn):
        if prepared.due:
            finish(session.conn, prepared.gid, commit=prepared.bank_agrees)
            outcome = "committed" if prepared.bank_agrees else "rolled back"
            session.tally.add(f"prepared then {outcome}")

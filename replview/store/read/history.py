"""Queries for transactions in commit order, open ones, and ones that rolled back.

The SQL is written by hand, since every live page runs these queries at every wake-up. They count no
changes: the counts are stored with each transaction.
"""

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import orjson
from psycopg import sql

from decoder.scalars import LSN, lsn_from_text
from replview.store.read.rows import TRANSACTION_COLUMNS, EventRow, TransactionRow
from replview.store.read.seen import learn_touched, transaction_of
from replview.store.read.session import Parameters, ReadSession

#: Transactions that have not ended.
OPEN_STATES = ("receiving", "streaming", "prepared")
#: States that are never shown: such a row is deleted soon, or is a baseline still being read.
HIDDEN_STATES = ("discarded", "copying")
#: Transactions that did not commit; they have no place in commit order.
ENDED_STATES = ("aborted", "rolled back")
_LAST_SEQ = (1 << 63) - 1
_TRANSACTION = sql.SQL("transaction t")
_EVENTS = """
    SELECT id, at, kind, message, coalesce(detail, '{{}}'), incarnation_id, after_commit_seq
    FROM slot_event WHERE slot_id = %s AND {condition} LIMIT %s
"""
_END_OF_TIME = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """A change of state of a streamed or two-phase transaction."""

    state: str
    #: Position in the WAL; None: the stream did not say.
    lsn: LSN | None
    #: Time by the source's clock, and in ``recorded_at`` by ours when it was stored.
    source_time: dt.datetime | None
    recorded_at: dt.datetime


def committed_after(
    session: ReadSession, incarnation_id: int, commit_seq: int, limit: int
) -> list[TransactionRow]:
    """Return the transactions after a commit_seq, oldest first."""
    condition = sql.SQL("incarnation_id = %s AND commit_seq > %s ORDER BY commit_seq LIMIT %s")
    return transactions_where(session, condition, [incarnation_id, commit_seq, limit])


def committed_before(
    session: ReadSession, incarnation_id: int, commit_seq: int | None, limit: int
) -> list[TransactionRow]:
    """Return the transactions before a commit_seq (None: the last ones), newest first."""
    before = _LAST_SEQ if commit_seq is None else commit_seq
    condition = sql.SQL("incarnation_id = %s AND commit_seq < %s ORDER BY commit_seq DESC LIMIT %s")
    return transactions_where(session, condition, [incarnation_id, before, limit])


def newest_placed(
    session: ReadSession, incarnation_ids: Collection[int], limit: int
) -> list[TransactionRow]:
    """Return the last transactions of these incarnations together, newest first."""
    last_of_each = sql.SQL("""
        unnest(%s::bigint[]) AS i (id) CROSS JOIN LATERAL (
            SELECT * FROM transaction WHERE incarnation_id = i.id AND commit_seq IS NOT NULL
            ORDER BY commit_seq DESC LIMIT %s) t
    """)
    newest = sql.SQL("true ORDER BY coalesce(t.commit_time, t.stored_at) DESC, t.id DESC LIMIT %s")
    parameters = [list(incarnation_ids), limit, limit]
    return transactions_where(session, newest, parameters, last_of_each)


def open_transactions(session: ReadSession, slot_id: int, limit: int = 100) -> list[TransactionRow]:
    """Return the open transactions of the slot's present incarnation, oldest first."""
    # The states are literals, so that the planner can use the partial index. A streamed transaction
    # in state "receiving" is being received again: readers see its earlier row.
    condition = sql.SQL("""
        incarnation_id = (SELECT incarnation_id FROM slot WHERE id = %s)
        AND state IN ('receiving', 'streaming', 'prepared')
        AND NOT (state = 'receiving' AND streamed) ORDER BY id LIMIT %s
    """)
    return transactions_where(session, condition, [slot_id, limit])


def ended_since(
    session: ReadSession,
    incarnation_id: int,
    stored_after: dt.datetime,
    limit: int,
    *,
    stored_until: dt.datetime | None = None,
) -> list[TransactionRow]:
    """Return the aborted and rolled-back transactions that were stored in a time, newest first."""
    condition = sql.SQL("""
        incarnation_id = %s AND state IN ('aborted', 'rolled back')
        AND stored_at > %s AND stored_at <= %s ORDER BY stored_at DESC LIMIT %s
    """)
    until = stored_until or _END_OF_TIME
    return transactions_where(session, condition, [incarnation_id, stored_after, until, limit])


def transactions_by_id(session: ReadSession, ids: Collection[int]) -> list[TransactionRow]:
    """Return these transactions, in any state and in no order."""
    return transactions_where(session, sql.SQL("id = ANY(%s)"), [list(ids)]) if ids else []


def transactions_where(
    session: ReadSession,
    condition: sql.Composable,
    parameters: Parameters,
    source: sql.Composable = _TRANSACTION,
) -> list[TransactionRow]:
    """Return the transactions that meet a condition over ``transaction t`` (our own SQL)."""
    query = sql.SQL("SELECT {columns} FROM {source} WHERE {condition}").format(
        columns=sql.SQL(TRANSACTION_COLUMNS), source=source, condition=condition
    )
    rows = session.rows(query, parameters)
    learn_touched(rows, session.visibility)
    return [transaction_of(row, session.visibility) for row in rows]


def transaction_by_id(session: ReadSession, transaction_id: int) -> TransactionRow | None:
    """Return one transaction; None where there is none, or its state is in ``HIDDEN_STATES``."""
    transactions = transactions_by_id(session, [transaction_id])
    return transactions[0] if transactions and transactions[0].state not in HIDDEN_STATES else None


def transitions_of(session: ReadSession, ids: Collection[int]) -> dict[int, list[TransitionRow]]:
    """Return the transitions of each transaction, in order; one without transitions is absent."""
    query = """
        SELECT transaction_id, state, lsn::text, source_time, recorded_at FROM transition
        WHERE transaction_id = ANY(%s) ORDER BY id
    """
    transitions: dict[int, list[TransitionRow]] = {}
    for transaction_id, state, lsn, source_time, recorded_at in session.rows(query, [list(ids)]):
        transition = TransitionRow(state, lsn_from_text(lsn), source_time, recorded_at)
        transitions.setdefault(transaction_id, []).append(transition)
    return transitions


def relation_names(session: ReadSession, ids: Collection[int]) -> dict[int, tuple[str, str]]:
    """Return ``{relation id: (schema, table)}``, with the names as last seen."""
    query = 'SELECT id, schema, "table" FROM relation WHERE id = ANY(%s)'
    return {row[0]: (row[1], row[2]) for row in session.rows(query, [list(ids)])} if ids else {}


def _events(session: ReadSession, condition: str, params: Sequence[object]) -> list[EventRow]:
    rows = session.rows(sql.SQL(_EVENTS).format(condition=sql.SQL(condition)), params)
    return [EventRow(*[*row[:4], orjson.loads(row[4]), *row[5:]]) for row in rows]


def events_after(
    session: ReadSession, slot_id: int, event_id: int, limit: int = 100
) -> list[EventRow]:
    """Return the lines of a slot's log after the one with ``event_id``, oldest first."""
    return _events(session, "id > %s ORDER BY id", [slot_id, event_id, limit])


def last_event_id(session: ReadSession, slot_id: int) -> int:
    """Return the identifier of the last line of a slot's log; 0 while it is empty."""
    query = "SELECT id FROM slot_event WHERE slot_id = %s ORDER BY at DESC LIMIT 50"
    return max((row[0] for row in session.rows(query, [slot_id])), default=0)


def events_around(
    session: ReadSession,
    slot_id: int,
    incarnation_id: int,
    first_seq: int,
    last_seq: int,
    *,
    since: dt.datetime,
    limit: int = 100,
) -> list[EventRow]:
    """Return the log lines between two places in history, newest first.

    ``since`` bounds the search: the log is indexed by time, not by place.
    """
    condition = """at >= %s AND incarnation_id = %s AND after_commit_seq BETWEEN %s AND %s
        ORDER BY at DESC"""
    params = [slot_id, since, incarnation_id, first_seq, last_seq, limit]
    return _events(session, condition, params)


def events_between(
    session: ReadSession,
    slot_id: int,
    *,
    since: dt.datetime,
    until: dt.datetime | None = None,
    limit: int = 200,
) -> list[EventRow]:
    """Return the newest ``limit`` log lines of a time, newest first."""
    params = [slot_id, since, until or _END_OF_TIME, limit]
    return _events(session, "at >= %s AND at < %s ORDER BY at DESC", params)

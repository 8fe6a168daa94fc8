"""Reading the record: transactions in commit order, those still open, and those that ended badly.

Hand-written SQL: these are the reads behind every live page, made at every wake-up. Nothing here
counts changes; the counts were stored with each transaction. Changes themselves:
``store.read.changes.page``.
"""

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from decoder.scalars import LSN
from replview.store.read.rows import TRANSACTION_COLUMNS, EventRow, TransactionRow
from replview.store.read.seen import transaction_of
from replview.store.read.session import ReadSession

OPEN_STATES = ("receiving", "streaming", "prepared")
#: Never shown: swept away soon, or a baseline that is still being read.
HIDDEN_STATES = ("discarded", "copying")
#: Ended without counting. They have no place in commit order.
ENDED_STATES = ("aborted", "rolled back")


@dataclass(frozen=True, slots=True)
class Transition:
    """A streamed or two-phase transaction went from one state to another."""

    state: str
    #: Where in the WAL; None where the stream did not say.
    lsn: LSN | None
    #: By the source's clock, and by ours when it was stored.
    source_time: dt.datetime | None
    recorded_at: dt.datetime


_COMMITTED_AFTER = f"""
    SELECT {TRANSACTION_COLUMNS} FROM transaction t
    WHERE incarnation_id = %s AND commit_seq > %s
    ORDER BY commit_seq LIMIT %s
"""  # noqa: S608 (the columns are the dataclass's)

_COMMITTED_BEFORE = f"""
    SELECT {TRANSACTION_COLUMNS} FROM transaction t
    WHERE incarnation_id = %s AND commit_seq < %s
    ORDER BY commit_seq DESC LIMIT %s
"""  # noqa: S608

# The state list is repeated literally: that is how the planner knows the partial index applies.
# A streamed one that is being received is one that comes anew: it is shown as it was before.
_OPEN = f"""
    SELECT {TRANSACTION_COLUMNS} FROM transaction t
    WHERE incarnation_id = (SELECT incarnation_id FROM slot WHERE id = %s)
      AND state IN ('receiving', 'streaming', 'prepared')
      AND NOT (state = 'receiving' AND streamed)
    ORDER BY id LIMIT %s
"""  # noqa: S608

_ENDED_SINCE = f"""
    SELECT {TRANSACTION_COLUMNS} FROM transaction t
    WHERE incarnation_id = %s AND state IN ('aborted', 'rolled back')
      AND stored_at > %s AND stored_at <= %s
    ORDER BY stored_at DESC LIMIT %s
"""  # noqa: S608

_BY_ID = f"SELECT {TRANSACTION_COLUMNS} FROM transaction t WHERE id = ANY(%s)"  # noqa: S608

_EVENTS = "SELECT id, at, kind, message, detail, incarnation_id, after_commit_seq FROM slot_event"

_EVENTS_AFTER = f"{_EVENTS} WHERE slot_id = %s AND id > %s ORDER BY id LIMIT %s"

_EVENTS_AROUND = f"""
    {_EVENTS}
    WHERE slot_id = %s AND at >= %s AND incarnation_id = %s
      AND after_commit_seq >= %s AND after_commit_seq <= %s
    ORDER BY at DESC LIMIT %s
"""

_EVENTS_BETWEEN = f"""
    {_EVENTS} WHERE slot_id = %s AND at >= %s AND at < %s ORDER BY at DESC LIMIT %s
"""

_LAST_SEQ = (1 << 63) - 1
_END_OF_TIME = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)


def _transactions(
    session: ReadSession, sql: str, parameters: Sequence[Any] | dict[str, Any]
) -> list[TransactionRow]:
    return [transaction_of(row, session.visibility) for row in session.rows(sql, parameters)]


def committed_after(
    session: ReadSession, incarnation_id: int, commit_seq: int, limit: int
) -> list[TransactionRow]:
    """The transactions that follow a place in history, oldest first."""
    return _transactions(session, _COMMITTED_AFTER, [incarnation_id, commit_seq, limit])


def committed_before(
    session: ReadSession, incarnation_id: int, commit_seq: int | None, limit: int
) -> list[TransactionRow]:
    """The transactions before a place in history (None: the last ones), newest first."""
    before = _LAST_SEQ if commit_seq is None else commit_seq
    return _transactions(session, _COMMITTED_BEFORE, [incarnation_id, before, limit])


def open_transactions(session: ReadSession, slot_id: int, limit: int = 100) -> list[TransactionRow]:
    """What is receiving, streaming or prepared in the slot's present incarnation, oldest first."""
    return _transactions(session, _OPEN, [slot_id, limit])


def ended_since(
    session: ReadSession,
    incarnation_id: int,
    stored_after: dt.datetime,
    limit: int,
    *,
    stored_until: dt.datetime | None = None,
) -> list[TransactionRow]:
    """The aborted and rolled-back transactions whose end was stored in a time, newest first."""
    until = stored_until or _END_OF_TIME
    return _transactions(session, _ENDED_SINCE, [incarnation_id, stored_after, until, limit])


def transactions_by_id(session: ReadSession, ids: Collection[int]) -> list[TransactionRow]:
    """Transactions whatever their state, in no order."""
    return _transactions(session, _BY_ID, [list(ids)]) if ids else []


def transactions_where(
    session: ReadSession, condition: str, parameters: dict[str, Any]
) -> list[TransactionRow]:
    """Those of a condition over ``transaction t``, SQL of our own; values as named parameters."""
    sql = f"SELECT {TRANSACTION_COLUMNS} FROM transaction t WHERE {condition}"  # noqa: S608 (ours)
    return _transactions(session, sql, parameters)


def transaction_by_id(session: ReadSession, transaction_id: int) -> TransactionRow | None:
    """One transaction whatever its state; None where there is none (or it is hidden: discarded, or
    a baseline that is still being read).
    """
    found = transactions_by_id(session, [transaction_id])
    return found[0] if found and found[0].state not in HIDDEN_STATES else None


def transitions_of(session: ReadSession, ids: Collection[int]) -> dict[int, list[Transition]]:
    """The stages of transactions, each in order; one without transitions is absent."""
    sql = """
        SELECT transaction_id, state, lsn::text, source_time, recorded_at FROM transition
        WHERE transaction_id = ANY(%s) ORDER BY id
    """
    found: dict[int, list[Transition]] = {}
    for transaction_id, state, lsn, source_time, recorded_at in session.rows(sql, [list(ids)]):
        at = Transition(state, LSN.parse(lsn) if lsn else None, source_time, recorded_at)
        found.setdefault(transaction_id, []).append(at)
    return found


def relation_names(session: ReadSession, ids: Collection[int]) -> dict[int, tuple[str, str]]:
    """``{relation id: (schema, table)}`` as last seen."""
    sql = 'SELECT id, schema, "table" FROM relation WHERE id = ANY(%s)'
    return {row[0]: (row[1], row[2]) for row in session.rows(sql, [list(ids)])} if ids else {}


def _events(session: ReadSession, sql: str, parameters: Sequence[object]) -> list[EventRow]:
    found = []
    for row in session.rows(sql, parameters):
        values = list(row)
        values[4] = orjson.loads(row[4] or "{}")
        found.append(EventRow(*values))
    return found


def events_after(
    session: ReadSession, slot_id: int, event_id: int, limit: int = 100
) -> list[EventRow]:
    """The lines a slot's log got after one of its lines, oldest first."""
    return _events(session, _EVENTS_AFTER, [slot_id, event_id, limit])


def last_event_id(session: ReadSession, slot_id: int) -> int:
    """The last line of a slot's log; 0 while it is empty."""
    sql = "SELECT id FROM slot_event WHERE slot_id = %s ORDER BY at DESC LIMIT 50"
    return max((row[0] for row in session.rows(sql, [slot_id])), default=0)


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
    """The log lines that stand between two places in history, newest first.

    ``since`` bounds the search: the log is indexed by time, not by place.
    """
    return _events(
        session, _EVENTS_AROUND, [slot_id, since, incarnation_id, first_seq, last_seq, limit]
    )


def events_between(
    session: ReadSession,
    slot_id: int,
    *,
    since: dt.datetime,
    until: dt.datetime | None = None,
    limit: int = 200,
) -> list[EventRow]:
    """The log lines of a time, the newest first; the rest of a longer log is left out."""
    return _events(session, _EVENTS_BETWEEN, [slot_id, since, until or _END_OF_TIME, limit])

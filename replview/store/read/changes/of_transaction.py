"""One transaction's changes: filtered, from any place, in bounded time; and single whole values.

A page's changes have long values cut (``store.read.changes.values``). One change, or all that an
undo needs, are read whole up to a bound. Changes of aborted subtransactions are hidden unless asked
for.
"""

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg import sql

from replview.store.read.changes.values import cut_sql
from replview.store.read.rows import NOT_ABORTED, ChangeRow
from replview.store.read.seen import TextLimits, pattern_of, seen_change, tables_of, text_limits
from replview.store.read.session import ReadSession
from replview.store.read.transactions.field_sql import TEXT_CHANGES

#: Characters beyond which a page cuts a value.
CUT_CHARACTERS = 50_000
#: Stored bytes below which a row has no value that long, unless it compresses very well.
_LOOK_INTO_BYTES = 2_000
#: Changes that the first statement reads, and any at most; the key says whether values are
#: searched.
_FIRST_WINDOW = {False: 20_000, True: 1_000}
_LARGEST_WINDOW = {False: 200_000, True: 20_000}
#: Factor by which the next window may be larger at most.
_LARGEST_FACTOR = 16
#: Bytes of JSON text that may be copied at once.
COPIED_BYTES = 8_000_000

_ROW = sql.SQL("""
    SELECT c.transaction_id, c.seq, c.lsn, c.subxid, c.op::text, c.old_kind::text, {old}, {new},
           c.relation_id, c.key_hash, c.old_key_hash,
           v.schema, v."table", v.number, v.replica_identity, v.columns, v.key_columns,
           a.subxid IS NOT NULL AS aborted
    FROM change c LEFT JOIN relation_version v ON v.id = c.version_id
    LEFT JOIN aborted_subtransaction a
        ON a.transaction_id = c.transaction_id AND a.subxid = c.subxid
    WHERE c.transaction_id = %(id)s AND {conditions}
""")
_OLD, _NEW = sql.Identifier("c", "old"), sql.Identifier("c", "new")
_CUT_OLD, _CUT_NEW = (
    cut_sql(image, look_into=_LOOK_INTO_BYTES, characters=CUT_CHARACTERS, head=2000)
    for image in (_OLD, _NEW)
)
_SIZED_ROW = _ROW.format(
    old=_OLD,
    new=_NEW,
    conditions=sql.SQL("""
        c.seq = %(seq)s AND
        coalesce(octet_length(c.old::text), 0) + coalesce(octet_length(c.new::text), 0) < %(most)s
    """),
)
_NEXT_ROWS, _NEXT_COUNTED_ROWS = (
    _ROW.format(old=_OLD, new=_NEW, conditions=sql.SQL(conditions))
    for conditions in (
        "c.seq > %(after)s ORDER BY c.seq LIMIT %(limit)s",
        "c.seq > %(after)s AND a.subxid IS NULL ORDER BY c.seq LIMIT %(limit)s",
    )
)
_SPOTS = sql.SQL("""
    SELECT l.seq, c.seq, (c.lsn - '0/0')::bigint, c.op::text, c.relation_id
    FROM (SELECT coalesce(max(seq), 0) AS seq FROM change WHERE transaction_id = %s) l
    LEFT JOIN change c ON c.transaction_id = %s AND c.seq <= %s AND {not_aborted}
    ORDER BY c.seq
""").format(not_aborted=sql.SQL(NOT_ABORTED))
_VALUE = sql.SQL("""
    SELECT {side}->>%(column)s, jsonb_typeof({side}->%(column)s)
    FROM change WHERE transaction_id = %(id)s AND seq = %(seq)s
""")
_FIRST_PIECE = """
    SELECT min(piece) FROM large_value
    WHERE transaction_id = %(id)s AND seq = %(seq)s AND side = %(side)s AND "column" = %(column)s
"""
_PIECE = """
    SELECT content FROM large_value
    WHERE transaction_id = %(id)s AND seq = %(seq)s AND side = %(side)s AND "column" = %(column)s
      AND piece = %(piece)s
"""
# Only the first changes are searched, so that a filter does not read all of a large transaction.
_MATCHING_TEXT = """
    SELECT DISTINCT c.transaction_id FROM change c
    WHERE c.transaction_id = ANY(%(ids)s) AND c.seq <= %(searched)s
      AND {holds_text} AND {not_aborted}
"""
_PREFIXES = """
    SELECT DISTINCT ON (transaction_id) transaction_id, new->>'prefix'
    FROM change WHERE transaction_id = ANY(%s) AND seq <= 20 AND op = 'M'
    ORDER BY transaction_id, seq
"""
# Characters of a value that a page shows at most; larger ones are for a download.
SHOWN_CHARACTERS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFilter:
    """Conditions on the changes of a transaction; an empty filter matches all that count."""

    relation_id: int | None = None
    #: Letters of operations; empty: all.
    ops: str = ""
    #: Text to find in a value of the row, ignoring case.
    text: str = ""
    #: True to include changes of rolled-back savepoints, where the slot keeps them.
    with_aborted: bool = False


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A page of a transaction's changes, in order."""

    rows: list[ChangeRow]
    #: True if there are more in the direction of reading.
    more: bool
    #: The seq up to which was searched when the time was over; None: the page is complete.
    searched_to: int | None = None


@dataclass(frozen=True, slots=True)
class Spot:
    """The position of a change in the WAL, without its values."""

    seq: int
    lsn: int
    op: str
    relation_id: int | None


def read_changes_page(
    session: ReadSession,
    transaction_id: int,
    filter_: ChangeFilter,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int = 50,
    budget_seconds: float = 0.14,
    last: int | None = None,
) -> ChangePage:
    """Return the changes after ``after``, or the last ones before ``before``, in order.

    Windows are searched one by one until the page is full or the time is over. ``last`` is the seq
    of the last change, if known.
    """
    last = last_seq(session, transaction_id) if last is None else last
    backwards = before is not None
    edge = min(before if before is not None else after, last + 1)
    deadline = time.monotonic() + budget_seconds
    first, largest = _FIRST_WINDOW[bool(filter_.text)], _LARGEST_WINDOW[bool(filter_.text)]
    window, changes = first, list[ChangeRow]()
    while (edge > 1 if backwards else edge < last) and len(changes) <= limit:
        low, high = (max(edge - window, 0), edge) if backwards else (edge, edge + window + 1)
        began = time.monotonic()
        room = limit + 1 - len(changes)
        changes += _window(session, transaction_id, filter_, low, high, room, backwards=backwards)
        edge = low + 1 if backwards else high - 1
        now = time.monotonic()
        if len(changes) <= limit and now > deadline:
            break
        # Choose the next window by the time left and the speed of the last one.
        factor = min((deadline - now) / max(now - began, 0.001), _LARGEST_FACTOR)
        window = min(max(int(window * factor), first // 2), largest)
    has_more = len(changes) > limit
    at_end = edge <= 1 if backwards else edge >= last
    page = changes[:limit][::-1] if backwards else changes[:limit]
    return ChangePage(page, has_more, None if has_more or at_end else edge)


def _window(
    session: ReadSession,
    transaction_id: int,
    filter_: ChangeFilter,
    low: int,
    high: int,
    limit: int,
    *,
    backwards: bool,
) -> list[ChangeRow]:
    """Return the first matching changes between two seqs (exclusive), in reading direction."""
    limits = TextLimits()
    if filter_.text:
        tables = tables_of(session, [transaction_id])
        limits = text_limits(session, tables, transaction_id=transaction_id)
    conditions: list[sql.Composable] = [sql.SQL("c.seq > %(low)s AND c.seq < %(high)s")]
    if not filter_.with_aborted:
        conditions.append(sql.SQL("a.subxid IS NULL"))
    if filter_.relation_id is not None:
        conditions.append(sql.SQL("c.relation_id = %(relation)s"))
    if filter_.ops:
        conditions.append(sql.SQL('c.op = ANY(%(ops)s::"char"[])'))
    if filter_.text:
        conditions.append(limits.holds_text)
    matching = sql.SQL("{conditions} ORDER BY c.seq {order} LIMIT %(limit)s").format(
        conditions=sql.SQL(" AND ").join(conditions),
        order=sql.SQL("DESC" if backwards else "ASC"),
    )
    query = _ROW.format(old=_CUT_OLD, new=_CUT_NEW, conditions=matching)
    params = {
        "id": transaction_id, "low": low, "high": high, "relation": filter_.relation_id,
        "ops": list(filter_.ops), "pattern": pattern_of(filter_.text), "limit": limit,
        **limits.parameters,
    }  # fmt: skip
    return _change_rows(session, query, params)


def one_change(session: ReadSession, transaction_id: int, seq: int) -> ChangeRow | None:
    """Return one whole change; None where there is none, or it is too long to be copied."""
    params = {"id": transaction_id, "seq": seq, "most": COPIED_BYTES}
    changes = _change_rows(session, _SIZED_ROW, params)
    return changes[0] if changes else None


def changes_of(
    session: ReadSession,
    transaction_id: int,
    after_seq: int = 0,
    limit: int = 50,
    *,
    with_aborted: bool = False,
) -> list[ChangeRow]:
    """Return a transaction's changes after ``after_seq``, in order; aborted ones only if asked."""
    query = _NEXT_ROWS if with_aborted else _NEXT_COUNTED_ROWS
    return _change_rows(session, query, {"id": transaction_id, "after": after_seq, "limit": limit})


def first_changes_whole(
    session: ReadSession, transaction_id: int, limit: int
) -> list[ChangeRow] | None:
    """Return the first changes that count, whole; None where they are too long to be copied."""
    sized = """
        SELECT coalesce(sum(pg_column_size(f.old)), 0) + coalesce(sum(pg_column_size(f.new)), 0)
        FROM (SELECT c.old, c.new FROM change c WHERE c.transaction_id = %s
              ORDER BY c.seq LIMIT %s) f
    """
    if session.rows(sized, [transaction_id, limit])[0][0] > COPIED_BYTES:
        return None
    return changes_of(session, transaction_id, limit=limit)


def last_seq(session: ReadSession, transaction_id: int) -> int:
    """Return the last change's seq, even of one that does not count; 0 without any."""
    rows = session.rows("SELECT max(seq) FROM change WHERE transaction_id = %s", [transaction_id])
    return int(rows[0][0] or 0)


def first_spots(session: ReadSession, transaction_id: int, limit: int) -> tuple[list[Spot], int]:
    """Return the positions of the first changes that count, and the last seq (``last_seq``)."""
    rows = session.rows(_SPOTS, [transaction_id, transaction_id, limit])
    return [Spot(*row) for _, *row in rows if row[0] is not None], int(rows[0][0])


def _change_rows(
    session: ReadSession, query: sql.Composed, params: dict[str, Any]
) -> list[ChangeRow]:
    changes = []
    for row in session.rows(query, params):
        values = list(row)
        values[6:8] = _json(row[6]), _json(row[7])
        values[15:17] = _json(row[15]) or [], _json(row[16]) or []
        changes.append(seen_change(ChangeRow(*values), session.visibility))
    return changes


def _json(text: object) -> Any:
    return orjson.loads(text) if isinstance(text, str) else text


def matching_text(session: ReadSession, ids: Collection[int], text: str) -> set[int]:
    """Return the transactions with the text in a value of their first 200 changes."""
    if not ids:
        return set()
    limits = text_limits(session, tables_of(session, ids))
    rows = session.rows(
        sql.SQL(_MATCHING_TEXT).format(
            holds_text=limits.holds_text, not_aborted=sql.SQL(NOT_ABORTED)
        ),
        {"ids": list(ids), "searched": TEXT_CHANGES, "pattern": pattern_of(text)}
        | limits.parameters,
    )
    return {row[0] for row in rows}


def messages_of(session: ReadSession, ids: Collection[int]) -> dict[int, str]:
    """Return the prefix of each transaction's first message, if one is near its beginning."""
    return {row[0]: row[1] or "" for row in session.rows(_PREFIXES, [list(ids)])} if ids else {}


def value_pieces(
    session: ReadSession, transaction_id: int, seq: int, side: str, column: str
) -> Iterator[str] | None:
    """Return one whole value as text, in pieces, however large; None where there is none."""
    if side not in ("old", "new") or _withheld(session, transaction_id, seq, column):
        return None
    params = {"column": column, "id": transaction_id, "seq": seq}
    rows = session.rows(_VALUE.format(side=sql.Identifier(side)), params)
    if not rows or rows[0][0] is None:
        return None
    text, json_type = rows[0]
    if json_type == "object" and "$aside" in orjson.loads(text):
        return _large_value(session, {**params, "side": side})
    return iter([str(text)])


def beginning_of(pieces: Iterator[str]) -> str:
    """Return a value that comes in pieces, up to ``SHOWN_CHARACTERS``."""
    text = ""
    while len(text) < SHOWN_CHARACTERS and (piece := next(pieces, "")):
        text += piece
    return text[:SHOWN_CHARACTERS]


def _withheld(session: ReadSession, transaction_id: int, seq: int, column: str) -> bool:
    visibility = session.visibility
    if visibility.open:
        return False
    query = """
        SELECT relation_id, op::text, version_id FROM change WHERE transaction_id = %s AND seq = %s
    """
    for relation_id, op, version_id in session.rows(query, [transaction_id, seq]):
        if op == "M":
            return visibility.hides_message_in(transaction_id)
        return relation_id is not None and (
            visibility.hides(relation_id)
            or column in visibility.masked(relation_id, version_id=version_id)
        )
    return False


def _large_value(session: ReadSession, params: dict[str, object]) -> Iterator[str]:
    """Yield the pieces of a value that is kept aside."""
    piece = session.rows(_FIRST_PIECE, params)[0][0]
    while piece is not None and (rows := session.rows(_PIECE, {**params, "piece": piece})):
        yield rows[0][0]
        piece += 1

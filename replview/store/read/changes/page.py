"""Reading the changes of transactions, a page at a time.

Changes of aborted subtransactions are hidden here unless asked for: a tombstone names them, their
rows may still be there. Every read is bounded, also for a transaction of millions of changes.
"""

from collections.abc import Collection
from typing import Any

import orjson

from replview.store.read.rows import ChangeRow
from replview.store.read.seen import seen_change, tables_of, text_limits
from replview.store.read.session import ReadSession

_CHANGES_OF = """
    SELECT c.transaction_id, c.seq, c.lsn, c.subxid, c.op, c.old_kind, c.old, c.new,
           c.relation_id, c.key_hash, c.old_key_hash,
           v.schema, v."table", v.number, v.replica_identity, v.columns, v.key_columns,
           a.subxid IS NOT NULL AS aborted
    FROM change c LEFT JOIN relation_version v ON v.id = c.version_id
    LEFT JOIN aborted_subtransaction a
        ON a.transaction_id = c.transaction_id AND a.subxid = c.subxid
    WHERE c.transaction_id = %s AND c.seq > %s AND (%s OR a.subxid IS NULL)
    ORDER BY c.seq LIMIT %s
"""

# Only as far into a transaction as _SEARCHED: a large one is not read whole for a filter.
_MATCHING_TEXT = """
    SELECT DISTINCT c.transaction_id FROM change c
    WHERE c.transaction_id = ANY(%(ids)s) AND c.seq <= %(searched)s
      AND (EXISTS (SELECT FROM jsonb_each_text(c.new) v WHERE v.value ILIKE %(pattern)s {of_value})
        OR EXISTS (SELECT FROM jsonb_each_text(c.old) v WHERE v.value ILIKE %(pattern)s {of_value}))
      {of_change}
      AND NOT EXISTS (SELECT FROM aborted_subtransaction a
                      WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)
"""
_SEARCHED = 200

_MESSAGES_OF = """
    SELECT DISTINCT ON (transaction_id) transaction_id, new->>'prefix'
    FROM change WHERE transaction_id = ANY(%s) AND seq <= 20 AND op = 'M'
    ORDER BY transaction_id, seq
"""

# What a page may ask for at once; the rest of a larger value is for a download.
_VALUE_LIMIT = 2_000_000


def _json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def _letter(code: str | bytes | None) -> str | None:
    """A value of PostgreSQL's type "char", which psycopg may hand over as bytes."""
    return code.decode() if isinstance(code, bytes) else code


def changes_of(
    session: ReadSession,
    transaction_id: int,
    after_seq: int = 0,
    limit: int = 50,
    *,
    with_aborted: bool = False,
) -> list[ChangeRow]:
    """The changes of a transaction in order, from after ``after_seq`` on: those that count, or
    also, marked, those that aborted subtransactions took away.
    """
    found = []
    for row in session.rows(_CHANGES_OF, [transaction_id, after_seq, with_aborted, limit]):
        values = list(row)
        values[4:8] = _letter(row[4]) or "", _letter(row[5]), _json(row[6]), _json(row[7])
        values[15:17] = _json(row[15]) or [], _json(row[16]) or []
        found.append(seen_change(ChangeRow(*values), session.visibility))
    return found


def matching_text(session: ReadSession, ids: Collection[int], text: str) -> set[int]:
    """Which transactions have the text in a key or value of their first 200 changes."""
    if not ids:
        return set()
    escaped = text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    limits = text_limits(session, tables_of(session, ids))
    rows = session.rows(
        _MATCHING_TEXT.format(of_change=limits.of_change, of_value=limits.of_value("v")),
        {"ids": list(ids), "searched": _SEARCHED, "pattern": f"%{escaped}%", **limits.parameters},
    )
    return {row[0] for row in rows}


def messages_of(session: ReadSession, ids: Collection[int]) -> dict[int, str]:
    """The prefix of each transaction's first message, where one stands near its beginning."""
    return {row[0]: row[1] or "" for row in session.rows(_MESSAGES_OF, [list(ids)])} if ids else {}


def value_of(
    session: ReadSession, transaction_id: int, seq: int, side: str, column: str
) -> str | None:
    """One value whole, as text, up to 2,000,000 characters; None where there is none."""
    if side not in ("old", "new"):
        return None
    if _withheld(session, transaction_id, seq, column):
        return None
    sql = f"""
        SELECT left({side}->>%(column)s, %(limit)s), jsonb_typeof({side}->%(column)s)
        FROM change WHERE transaction_id = %(id)s AND seq = %(seq)s
    """  # noqa: S608 (side is one of two words)
    wanted = {"column": column, "limit": _VALUE_LIMIT, "id": transaction_id, "seq": seq}
    rows = session.rows(sql, wanted)
    if not rows or rows[0][0] is None:
        return None
    text, kind = rows[0]
    if kind == "object" and "$aside" in orjson.loads(text):
        return _large_value(session, {**wanted, "side": side})
    return str(text)


def _withheld(session: ReadSession, transaction_id: int, seq: int, column: str) -> bool:
    """Whether whoever asks may not see the value."""
    visibility = session.visibility
    if visibility.open:
        return False
    sql = "SELECT relation_id, op, version_id FROM change WHERE transaction_id = %s AND seq = %s"
    for relation_id, op, version_id in session.rows(sql, [transaction_id, seq]):
        if _letter(op) == "M":
            return visibility.hides_message_in(transaction_id)
        return relation_id is not None and (
            visibility.hides(relation_id)
            or column in visibility.masked(relation_id, version_id=version_id)
        )
    return False


def _large_value(session: ReadSession, wanted: dict[str, object]) -> str:
    """The first pieces of a value kept aside."""
    text = ""
    sql = """
        SELECT left(content, %(limit)s) FROM large_value
        WHERE transaction_id = %(id)s AND seq = %(seq)s AND side = %(side)s
          AND "column" = %(column)s AND piece = %(piece)s
    """
    piece = _first_piece(session, wanted)
    while piece is not None and len(text) < _VALUE_LIMIT:
        rows = session.rows(sql, {**wanted, "piece": piece})
        if not rows:
            break
        text += rows[0][0]
        piece += 1
    return text[:_VALUE_LIMIT]


def _first_piece(session: ReadSession, wanted: dict[str, object]) -> int | None:
    sql = """
        SELECT min(piece) FROM large_value WHERE transaction_id = %(id)s AND seq = %(seq)s
          AND side = %(side)s AND "column" = %(column)s
    """
    first = session.rows(sql, wanted)[0][0]
    return None if first is None else int(first)

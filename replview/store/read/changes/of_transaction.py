"""One transaction's changes for its page: filtered, from any place, in bounded time.

A page's changes have long values cut (``store.read.changes.values``); one change, or all that an
undo needs, are read whole up to a bound.
"""

import time
from dataclasses import dataclass
from typing import Any

import orjson

from replview.store.read.rows import ChangeRow
from replview.store.read.seen import TextLimits, seen_change, tables_of, text_limits
from replview.store.read.session import ReadSession

#: Longer values are cut when a page is read.
CUT_CHARACTERS = 50_000
#: A row that takes less in the store has no value that long, unless it compresses very well.
_LOOK_INTO_BYTES = 2_000
#: What one statement looks at: the first window, and the largest.
_FIRST_WINDOW = {False: 20_000, True: 1_000}
_LARGEST_WINDOW = {False: 200_000, True: 20_000}
#: The first window of values tells how much the next may look at: so much more at most.
_FASTER = 16
#: What may be copied at once, as JSON text in bytes.
COPIED_BYTES = 8_000_000

_CUT = """CASE WHEN pg_column_size(c.{side}) < %(look_into)s THEN c.{side} ELSE (
    SELECT jsonb_object_agg(e.key, CASE
        WHEN jsonb_typeof(e.value) = 'string' AND length(e.value #>> '{{}}') > %(cut)s
        THEN jsonb_build_object('$cut', length(e.value #>> '{{}}'),
            '$head', left(e.value #>> '{{}}', 2000), '$md5', md5(e.value #>> '{{}}'))
        ELSE e.value END) FROM jsonb_each(c.{side}) e) END"""
_ROW = """
    SELECT c.transaction_id, c.seq, c.lsn, c.subxid, c.op, c.old_kind, {old}, {new},
           c.relation_id, c.key_hash, c.old_key_hash,
           v.schema, v."table", v.number, v.replica_identity, v.columns, v.key_columns,
           a.subxid IS NOT NULL AS aborted
    FROM change c LEFT JOIN relation_version v ON v.id = c.version_id
    LEFT JOIN aborted_subtransaction a
        ON a.transaction_id = c.transaction_id AND a.subxid = c.subxid
    WHERE c.transaction_id = %(id)s
"""
_CUT_ROW = _ROW.format(old=_CUT.format(side="old"), new=_CUT.format(side="new"))
_WHOLE_ROW = _ROW.format(old="c.old", new="c.new")
_TEXT = """(EXISTS (SELECT FROM jsonb_each_text(c.new) t WHERE t.value ILIKE %(text)s {of_value})
         OR EXISTS (SELECT FROM jsonb_each_text(c.old) t WHERE t.value ILIKE %(text)s {of_value}))
         {of_change}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFilter:
    """Which changes of a transaction; an empty filter is all that count."""

    relation_id: int | None = None
    #: Letters of operations; empty: all.
    ops: str = ""
    #: In a value of the row, in any case.
    text: str = ""
    #: Those of rolled-back savepoints too, where the slot keeps them.
    with_aborted: bool = False


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes in the transaction's order."""

    rows: list[ChangeRow]
    #: There are more in the direction that was read.
    more: bool
    #: The time was over before the page was full: nothing beyond this change was looked at.
    searched_to: int | None = None


@dataclass(frozen=True, slots=True)
class Spot:
    """Where in the WAL a change is, without its values."""

    seq: int
    lsn: int
    op: str
    relation_id: int | None


def find_changes(
    session: ReadSession,
    transaction_id: int,
    wanted: ChangeFilter,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int = 50,
    budget_seconds: float = 0.25,
    last: int | None = None,
) -> ChangePage:
    """The changes after ``after``, or the last ones before ``before``, in order; ``last``: its last
    change's ordinal, where that is known.

    Looks at windows of the transaction until the page is full or the time is over, so that a
    filter that matches little in a million changes is searched piece by piece.
    """
    last = last_seq(session, transaction_id) if last is None else last
    backwards = before is not None
    edge = min(before if before is not None else after, last + 1)
    deadline = time.monotonic() + budget_seconds
    window, found = _FIRST_WINDOW[bool(wanted.text)], list[ChangeRow]()
    while (edge > 1 if backwards else edge < last) and len(found) <= limit:
        low, high = (edge - window, edge) if backwards else (edge, edge + window + 1)
        began = time.monotonic()
        room = limit + 1 - len(found)
        found += _window(
            session, transaction_id, wanted, max(low, 0), high, room, backwards=backwards
        )
        edge = max(low, 0) + 1 if backwards else high - 1
        now = time.monotonic()
        if len(found) <= limit and now > deadline:
            break
        window = _next_window(window, wanted, took=now - began, left=deadline - now)
    more = len(found) > limit
    done = edge <= 1 if backwards else edge >= last
    page = found[:limit]
    if backwards:
        page.reverse()
    return ChangePage(page, more, None if more or done else edge)


def _next_window(window: int, wanted: ChangeFilter, *, took: float, left: float) -> int:
    """As much as the rest of the time is enough for, going by the window just read."""
    factor = min(left / max(took, 0.001), _FASTER)
    least, most = _FIRST_WINDOW[bool(wanted.text)] // 2, _LARGEST_WINDOW[bool(wanted.text)]
    return min(max(int(window * factor), least), most)


def _window(
    session: ReadSession,
    transaction_id: int,
    wanted: ChangeFilter,
    low: int,
    high: int,
    limit: int,
    *,
    backwards: bool,
) -> list[ChangeRow]:
    """The first matching changes between two places, both left out, in the direction of reading."""
    limits = TextLimits()
    if wanted.text:
        limits = text_limits(
            session, tables_of(session, [transaction_id]), transaction_id=transaction_id
        )
    order = "DESC" if backwards else "ASC"
    sql = f"{_CUT_ROW} AND {_condition(wanted, limits)} ORDER BY c.seq {order} LIMIT %(limit)s"
    escaped = wanted.text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return _change_rows(
        session,
        sql,
        {
            "id": transaction_id,
            "low": low,
            "high": high,
            "relation": wanted.relation_id,
            "ops": list(wanted.ops),
            "text": f"%{escaped}%",
            "limit": limit,
            "cut": CUT_CHARACTERS,
            "look_into": _LOOK_INTO_BYTES,
            **limits.parameters,
        },
    )


def _condition(wanted: ChangeFilter, limits: TextLimits) -> str:
    """What a change must be to match, as SQL; ``limits``: where its text may be looked for."""
    conditions = ["c.seq > %(low)s", "c.seq < %(high)s"]
    if not wanted.with_aborted:
        conditions.append("a.subxid IS NULL")
    if wanted.relation_id is not None:
        conditions.append("c.relation_id = %(relation)s")
    if wanted.ops:
        conditions.append('c.op = ANY(%(ops)s::"char"[])')
    if wanted.text:
        of_value = limits.of_value("t")
        conditions.append(_TEXT.format(of_value=of_value, of_change=limits.of_change))
    return " AND ".join(conditions)


def one_change(session: ReadSession, transaction_id: int, seq: int) -> ChangeRow | None:
    """One change whole; None where there is none, or it is longer than may be copied."""
    sql = f"{_WHOLE_ROW} AND c.seq = %(seq)s AND {_COPIABLE}"
    found = _change_rows(session, sql, {"id": transaction_id, "seq": seq, "most": COPIED_BYTES})
    return found[0] if found else None


_COPIABLE = """coalesce(octet_length(c.old::text), 0) + coalesce(octet_length(c.new::text), 0)
    < %(most)s"""


def first_changes_whole(
    session: ReadSession, transaction_id: int, limit: int
) -> list[ChangeRow] | None:
    """The changes that count, whole; None where they are longer than may be copied."""
    sized = """
        SELECT coalesce(sum(pg_column_size(f.old)), 0) + coalesce(sum(pg_column_size(f.new)), 0)
        FROM (SELECT c.old, c.new FROM change c WHERE c.transaction_id = %s
              ORDER BY c.seq LIMIT %s) f
    """
    if session.rows(sized, [transaction_id, limit])[0][0] > COPIED_BYTES:
        return None
    sql = f"{_WHOLE_ROW} AND a.subxid IS NULL ORDER BY c.seq LIMIT %(limit)s"
    return _change_rows(session, sql, {"id": transaction_id, "limit": limit})


def last_seq(session: ReadSession, transaction_id: int) -> int:
    """The last change's ordinal, also one that does not count; 0 without any."""
    found = session.rows("SELECT max(seq) FROM change WHERE transaction_id = %s", [transaction_id])
    return int(found[0][0] or 0)


def first_spots(session: ReadSession, transaction_id: int, limit: int) -> tuple[list[Spot], int]:
    """Where its first changes are that count; and the last change's ordinal (``last_seq``)."""
    sql = """
        SELECT l.seq, c.seq, (c.lsn - '0/0')::bigint, c.op, c.relation_id
        FROM (SELECT coalesce(max(seq), 0) AS seq FROM change WHERE transaction_id = %s) l
        LEFT JOIN change c ON c.transaction_id = %s AND c.seq <= %s
          AND NOT EXISTS (SELECT FROM aborted_subtransaction a
                          WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)
        ORDER BY c.seq
    """
    found = session.rows(sql, [transaction_id, transaction_id, limit])
    spots = [
        Spot(seq, int(lsn), _letter(op) or "", relation_id)
        for _, seq, lsn, op, relation_id in found
        if seq is not None
    ]
    return spots, int(found[0][0])


def _change_rows(session: ReadSession, sql: str, parameters: dict[str, Any]) -> list[ChangeRow]:
    found = []
    for row in session.rows(sql, parameters):
        values = list(row)
        values[4:8] = _letter(row[4]) or "", _letter(row[5]), _json(row[6]), _json(row[7])
        values[15:17] = _json(row[15]) or [], _json(row[16]) or []
        found.append(seen_change(ChangeRow(*values), session.visibility))
    return found


def _json(text: Any) -> Any:
    return orjson.loads(text) if isinstance(text, str) else text


def _letter(code: str | bytes | None) -> str | None:
    """A value of PostgreSQL's type "char", which psycopg may hand over as bytes."""
    return code.decode() if isinstance(code, bytes) else code

"""A slice's narrowing in SQL: conditions on ``transaction t``, for a reader that knows no Django.

As ``replview.store.read.transactions.conditions`` has them for pages; a test holds both equal.
"""

from collections.abc import Iterator

import orjson
from psycopg import sql

from replview.parquet.slices import NO_ORIGIN, Narrowing, Slice

#: How far into a transaction a text is looked for in values.
TEXT_CHANGES = 200

_CHANGES = sql.SQL(
    "greatest(t.inserts + t.updates + t.deletes + t.truncates + t.messages - t.aborted_changes, 0)"
)
_PREPARED = sql.SQL(
    "t.gid IS NOT NULL AND t.prepared_at IS NOT NULL"
    " AND coalesce(t.commit_time, t.ended_at) - t.prepared_at >= make_interval(secs => {})"
)
_TEXT = """
    ({names} OR t.relations ?| ARRAY(
        SELECT r.id::text FROM relation r WHERE r.schema || '.' || r."table" ILIKE {pattern})
     OR EXISTS (
        SELECT FROM change c
        WHERE c.transaction_id = t.id AND c.seq <= {most}{of_change}
          AND (EXISTS (SELECT FROM jsonb_each_text(c.new) v
                       WHERE v.value ILIKE {pattern}{of_value})
            OR EXISTS (SELECT FROM jsonb_each_text(c.old) v
                       WHERE v.value ILIKE {pattern}{of_value}))
          AND NOT EXISTS (SELECT FROM aborted_subtransaction a
                          WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)))
"""
_NAMED = ("t.gid", "t.actor", "t.origin", "t.xid::text", "t.commit_lsn::text")
_IN_TABLES = sql.SQL("""
    AND (c.relation_id IS NULL OR c.relation_id IN (
        SELECT r.id FROM relation r WHERE r.schema || '.' || r."table" = ANY({}::text[])))
""")
_NOT_MASKED = sql.SQL("""
    AND NOT coalesce(jsonb_exists({}::jsonb -> (
        SELECT r.schema || '.' || r."table" FROM relation r WHERE r.id = c.relation_id), v.key),
        false)
""")


def narrowing_conditions(part: Slice) -> Iterator[sql.Composable]:
    """All of them are true of a transaction that passes; the dearest last."""
    asked = part.narrowed
    if asked.states:
        yield sql.SQL("t.state = ANY({})").format(list(asked.states))
    if asked.no_actor:
        yield sql.SQL("t.actor IS NULL")
    if asked.origin == NO_ORIGIN:
        yield sql.SQL("t.origin IS NULL")
    elif asked.origin:
        yield sql.SQL("t.origin = {}").format(asked.origin)
    if asked.id:
        yield _identified(asked.id)
    if asked.min_changes:
        yield sql.SQL("{} >= {}").format(_CHANGES, asked.min_changes)
    if asked.min_bytes:
        yield sql.SQL("t.size_bytes >= {}").format(asked.min_bytes)
    if asked.prepared_min:
        yield _PREPARED.format(asked.prepared_min)
    if asked.text:
        yield _holds_text(asked, part)


def _identified(name: str) -> sql.Composed:
    if name.isascii() and name.isdigit() and len(name) <= 18:
        return sql.SQL("(t.gid = {} OR t.xid = {})").format(name, int(name))
    return sql.SQL("t.gid = {}").format(name)


def _holds_text(asked: Narrowing, part: Slice) -> sql.Composed:
    """No masked value is found, and nothing of a table that may not be looked into."""
    escaped = asked.text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    pattern = sql.Literal(f"%{escaped}%")
    names = [sql.SQL(name) + sql.SQL(" ILIKE ") + pattern for name in _NAMED]
    of_change: list[sql.Composable] = []
    if asked.searched is not None:
        of_change.append(_IN_TABLES.format(list(asked.searched)))
    if not asked.in_messages:
        of_change.append(sql.SQL(" AND c.op::text <> 'M'"))
    masked = orjson.dumps({name: list(columns) for name, columns in part.masked}).decode()
    return sql.SQL(_TEXT).format(
        names=sql.SQL(" OR ").join(names),
        pattern=pattern,
        most=TEXT_CHANGES,
        of_change=sql.Composed(of_change),
        of_value=_NOT_MASKED.format(masked) if part.masked else sql.SQL(""),
    )

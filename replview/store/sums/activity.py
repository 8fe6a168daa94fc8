"""Sum up the record in the background: blocks of history, tables, actors.

A block is added once all its thousand places are assigned. What has a place is final, so no sum is
ever reduced (except where days were deleted), and sums and the mark of their progress change in one
store transaction. Transactions after the mark are read from ``transaction`` itself.
"""

import datetime as dt
import time
from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from psycopg import sql

from replview.store.django_session import rows
from replview.store.models import ActivityMark, ActorActivity, HistoryBlock, RelationActivity
from replview.store.read.history_places import BLOCK, next_block

#: Blocks that one store transaction adds, if that many are due: actors' sums are then written once.
BLOCKS_TOGETHER = 10

# Incarnations with a whole block that is not in the sums yet, except of slots being removed.
_BEHIND = """
    SELECT i.id FROM slot_incarnation i JOIN slot s ON s.id = i.slot_id
    LEFT JOIN activity_mark m ON m.incarnation_id = i.id
    WHERE i.commit_seq >= CASE WHEN coalesce(m.rolled_seq, 0) = 0 THEN %s - 1
                               ELSE m.rolled_seq + %s END
      AND s.desired <> 'removing'
    ORDER BY i.id
"""

_MAKE_MARK = "INSERT INTO {mark} VALUES (%s, 0) ON CONFLICT DO NOTHING"
# The process that locks the mark's row adds the block; another worker takes another incarnation.
# The conditions are checked again under the lock: the slot may be in removal by now, the block
# done.
_TAKE_MARK = """
    SELECT m.rolled_seq, i.commit_seq FROM {mark} m
    JOIN slot_incarnation i ON i.id = m.incarnation_id JOIN slot s ON s.id = i.slot_id
    WHERE m.incarnation_id = %s AND s.desired <> 'removing'
    FOR UPDATE OF m SKIP LOCKED
"""

ADD_BLOCKS = """
    INSERT INTO history_block
        (incarnation_id, block, first_time, last_time, first_lsn, last_lsn, transactions, inserts,
         updates, deletes, truncates, messages, size_bytes, max_changes, max_size_bytes, states)
    SELECT %(incarnation)s, n.block, min(t.at), max(t.at), min(t.lsn), max(t.lsn), count(t.id),
           coalesce(sum(t.inserts) FILTER (WHERE t.counts), 0),
           coalesce(sum(t.updates) FILTER (WHERE t.counts), 0),
           coalesce(sum(t.deletes) FILTER (WHERE t.counts), 0),
           coalesce(sum(t.truncates) FILTER (WHERE t.counts), 0),
           coalesce(sum(t.messages) FILTER (WHERE t.counts), 0),
           coalesce(sum(t.size_bytes), 0), coalesce(max(t.changes), 0),
           coalesce(max(t.size_bytes), 0), jsonb_strip_nulls(jsonb_build_object(
               'committed', nullif(count(*) FILTER (WHERE t.state = 'committed'), 0),
               'message', nullif(count(*) FILTER (WHERE t.state = 'message'), 0),
               'skipped', nullif(count(*) FILTER (WHERE t.state = 'skipped'), 0),
               'snapshot', nullif(count(*) FILTER (WHERE t.state = 'snapshot'), 0)))
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n (block)
    LEFT JOIN (
        SELECT *, state <> 'snapshot' AS counts, commit_seq / %(size)s AS block,
               coalesce(commit_time, stored_at, received_at) AS at,
               CASE WHEN state <> 'snapshot' THEN coalesce(commit_lsn, end_lsn, first_lsn) END
                   AS lsn,
               inserts + updates + deletes + truncates + messages AS changes
        FROM transaction
        WHERE incarnation_id = %(incarnation)s AND commit_seq BETWEEN %(low)s AND %(high)s
    ) t ON t.block = n.block
    GROUP BY n.block
"""

# A transaction's own counts are enough for a table with one shape. Where there are several, the
# server counts the changes, one transaction at a time by their primary key; changes that are
# deleted by then count without a version. A baseline has no actor: it is in the tables' sums, not
# in the actors'. ``days`` None: all days.
#: The shares of each actor in a ``transaction t`` with several, from its ``actors``.
SHARES = """jsonb_path_query(t.actors, '$[*] ? (exists (@.counts))') AS e CROSS JOIN LATERAL (
    SELECT coalesce(e ->> 'actor', '') AS actor, coalesce(e ->> 'grade', '') AS grade,
           (e #>> '{counts,0}')::bigint AS inserts, (e #>> '{counts,1}')::bigint AS updates,
           (e #>> '{counts,2}')::bigint AS deletes, (e #>> '{counts,3}')::bigint AS truncates,
           (e #>> '{counts,4}')::bigint AS messages, e -> 'relations' AS relations) s"""
_TOUCHED = """
    WITH t AS MATERIALIZED (
        SELECT id, commit_seq / %(size)s AS block, state = 'snapshot' AS snapshot,
               coalesce(commit_time, stored_at, received_at) AS at, coalesce(actor, '') AS actor,
               CASE WHEN actor IS NULL THEN '' ELSE coalesce(actor_grade, '') END AS grade,
               messages, relations, actors
        FROM transaction
        WHERE incarnation_id = %(incarnation)s AND commit_seq BETWEEN %(low)s AND %(high)s
          AND (%(days)s::date[] IS NULL OR (coalesce(commit_time, stored_at, received_at)
                                            AT TIME ZONE 'UTC')::date = ANY(%(days)s))),
    versions AS MATERIALIZED (
        SELECT relation_id, count(*) AS number, min(id) AS first FROM relation_version
        WHERE relation_id IN (SELECT r.id FROM relation r JOIN slot_incarnation i USING (slot_id)
                              WHERE i.id = %(incarnation)s)
        GROUP BY relation_id),
    noted AS MATERIALIZED (
        SELECT t.id, r.key::bigint AS relation, coalesce(v.number, 0) > 1 AS recounted,
               CASE WHEN v.number = 1 THEN v.first ELSE 0 END AS version,
               (r.value->>0)::bigint AS inserts, (r.value->>1)::bigint AS updates,
               (r.value->>2)::bigint AS deletes, (r.value->>3)::bigint AS truncates
        FROM t CROSS JOIN LATERAL jsonb_each(t.relations) r
        LEFT JOIN versions v ON v.relation_id = r.key::bigint),
    counted AS MATERIALIZED (
        SELECT w.id, c.* FROM (
            SELECT id, array_agg(relation) AS relations FROM noted WHERE recounted GROUP BY id) w
        CROSS JOIN LATERAL (
            SELECT c.relation_id AS relation, coalesce(c.version_id, 0) AS version,
                   row_number() OVER (PARTITION BY c.relation_id ORDER BY min(c.seq)) AS place,
                   count(*) FILTER (WHERE c.op IN ('I', 'S')) AS inserts,
                   count(*) FILTER (WHERE c.op = 'U') AS updates,
                   count(*) FILTER (WHERE c.op = 'D') AS deletes,
                   count(*) FILTER (WHERE c.op = 'T') AS truncates
            FROM change c
            WHERE c.transaction_id = w.id AND c.relation_id = ANY(w.relations)
              AND NOT EXISTS (SELECT FROM aborted_subtransaction a
                              WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)
            GROUP BY c.relation_id, coalesce(c.version_id, 0)) c),
    touched AS MATERIALIZED (
        SELECT id, relation, version, 1 AS place, inserts, updates, deletes, truncates
        FROM noted WHERE NOT recounted
        UNION ALL
        SELECT id, relation, version, place, inserts, updates, deletes, truncates FROM counted
        UNION ALL
        SELECT id, relation, 0, 1, inserts, updates, deletes, truncates
        FROM noted WHERE recounted AND (id, relation) NOT IN (
            SELECT id, relation FROM counted))
"""
_INTO_TABLES = """
        INSERT INTO relation_activity
            (relation_id, incarnation_id, block, version_id, transactions, inserts, updates,
             deletes, truncates, snapshots)
        SELECT o.relation, %(incarnation)s, t.block, o.version,
               count(*) FILTER (WHERE place = 1 AND NOT snapshot),
               coalesce(sum(inserts) FILTER (WHERE NOT snapshot), 0), sum(updates), sum(deletes),
               sum(truncates), coalesce(sum(inserts) FILTER (WHERE snapshot), 0)
        FROM touched o JOIN t ON t.id = o.id GROUP BY o.relation, t.block, o.version
"""
#: Adds sums to rows of ``actor_activity AS mine`` that exist.
ADDED_TO_ACTOR = """ON CONFLICT (incarnation_id, actor, day, relation_id, grade) DO UPDATE SET
        transactions = mine.transactions + excluded.transactions,
        inserts = mine.inserts + excluded.inserts, updates = mine.updates + excluded.updates,
        deletes = mine.deletes + excluded.deletes, truncates = mine.truncates + excluded.truncates,
        messages = mine.messages + excluded.messages,
        first_time = least(mine.first_time, excluded.first_time),
        last_time = greatest(mine.last_time, excluded.last_time)"""
_INTO_ACTORS = sql.SQL("""
    done AS (
        SELECT t.id, t.actor, t.grade, (t.at AT TIME ZONE 'UTC')::date AS day, t.at, o.relation,
               o.place, 0 AS messages, o.inserts, o.updates, o.deletes, o.truncates
        FROM touched o JOIN t ON t.id = o.id WHERE NOT t.snapshot AND t.actors IS NULL
        UNION ALL
        SELECT t.id, t.actor, t.grade, (t.at AT TIME ZONE 'UTC')::date, t.at, 0, 1, t.messages,
               coalesce(sum(o.inserts), 0), coalesce(sum(o.updates), 0),
               coalesce(sum(o.deletes), 0), coalesce(sum(o.truncates), 0)
        FROM t LEFT JOIN touched o ON t.id = o.id WHERE NOT t.snapshot AND t.actors IS NULL
        GROUP BY t.id, t.actor, t.grade, t.at, t.messages
        UNION ALL
        SELECT t.id, s.actor, s.grade, (t.at AT TIME ZONE 'UTC')::date, t.at, r.relation, 1,
               CASE WHEN r.relation = 0 THEN s.messages ELSE 0 END,
               r.inserts, r.updates, r.deletes, r.truncates
        FROM t CROSS JOIN LATERAL {shares} CROSS JOIN LATERAL (
            SELECT 0 AS relation, s.inserts, s.updates, s.deletes, s.truncates
            UNION ALL
            SELECT key::bigint, (value->>0)::bigint, (value->>1)::bigint, (value->>2)::bigint,
                   (value->>3)::bigint FROM jsonb_each(s.relations)) r)
    INSERT INTO actor_activity AS mine
        (incarnation_id, actor, day, relation_id, grade, transactions, inserts, updates, deletes,
         truncates, messages, first_time, last_time)
    SELECT %(incarnation)s, actor, day, relation, grade,
           count(*) FILTER (WHERE place = 1), sum(inserts),
           sum(updates), sum(deletes), sum(truncates), sum(messages), min(at), max(at)
    FROM done GROUP BY actor, day, relation, grade
    {added_to_actor}
""").format(shares=sql.SQL(SHARES), added_to_actor=sql.SQL(ADDED_TO_ACTOR))
_ADD_TABLES_AND_ACTORS = sql.SQL("{touched}, tables AS ({into_tables}), {into_actors}").format(
    touched=sql.SQL(_TOUCHED), into_tables=sql.SQL(_INTO_TABLES), into_actors=_INTO_ACTORS
)
_ADD_TABLES = _TOUCHED + _INTO_TABLES
_ADD_ACTORS = sql.SQL("{touched}, {into_actors}").format(
    touched=sql.SQL(_TOUCHED), into_actors=_INTO_ACTORS
)
_CHANGED_BLOCKS = """
    SELECT b.block, n.left_over FROM history_block b CROSS JOIN LATERAL (
        SELECT count(*) AS left_over FROM transaction t
        WHERE t.incarnation_id = b.incarnation_id AND t.commit_seq BETWEEN b.block * %(size)s
              AND b.block * %(size)s + %(size)s - 1) n
    WHERE b.incarnation_id = %(incarnation)s AND b.block BETWEEN %(first)s AND %(last)s
      AND n.left_over <> b.transactions
"""
_BLOCKS_OF_DAY = """
    SELECT min(block), max(block) FROM history_block
    WHERE incarnation_id = %s AND last_time >= %s AND first_time < %s
"""


def roll(deadline: float) -> int:
    """Add whole blocks to the sums until the deadline (``time.monotonic()``); return how many."""
    return roll_incarnations(_BEHIND, [BLOCK, BLOCK], _roll_some, deadline)


def roll_incarnations(
    behind: str, values: list[int], roll_some: Callable[[int], int], deadline: float
) -> int:
    """Add blocks of each incarnation that is behind, in turn; return the number of blocks."""
    rolled = 0
    while incarnations := rows(behind, values):
        before = rolled
        for (incarnation,) in incarnations:
            if time.monotonic() >= deadline:
                return rolled
            rolled += roll_some(incarnation)
        if rolled == before:
            break
    return rolled


def take_mark(cursor: CursorWrapper, mark: str, incarnation: int) -> tuple[int, int] | None:
    """Lock an incarnation's mark, and return how far it is summed up and how far it goes.

    ``mark`` is the name of the mark's table. The lock lasts until the store transaction ends. None:
    another process has it, or the slot is being removed.
    """
    table = sql.Identifier(mark)
    cursor.execute(sql.SQL(_MAKE_MARK).format(mark=table), [incarnation])
    cursor.execute(sql.SQL(_TAKE_MARK).format(mark=table), [incarnation])
    row: tuple[int, int] | None = cursor.fetchone()
    return row


def forget(incarnation_id: int) -> None:
    """Delete the sums of an incarnation whose slot is being removed."""
    # Delete the mark first: a process that adds a block holds it, and none takes it afterwards.
    with transaction.atomic():
        ActivityMark.objects.filter(incarnation_id=incarnation_id).delete()
        for sums in (HistoryBlock, RelationActivity, ActorActivity):
            sums.objects.filter(incarnation_id=incarnation_id).delete()


def values_of(
    incarnation: int, first: int, last: int, days: Sequence[dt.date] | None = None
) -> dict[str, Any]:
    """Return the parameters of the statements for the blocks from ``first`` to ``last``."""
    return {
        "incarnation": incarnation, "size": BLOCK, "first": first, "last": last,
        "low": first * BLOCK, "high": last * BLOCK + BLOCK - 1,
        "days": None if days is None else list(days),
    }  # fmt: skip


def _roll_some(incarnation: int) -> int:
    """Add an incarnation's next blocks; return 0 if another process does, or none is due."""
    with transaction.atomic(), connection.cursor() as cursor:
        positions = take_mark(cursor, "activity_mark", incarnation)
        if positions is None:
            return 0
        first = next_block(positions[0])
        count = min((positions[1] + 1) // BLOCK - first, BLOCKS_TOGETHER)
        if count <= 0:
            return 0
        params = values_of(incarnation, first, first + count - 1)
        cursor.execute(ADD_BLOCKS, params)
        cursor.execute(_ADD_TABLES_AND_ACTORS, params)
        ActivityMark.objects.filter(pk=incarnation).update(rolled_seq=params["high"])
    return count


def recount(incarnation: int, first: int, last: int, days: Sequence[dt.date]) -> None:
    """Correct the sums of an incarnation's blocks and its actors' days; may be repeated."""
    with transaction.atomic():
        mark = ActivityMark.objects.select_for_update().filter(pk=incarnation).first()
        if mark is None:
            return
        _recount_blocks(incarnation, first, min(last, next_block(mark.rolled_seq) - 1))
        if days:
            _recount_actors(incarnation, sorted(days))


def _recount_blocks(incarnation: int, first: int, last: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_CHANGED_BLOCKS, values_of(incarnation, first, last))
        changed = dict(cursor.fetchall())
        for sums in (HistoryBlock, RelationActivity):
            sums.objects.filter(incarnation_id=incarnation, block__in=list(changed)).delete()
        for block in sorted(block for block, left_over in changed.items() if left_over):
            cursor.execute(ADD_BLOCKS, values_of(incarnation, block, block))
            cursor.execute(_ADD_TABLES, values_of(incarnation, block, block))


def _recount_actors(incarnation: int, days: list[dt.date]) -> None:
    """Compute days again from the blocks that contain them, one by one: they may lie far apart."""
    ActorActivity.objects.filter(incarnation_id=incarnation, day__in=days).delete()
    with connection.cursor() as cursor:
        for day in days:
            begin = dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)
            cursor.execute(_BLOCKS_OF_DAY, [incarnation, begin, begin + dt.timedelta(days=1)])
            first, last = cursor.fetchone()
            if first is not None:
                cursor.execute(_ADD_ACTORS, values_of(incarnation, first, last, [day]))

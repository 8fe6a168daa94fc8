"""Sum up commits minute by minute: changes and bytes of each table, transactions by size.

The sums are computed in the background from transactions whose place in history is final; sums and
mark change in one store transaction. They are kept for 30 days: rates over longer times come from
the slots' samples. A baseline's rows and rolled-back changes do not count.
"""

import datetime as dt

from django.db import connection, transaction
from psycopg import sql

from replview.store.models import MinuteMark, RelationMinute, TransactionSizeMinute
from replview.store.sums.activity import roll_incarnations, take_mark

#: Number of transactions that one store transaction adds.
TRANSACTIONS_TOGETHER = 5000
KEPT_DAYS = 30

_BEHIND = """
    SELECT i.id FROM slot_incarnation i JOIN slot s ON s.id = i.slot_id
    LEFT JOIN minute_mark m ON m.incarnation_id = i.id
    WHERE i.commit_seq > coalesce(m.rolled_seq, 0) AND s.desired <> 'removing'
    ORDER BY i.id
"""
_TRANSACTIONS = """
    SELECT id, date_trunc('minute', coalesce(commit_time, stored_at, received_at), 'UTC')
               AS minute, size_bytes, relations,
           inserts + updates + deletes + truncates AS changes
    FROM transaction
    WHERE incarnation_id = %(incarnation)s AND commit_seq > %(low)s AND commit_seq <= %(high)s
      AND state <> 'snapshot'
"""
# A transaction's bytes are shared among its tables by their changes.
_TABLES = sql.SQL("""
    SELECT relation_id, minute, count(*) AS transactions, sum(changes)::bigint AS changes,
           sum(size_bytes * changes / greatest(together, 1))::bigint AS size_bytes
    FROM (
        SELECT r.key::bigint AS relation_id, t.minute, t.size_bytes, n.changes,
               sum(n.changes) OVER (PARTITION BY t.id) AS together
        FROM ({transactions}) t CROSS JOIN LATERAL jsonb_each(t.relations) r
        CROSS JOIN LATERAL (
            SELECT sum(one::bigint) AS changes FROM jsonb_array_elements_text(r.value) one) n
        ) counted
    GROUP BY relation_id, minute
""").format(transactions=sql.SQL(_TRANSACTIONS))
_SIZES = sql.SQL("""
    SELECT minute, power, count(*) AS transactions, sum(size_bytes)::bigint AS size_bytes
    FROM (SELECT minute, size_bytes,
                 CASE WHEN changes > 0 THEN floor(ln(changes) / ln(2) + 1e-9)::int ELSE -1 END
                     AS power FROM ({transactions}) t) counted
    GROUP BY minute, power
""").format(transactions=sql.SQL(_TRANSACTIONS))
_ADD_TABLES = sql.SQL("""
    INSERT INTO relation_minute AS mine
        (incarnation_id, relation_id, minute, transactions, changes, size_bytes)
    SELECT %(incarnation)s, relation_id, minute, transactions, changes, size_bytes
    FROM ({tables}) n
    ON CONFLICT (incarnation_id, relation_id, minute) DO UPDATE SET
        transactions = mine.transactions + excluded.transactions,
        changes = mine.changes + excluded.changes,
        size_bytes = mine.size_bytes + excluded.size_bytes
""").format(tables=_TABLES)
_ADD_SIZES = sql.SQL("""
    INSERT INTO transaction_size_minute AS mine
        (incarnation_id, minute, power, transactions, size_bytes)
    SELECT %(incarnation)s, minute, power, transactions, size_bytes FROM ({sizes}) n
    ON CONFLICT (incarnation_id, minute, power) DO UPDATE SET
        transactions = mine.transactions + excluded.transactions,
        size_bytes = mine.size_bytes + excluded.size_bytes
""").format(sizes=_SIZES)


def roll(deadline: float) -> int:
    """Add transactions until the deadline (``time.monotonic()``); return their number."""
    return roll_incarnations(_BEHIND, [], _roll_some, deadline)


def forget(incarnation_id: int) -> None:
    """Delete the sums of an incarnation whose slot is being removed."""
    with transaction.atomic():
        MinuteMark.objects.filter(incarnation_id=incarnation_id).delete()
        for sums in (RelationMinute, TransactionSizeMinute):
            sums.objects.filter(incarnation_id=incarnation_id).delete()


def forget_old(now: dt.datetime | None = None) -> int:
    """Delete minutes older than 30 days; return the number of rows."""
    before = (now or dt.datetime.now(dt.UTC)) - dt.timedelta(days=KEPT_DAYS)
    deleted = 0
    for incarnation in MinuteMark.objects.values_list("pk", flat=True):
        for sums in (RelationMinute, TransactionSizeMinute):
            old_minutes = sums.objects.filter(incarnation_id=incarnation, minute__lt=before)
            deleted += old_minutes.delete()[0]
    return deleted


def _roll_some(incarnation: int) -> int:
    """Add the next transactions; return 0 if another process does, or none is left."""
    with transaction.atomic(), connection.cursor() as cursor:
        positions = take_mark(cursor, "minute_mark", incarnation)
        if positions is None or positions[1] <= positions[0]:
            return 0
        low, high = positions[0], min(positions[1], positions[0] + TRANSACTIONS_TOGETHER)
        params = {"incarnation": incarnation, "low": low, "high": high}
        cursor.execute(_ADD_TABLES, params)
        cursor.execute(_ADD_SIZES, params)
        MinuteMark.objects.filter(pk=incarnation).update(rolled_seq=high)
    return int(high - low)

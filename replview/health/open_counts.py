"""Streaming and prepared transactions of every slot, and alerts that fire, in one query."""

from django.db import connection

from replview.health.alert_counts import AlertCounts
from replview.health.states import Prepared
from replview.store.models import Transaction
from replview.store.models.seen import seen_ids

OPEN_STATES = (Transaction.State.STREAMING, Transaction.State.PREPARED)

#: By incarnation: how many are open, and the one prepared for longest.
Open = dict[int | None, tuple[int, Prepared | None]]

# The alerts first.
_OPEN = """
SELECT true, count(*), count(*) FILTER (WHERE rule_was->>'severity' = 'now'), NULL, max(fired_at)
  FROM alert WHERE state = 'firing'
   AND (%(seen)s::bigint[] IS NULL OR source_id IS NULL OR source_id = ANY(%(seen)s))
 UNION ALL
SELECT false, o.incarnation_id, o.number, oldest.gid, oldest.prepared_at
  FROM (SELECT incarnation_id, count(*) AS number, bool_or(state = 'prepared') AS prepared
          FROM transaction WHERE state IN ('streaming', 'prepared') GROUP BY 1) o
  LEFT JOIN LATERAL (
       SELECT gid, prepared_at FROM transaction
        WHERE o.prepared AND state = 'prepared' AND incarnation_id = o.incarnation_id
          AND prepared_at IS NOT NULL
        ORDER BY prepared_at LIMIT 1) oldest ON true
"""


def read_open() -> tuple[Open, AlertCounts]:
    """What is open now, and what fires."""
    with connection.cursor() as cursor:
        # Open transactions are looked up by the lives of the slots that are seen.
        cursor.execute(_OPEN, {"seen": seen_ids()})
        (_, firing, now, _, newest_at), *rows = cursor.fetchall()
    found: Open = {
        incarnation: (
            number,
            Prepared(gid=gid or "", prepared_at=since) if since is not None else None,
        )
        for _, incarnation, number, gid, since in rows
    }
    return found, AlertCounts(firing, now, newest_at)

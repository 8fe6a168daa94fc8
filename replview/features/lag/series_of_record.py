"""The record over time: changes and bytes by table, transactions by size, of one slot."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

#: What is told by name; the others are one.
_MOST_TABLES = 8
_STEPS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400)

_LIVES = "SELECT id FROM slot_incarnation WHERE slot_id = %(slot)s"

_BUSIEST = f"""
    SELECT m.relation_id, r.schema || '.' || r."table"
    FROM (SELECT relation_id, sum({{value}}) AS much FROM relation_minute
          WHERE incarnation_id IN ({_LIVES}) AND minute >= %(since)s AND minute < %(until)s
          GROUP BY relation_id ORDER BY much DESC, relation_id LIMIT {_MOST_TABLES}) m
    JOIN relation r ON r.id = m.relation_id
    WHERE m.much > 0 ORDER BY m.much DESC, m.relation_id
"""  # noqa: S608 (of constants)
_BINNED = "date_bin(make_interval(secs => %(step)s), minute, 'epoch'::timestamptz)"
_BY_TABLE = f"""
    SELECT CASE WHEN relation_id = ANY(%(tables)s) THEN relation_id ELSE 0 END AS relation,
           extract(epoch FROM {_BINNED})::bigint / %(step)s AS bucket,
           sum({{value}})::float8
    FROM relation_minute
    WHERE incarnation_id IN ({_LIVES}) AND minute >= %(since)s AND minute < %(until)s
    GROUP BY relation, {_BINNED}
"""  # noqa: S608 (of constants)
_BY_SIZE = f"""
    SELECT power, sum(transactions)::bigint FROM transaction_size_minute
    WHERE incarnation_id IN ({_LIVES}) AND minute >= %(since)s AND minute < %(until)s
    GROUP BY power ORDER BY power
"""  # noqa: S608 (of constants)

#: What is summed up, by the words of a caller.
_VALUES = {"changes": "changes", "bytes": "size_bytes"}


@dataclass(slots=True)
class TableRates:
    """Rates a second, a bucket at a time; a bucket in which nothing was committed is zero."""

    #: Seconds since 1970, of each bucket's middle.
    times: list[float] = field(default_factory=list)
    #: The busiest first; what is none of them last, as ``others``.
    tables: list[tuple[str, list[float]]] = field(default_factory=list)


def read_table_rates(
    slot_id: int, by: str, since: dt.datetime, until: dt.datetime, points: int = 1000
) -> TableRates:
    """``by`` is ``changes`` or ``bytes``; any other raises ``KeyError``."""
    value = _VALUES[by]
    seconds = (until - since).total_seconds()
    least = seconds / max(points - 2, 1)
    step = next((one for one in _STEPS if one >= least), int(-(-least // 86400)) * 86400)
    words: dict[str, Any] = {"slot": slot_id, "since": since, "until": until, "step": step}
    with connection.cursor() as cursor:
        cursor.execute(_BUSIEST.format(value=value), words)
        names = dict(cursor.fetchall())
        if not names:
            return TableRates()
        cursor.execute(_BY_TABLE.format(value=value), words | {"tables": list(names)})
        found = {(relation, bucket): much for relation, bucket, much in cursor}
    first, last = int(since.timestamp() // step), int((until.timestamp() - 1e-6) // step)
    # The minutes that are not summed up yet are unknown, not zero.
    last = min(last, max(bucket for _, bucket in found))
    buckets = range(first, last + 1)
    if any(relation == 0 for relation, _ in found):
        names[0] = "others"
    rates = TableRates(times=[(bucket + 0.5) * step for bucket in buckets])
    for relation, name in names.items():
        values = [found.get((relation, bucket), 0.0) / step for bucket in buckets]
        rates.tables.append((name, values))
    return rates


def read_transaction_sizes(slot_id: int, since: dt.datetime, until: dt.datetime) -> dict[int, int]:
    """Transactions by the power of two of their changes; -1: of none."""
    with connection.cursor() as cursor:
        cursor.execute(_BY_SIZE, {"slot": slot_id, "since": since, "until": until})
        return dict(cursor.fetchall())

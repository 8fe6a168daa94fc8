"""Read the counts, last changes and rates of a slot's tables without reading a change.

They come from the sums (``store.sums.activity``) and, after these, from the newest transactions of
each incarnation. Rolled-back changes do not count.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from replview.store.django_session import rows

#: Number of an incarnation's transactions that are read themselves; more must be in the sums.
TAIL = 5000
_COUNT_NAMES = ("inserts", "updates", "deletes", "truncates", "snapshots", "transactions")
#: Blocks of an incarnation that a rate is computed from: two million transactions.
RATE_BLOCKS = 2000

_INCARNATIONS = """
    incarnations AS (
        SELECT i.id, i.number, i.started_at, i.commit_seq, coalesce(m.rolled_seq, 0) AS rolled
        FROM slot_incarnation i LEFT JOIN activity_mark m ON m.incarnation_id = i.id
        WHERE i.slot_id = %(slot)s)
"""
_TAIL = """
    tail AS (
        SELECT l.id AS incarnation, l.number, t.commit_seq, t.commit_time, t.relations,
               t.state = 'snapshot' AS snapshot
        FROM incarnations l CROSS JOIN LATERAL (
            SELECT commit_seq, commit_time, relations, state FROM transaction
            WHERE incarnation_id = l.id AND commit_seq > l.rolled
            ORDER BY commit_seq DESC LIMIT %(tail)s) t
        WHERE t.state IN ('committed', 'snapshot'))
"""

# A last change is known by its block, or exactly where it is not in the sums yet.
_SUMS = sql.SQL("""
    WITH {incarnations}, {tail}
    SELECT a.relation_id, l.id, l.number, sum(a.inserts), sum(a.updates), sum(a.deletes),
           sum(a.truncates), sum(a.snapshots), sum(a.transactions),
           max(a.block) FILTER (WHERE a.inserts + a.updates + a.deletes + a.truncates > 0) * 1000,
           max(a.block) FILTER (WHERE a.inserts + a.updates + a.deletes + a.truncates > 0) * 1000
               + 999
    FROM relation_activity a JOIN incarnations l ON l.id = a.incarnation_id
    GROUP BY 1, 2, 3
    UNION ALL
    SELECT r.key::bigint, t.incarnation, t.number,
           coalesce(sum((r.value->>0)::bigint) FILTER (WHERE NOT t.snapshot), 0),
           sum((r.value->>1)::bigint), sum((r.value->>2)::bigint), sum((r.value->>3)::bigint),
           coalesce(sum((r.value->>0)::bigint) FILTER (WHERE t.snapshot), 0),
           count(*) FILTER (WHERE NOT t.snapshot),
           max(t.commit_seq) FILTER (WHERE NOT t.snapshot),
           max(t.commit_seq) FILTER (WHERE NOT t.snapshot)
    FROM tail t CROSS JOIN LATERAL jsonb_each(t.relations) r
    GROUP BY 1, 2, 3
    UNION ALL
    SELECT NULL, id, number, greatest(commit_seq - rolled - %(tail)s, 0),
           0, 0, 0, 0, 0, NULL, NULL
    FROM incarnations
""").format(incarnations=sql.SQL(_INCARNATIONS), tail=sql.SQL(_TAIL))

# A block's changes are spread evenly over its time.
_RATES = sql.SQL("""
    WITH {incarnations}, {tail},
    blocks AS (
        SELECT l.id AS incarnation, b.block, b.first_time, b.last_time,
               count(*) OVER (PARTITION BY l.id) AS read
        FROM incarnations l CROSS JOIN LATERAL (
            SELECT block, first_time, last_time FROM history_block
            WHERE incarnation_id = l.id ORDER BY block DESC LIMIT %(blocks)s) b),
    placed AS (
        SELECT incarnation, block,
               extract(epoch FROM first_time - %(since)s)::float8 / %(width)s AS first,
               extract(epoch FROM last_time - %(since)s)::float8 / %(width)s AS last
        FROM blocks WHERE last_time >= %(since)s AND first_time < %(until)s),
    shares AS (
        SELECT incarnation, block, bucket,
               CASE WHEN last > first
                    THEN (least(last, bucket + 1) - greatest(first, bucket)) / (last - first)
                    ELSE 1 END AS share
        FROM placed CROSS JOIN LATERAL generate_series(
            greatest(floor(first), 0)::int, least(floor(last), %(buckets)s - 1)::int) bucket)
    SELECT a.relation_id, s.bucket,
           sum(s.share * (a.inserts + a.updates + a.deletes + a.truncates))
    FROM shares s JOIN relation_activity a ON a.incarnation_id = s.incarnation AND a.block = s.block
    WHERE a.relation_id = ANY(%(ids)s) GROUP BY 1, 2
    UNION ALL
    SELECT r.key::bigint, floor(extract(epoch FROM t.commit_time - %(since)s) / %(width)s)::int,
           sum((r.value->>0)::bigint + (r.value->>1)::bigint + (r.value->>2)::bigint
               + (r.value->>3)::bigint)
    FROM tail t CROSS JOIN LATERAL jsonb_each(t.relations) r
    WHERE t.commit_time >= %(since)s AND t.commit_time < %(until)s AND NOT t.snapshot
      AND r.key::bigint = ANY(%(ids)s)
    GROUP BY 1, 2
    UNION ALL
    SELECT NULL, NULL, extract(epoch FROM greatest(
        least((SELECT min(started_at) FROM incarnations), (SELECT min(first_time) FROM blocks),
              (SELECT min(commit_time) FROM tail)),
        (SELECT min(first_time) FROM blocks WHERE read = %(blocks)s),
        (SELECT min(commit_time) FROM tail t JOIN incarnations l ON l.id = t.incarnation
          WHERE l.commit_seq - l.rolled > %(tail)s)))
""").format(incarnations=sql.SQL(_INCARNATIONS), tail=sql.SQL(_TAIL))

_LAST_CHANGES = """
    SELECT w.relation_id, t.id, t.incarnation_id, t.commit_seq, t.xid, t.commit_time
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
         AS w (relation_id, incarnation, first_seq, last_seq)
    CROSS JOIN LATERAL (
        SELECT id, incarnation_id, commit_seq, xid, commit_time FROM transaction
        WHERE incarnation_id = w.incarnation AND commit_seq BETWEEN w.first_seq AND w.last_seq
          AND state = 'committed' AND jsonb_exists(relations, w.relation_id::text)
        ORDER BY commit_seq DESC LIMIT 1) t
"""


@dataclass(frozen=True, slots=True, order=True)
class LastChangeRange:
    """The place in history where a table last changed: a range of commit_seq in one incarnation."""

    #: Number of the incarnation.
    number: int
    last_seq: int
    first_seq: int
    incarnation_id: int


@dataclass(slots=True)
class RelationSum:
    """The sums of one table."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    truncates: int = 0
    #: Number of rows of its baselines.
    snapshots: int = 0
    transactions: int = 0
    #: Place of the last change; None: it never changed.
    last: LastChangeRange | None = None

    @property
    def changes(self) -> int:
        """Return the number of changes of all operations."""
        return self.inserts + self.updates + self.deletes + self.truncates


@dataclass(slots=True)
class RelationSums:
    """The sums of all tables of a slot."""

    by_relation: dict[int, RelationSum] = field(default_factory=dict)
    #: Number of transactions that are not counted, since the sums are not that far yet.
    not_counted: int = 0


@dataclass(frozen=True, slots=True)
class LastChange:
    """The transaction that last changed a table."""

    transaction_id: int
    incarnation_id: int
    commit_seq: int
    xid: int | None
    commit_time: dt.datetime | None


@dataclass(frozen=True, slots=True)
class RelationRates:
    """Changes of tables in stretches of equal length, one number for each, from ``since`` on."""

    since: dt.datetime
    bucket_seconds: float
    buckets: int
    #: Time before which nothing is known; None: nothing is known.
    known_from: dt.datetime | None
    by_relation: Mapping[int, Sequence[float]]


def sums_of_slot(slot_id: int) -> RelationSums:
    """Return the counts and last places of all tables of a slot, from one query."""
    sums = RelationSums()
    for relation_id, incarnation, number, *counts in rows(_SUMS, {"slot": slot_id, "tail": TAIL}):
        if relation_id is None:
            sums.not_counted += int(counts[0])
            continue
        relation_sum = sums.by_relation.setdefault(relation_id, RelationSum())
        for name, count in zip(_COUNT_NAMES, counts[:6], strict=True):
            setattr(relation_sum, name, getattr(relation_sum, name) + int(count))
        if counts[7] is not None:
            change_range = LastChangeRange(number, int(counts[7]), int(counts[6]), incarnation)
            relation_sum.last = (
                change_range if relation_sum.last is None else max(relation_sum.last, change_range)
            )
    return sums


def rates_of(
    slot_id: int,
    relation_ids: Iterable[int],
    *,
    since: dt.datetime,
    until: dt.datetime,
    buckets: int,
) -> RelationRates:
    """Return the changes of tables over a time, by the source's clock, from one query."""
    ids = list(relation_ids)
    width = max((until - since).total_seconds() / buckets, 1e-6)
    series: dict[int, list[float]] = {identifier: [0.0] * buckets for identifier in ids}
    known_from: dt.datetime | None = None
    params = {
        "slot": slot_id, "ids": ids, "since": since, "until": until, "width": width,
        "buckets": buckets, "blocks": RATE_BLOCKS, "tail": TAIL,
    }  # fmt: skip
    for relation_id, bucket, number in rows(_RATES, params):
        if relation_id is not None:
            series[relation_id][min(max(bucket, 0), buckets - 1)] += float(number)
        elif number is not None:
            known_from = dt.datetime.fromtimestamp(float(number), tz=dt.UTC)
    return RelationRates(since, width, buckets, known_from, series)


def last_changes(places: Mapping[int, LastChangeRange]) -> dict[int, LastChange]:
    """Return the last transactions at these places, by table, from one query."""
    if not places:
        return {}
    ranges = [
        (key, place.incarnation_id, place.first_seq, place.last_seq)
        for key, place in places.items()
    ]
    columns = [list(column) for column in zip(*ranges, strict=True)]
    return {row[0]: LastChange(*row[1:]) for row in rows(_LAST_CHANGES, columns)}

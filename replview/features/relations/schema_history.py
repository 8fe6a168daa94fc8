"""Read the versions of one table over time.

For each version: when it came into force, by which transaction, for how long, and how many changes
are stored under it.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from django.utils.dateparse import parse_datetime
from psycopg import sql

from replview.store.django_session import rows
from replview.store.models import Relation, RelationVersion
from replview.store.read.rows import ACTOR, ACTOR_GRADE
from replview.store.sums.relation_sums import TAIL, RelationSum

# The walsender interface gives no position for a Relation message, so find its transaction by xid.
# As xids wrap around after 2^32, take the transaction nearest in time.
_TRANSACTIONS = sql.SQL("""
    SELECT DISTINCT ON (w.n) w.n, t.id, t.incarnation_id, i.number, t.commit_seq, t.state, t.xid,
           t.commit_time, {actor}, {actor_grade}, c.lsn::text
    FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::bigint[], %s::timestamptz[])
         AS w (n, relation_id, version_id, xid, at)
    JOIN relation r ON r.id = w.relation_id
    JOIN transaction t ON t.xid = w.xid AND t.state NOT IN ('discarded', 'copying')
    JOIN slot_incarnation i ON i.id = t.incarnation_id AND i.slot_id = r.slot_id
         AND i.system_identifier = r.system_identifier
    LEFT JOIN LATERAL (
        SELECT lsn, seq FROM change WHERE transaction_id = t.id AND seq <= %s
          AND version_id = w.version_id ORDER BY seq LIMIT 1) c ON true
    ORDER BY w.n, abs(extract(epoch FROM t.received_at - w.at)) NULLS LAST, t.id DESC
""").format(actor=sql.SQL(ACTOR), actor_grade=sql.SQL(ACTOR_GRADE))
#: Number of a transaction's changes that are searched for the first one of a version.
_MOST_SEARCHED = 5000

# Changes that are not summed up yet count for the version in force at their commit: ALTER TABLE's
# lock prevents changes under an earlier shape in later transactions. A transaction that changed the
# shape counts for the new version.
_COUNTS = """
    WITH incarnations AS (
        SELECT i.id, i.number, coalesce(m.rolled_seq, 0) AS rolled
        FROM relation r JOIN slot_incarnation i ON i.slot_id = r.slot_id
        LEFT JOIN activity_mark m ON m.incarnation_id = i.id
        WHERE r.id = %(relation)s),
    begun AS (
        SELECT * FROM unnest(%(versions)s::bigint[], %(numbers)s::int[], %(seqs)s::bigint[])
             WITH ORDINALITY AS b (version_id, number, seq, rank))
    SELECT version_id, sum(transactions), sum(inserts), sum(updates), sum(deletes), sum(truncates),
           sum(snapshots)
    FROM relation_activity WHERE relation_id = %(relation)s GROUP BY 1
    UNION ALL
    SELECT coalesce(b.version_id, 0), count(*) FILTER (WHERE NOT t.snapshot),
           coalesce(sum((t.counts->>0)::bigint) FILTER (WHERE NOT t.snapshot), 0),
           sum((t.counts->>1)::bigint), sum((t.counts->>2)::bigint), sum((t.counts->>3)::bigint),
           coalesce(sum((t.counts->>0)::bigint) FILTER (WHERE t.snapshot), 0)
    FROM (SELECT l.number, t.commit_seq, t.snapshot, t.relations->%(key)s AS counts
            FROM incarnations l CROSS JOIN LATERAL (
                SELECT commit_seq, relations, state = 'snapshot' AS snapshot FROM transaction
                WHERE incarnation_id = l.id AND commit_seq > l.rolled
                  AND state IN ('committed', 'snapshot')
                ORDER BY commit_seq DESC LIMIT %(tail)s) t) t
    LEFT JOIN LATERAL (
        SELECT version_id FROM begun
        WHERE (begun.number, begun.seq) <= (t.number, t.commit_seq)
        ORDER BY rank DESC LIMIT 1) b ON true
    WHERE t.counts IS NOT NULL GROUP BY 1
"""
#: The counts that ``_COUNTS`` returns for each version, in order.
_COUNT_NAMES = ("transactions", "inserts", "updates", "deletes", "truncates", "snapshots")


@dataclass(frozen=True, slots=True)
class FirstTransaction:
    """The transaction in which a version was first seen."""

    transaction_id: int
    incarnation_id: int
    incarnation_number: int
    #: None for a transaction that is not committed.
    commit_seq: int | None
    state: str
    xid: int
    commit_time: dt.datetime | None
    actor: str | None
    actor_grade: str | None
    #: LSN of the first change under the version; None if it comes too late, or was deleted.
    first_lsn: str | None


@dataclass(frozen=True, slots=True)
class VersionPeriod:
    """A period in which a version was in force."""

    version_id: int
    xid: int | None
    #: LSN of the Relation message; None through a walsender.
    lsn: str | None
    #: Time at which the message was stored, by our clock; None when unknown.
    noticed_at: dt.datetime | None
    #: The transaction of the message; None if it is not in the store.
    found: FirstTransaction | None = None
    #: Time at which the next version came into force; None if there is none, or when unknown.
    until: dt.datetime | None = None
    current: bool = False

    @property
    def began_at(self) -> dt.datetime | None:
        """Return the commit time of the period's transaction, else the time it was noticed."""
        if self.found is not None and self.found.commit_time is not None:
            return self.found.commit_time
        return self.noticed_at


@dataclass(slots=True)
class VersionHistory:
    """A version with its periods and the number of its changes."""

    version: RelationVersion
    #: Oldest first; empty if the transaction that created the version was rolled back.
    periods: list[VersionPeriod] = field(default_factory=list)
    counts: RelationSum = field(default_factory=RelationSum)

    @property
    def first(self) -> VersionPeriod | None:
        """Return the first period, if there is one."""
        return self.periods[0] if self.periods else None

    @property
    def last(self) -> VersionPeriod | None:
        """Return the last period, if there is one."""
        return self.periods[-1] if self.periods else None


@dataclass(slots=True)
class SchemaHistory:
    """All versions of a table, newest first."""

    relation: Relation
    versions: list[VersionHistory]
    #: Periods of all versions, oldest first.
    periods: list[VersionPeriod]
    #: Counts of changes whose version is unknown.
    unplaced: RelationSum

    def number(self, number: int) -> VersionHistory | None:
        """Return the version with that number, if there is one."""
        return next(
            (version for version in self.versions if version.version.number == number), None
        )

    @property
    def current(self) -> VersionHistory | None:
        """Return the version in force, if there is one."""
        version_id = self.relation.current_version_id
        return next(
            (version for version in self.versions if version.version.pk == version_id), None
        )

    def before(self, version: VersionHistory) -> VersionHistory | None:
        """Return the version that was in force before this one came into force first."""
        ids = [period.version_id for period in self.periods]
        position = ids.index(version.version.pk) if version.version.pk in ids else len(ids)
        return next(
            (
                candidate
                for candidate in self.versions
                if candidate.version.pk in ids[:position][-1:]
            ),
            None,
        )


def schema_history(relation: Relation) -> SchemaHistory:
    """Read the versions of a table with their periods and counts, in three queries."""
    versions = list(RelationVersion.objects.filter(relation=relation).order_by("-number"))
    periods = _order_periods(_with_transactions(relation.pk, periods_of(versions)), relation)
    history = {version.pk: VersionHistory(version) for version in versions}
    for period in periods:
        history[period.version_id].periods.append(period)
    unplaced = RelationSum()
    for version_id, *counts in _change_counts(relation.pk, periods):
        version_history = history.get(version_id)
        total = version_history.counts if version_history else unplaced
        for name, number in zip(_COUNT_NAMES, counts, strict=True):
            setattr(total, name, getattr(total, name) + int(number or 0))
    return SchemaHistory(relation, list(history.values()), periods, unplaced)


def periods_of(versions: Iterable[RelationVersion]) -> list[VersionPeriod]:
    """Return every period of these versions as stored, in no particular order.

    Periods that began in a transaction that was rolled back are left out.
    """
    periods = []
    for version in versions:
        intervals = version.intervals or [{"lsn": version.first_lsn, "xid": version.first_xid}]
        for number, interval in enumerate(intervals):
            if interval.get("rolled_back"):
                continue
            noticed_at = parse_datetime(str(interval.get("at") or ""))
            noticed_at = noticed_at or (version.first_seen_at if number == 0 else None)
            lsn = interval.get("lsn")
            periods.append(
                VersionPeriod(
                    version.pk, interval.get("xid"), str(lsn) if lsn else None, noticed_at
                )
            )
    return periods


def _with_transactions(relation_id: int, periods: Sequence[VersionPeriod]) -> list[VersionPeriod]:
    """Add to each period the transaction in which it began."""
    numbered = [(number, period) for number, period in enumerate(periods) if period.xid is not None]
    if not numbered:
        return list(periods)
    params = [
        [number for number, _ in numbered],
        [relation_id] * len(numbered),
        [period.version_id for _, period in numbered],
        [period.xid for _, period in numbered],
        [period.noticed_at for _, period in numbered],
        _MOST_SEARCHED,
    ]
    transactions = {row[0]: FirstTransaction(*row[1:]) for row in rows(_TRANSACTIONS, params)}
    return [
        replace(period, found=transactions.get(number)) for number, period in enumerate(periods)
    ]


def _order_periods(periods: Sequence[VersionPeriod], relation: Relation) -> list[VersionPeriod]:
    """Sort the periods by time, then by position in the history, and set their ends.

    Periods of equal time and position keep the order in which they were stored.
    """
    beginning = dt.datetime.min.replace(tzinfo=dt.UTC)

    def sort_key(period: VersionPeriod) -> tuple[Any, ...]:
        transaction = period.found
        seq = transaction.commit_seq if transaction and transaction.commit_seq is not None else 0
        return (
            period.began_at or beginning,
            transaction.incarnation_number if transaction else 0,
            seq,
        )

    ordered = sorted(periods, key=sort_key)
    in_order = [replace(earlier, until=later.began_at) for earlier, later in pairwise(ordered)]
    for last in ordered[-1:]:
        in_order.append(replace(last, current=last.version_id == relation.current_version_id))
    return in_order


def _change_counts(relation_id: int, periods: Sequence[VersionPeriod]) -> list[tuple[Any, ...]]:
    """Count the changes under each version; changes with an unknown version have id 0."""
    # Skip uncommitted transactions, whose changes are not counted. A deleted transaction precedes
    # all transactions that are not summed up yet.
    committed = [
        period for period in periods if period.found is None or period.found.commit_seq is not None
    ]
    params = {
        "relation": relation_id,
        "key": str(relation_id),
        "versions": [period.version_id for period in committed],
        "numbers": [period.found.incarnation_number if period.found else 0 for period in committed],
        "seqs": [period.found.commit_seq if period.found else 0 for period in committed],
        "tail": TAIL,
    }
    return rows(_COUNTS, params)

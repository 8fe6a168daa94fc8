"""Read the changes of actors by day and table: the sums, and the transactions after them.

Days are UTC, by the commit's time. An empty actor means unknown. Transactions that are not in the
sums yet are read themselves. Rolled-back changes do not count.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from replview.store.django_session import rows
from replview.store.sums.activity import SHARES

#: Number of transactions after the sums that are read for a page; if there are more, the newest.
RECENT_MOST = 5000
#: URL values for the order of a list of actors, greatest first.
SORTS = ("last", "transactions", "changes")
_COUNT_NAMES = ("transactions", "inserts", "updates", "deletes", "truncates", "messages")

_INCARNATIONS = """
    SELECT i.id, i.commit_seq, coalesce(m.rolled_seq, 0)
    FROM slot_incarnation i LEFT JOIN activity_mark m ON m.incarnation_id = i.id
    WHERE i.slot_id = %(slot)s ORDER BY i.number
"""

# Sums and the transactions after them in the same form; ``part`` 0: the whole transaction, else a
# relation.
_ACTIVITY = """
    WITH recent AS (
        SELECT s.*, coalesce(t.commit_time, t.stored_at, t.received_at) AS at
        FROM unnest(%(incarnations)s::bigint[], %(after)s::bigint[]) AS l (incarnation, after)
        JOIN transaction t ON t.incarnation_id = l.incarnation AND t.commit_seq > l.after
        CROSS JOIN LATERAL (
            SELECT coalesce(t.actor, '') AS actor,
                   CASE WHEN t.actor IS NULL THEN '' ELSE coalesce(t.actor_grade, '') END AS grade,
                   t.inserts, t.updates, t.deletes, t.truncates, t.messages, t.relations
            WHERE t.actors IS NULL
            UNION ALL
            SELECT s.* FROM {shares}) s
        WHERE t.state <> 'snapshot' AND (%(actors)s::text[] IS NULL OR s.actor = ANY(%(actors)s))
    ), activity AS (
        {parts}
    )
"""
_WHOLE_TRANSACTIONS = """
        SELECT actor, grade, day, 0 AS part, transactions, inserts, updates, deletes, truncates,
               messages, first_time, last_time
        FROM actor_activity
        WHERE relation_id = 0 AND incarnation_id = ANY(%(incarnations)s) AND {days} AND {who}
        UNION ALL
        SELECT actor, grade, (at AT TIME ZONE 'UTC')::date AS day, 0, 1, inserts, updates, deletes,
               truncates, messages, at, at
        FROM recent WHERE {recent_days}
"""
_TABLES = """
        SELECT actor, grade, day, relation_id AS part, transactions, inserts, updates, deletes,
               truncates, 0::bigint AS messages, first_time, last_time
        FROM actor_activity
        WHERE relation_id <> 0 AND incarnation_id = ANY(%(incarnations)s) AND {days} AND {who}
        UNION ALL
        SELECT actor, grade, (at AT TIME ZONE 'UTC')::date AS day, r.key::bigint, 1,
               (r.value ->> 0)::bigint, (r.value ->> 1)::bigint, (r.value ->> 2)::bigint,
               (r.value ->> 3)::bigint, 0, at, at
        FROM recent, jsonb_each(relations) AS r WHERE {recent_days}
"""
_TABLES_ON_DAYS = """
        SELECT a.actor, a.grade, a.day, a.relation_id AS part, a.transactions, a.inserts, a.updates,
               a.deletes, a.truncates, 0::bigint AS messages, a.first_time, a.last_time
        FROM unnest(%(incarnations)s::bigint[]) AS l (incarnation),
             unnest(%(on_who)s::text[], %(on_day)s::date[]) AS o (who, on_day)
        JOIN actor_activity a ON a.actor = o.who AND a.day = o.on_day
        WHERE a.incarnation_id = l.incarnation AND a.relation_id <> 0
        UNION ALL
        SELECT actor, grade, (at AT TIME ZONE 'UTC')::date AS day, r.key::bigint, 1,
               (r.value ->> 0)::bigint, (r.value ->> 1)::bigint, (r.value ->> 2)::bigint,
               (r.value ->> 3)::bigint, 0, at, at
        FROM recent, jsonb_each(relations) AS r
        WHERE (actor, (at AT TIME ZONE 'UTC')::date) IN
              (SELECT * FROM unnest(%(on_who)s::text[], %(on_day)s::date[]))
"""
_COUNTS = sql.SQL("""
             sum(transactions)::bigint, sum(inserts)::bigint, sum(updates)::bigint,
             sum(deletes)::bigint, sum(truncates)::bigint, sum(messages)::bigint
""")
_GRADES = sql.SQL("""
             coalesce(sum(transactions) FILTER (WHERE grade = 'claimed'), 0)::bigint,
             coalesce(sum(transactions) FILTER (WHERE grade = 'stamped'), 0)::bigint
""")
_ORDERS = {
    "last": "coalesce((extract(epoch FROM max(last_time)) * 1000000)::bigint, 0)",
    "transactions": "sum(transactions)::bigint",
    "changes": "sum(inserts + updates + deletes + truncates)::bigint",
}
_ACTORS = """
    {activity}, found AS (
        SELECT actor, {counts}, {grades}, min(first_time), max(last_time), {order} AS place
        FROM activity
        WHERE %(text)s = ''
           OR position(lower(%(text)s) IN lower(coalesce(nullif(actor, ''), 'unknown'))) > 0
        GROUP BY actor
    ), counted AS (
        SELECT count(*) FILTER (WHERE actor <> ''), coalesce(sum(done), 0)::bigint,
               coalesce(sum(done) FILTER (WHERE actor = ''), 0)::bigint
        FROM found AS f (actor, done)
    )
    SELECT found.*, counted.* FROM counted LEFT JOIN found
        ON %(place)s::bigint IS NULL OR (found.place, found.actor) < (%(place)s, %(name)s)
    ORDER BY found.place DESC, found.actor DESC LIMIT %(limit)s
"""
_DAYS_AND_TABLES = """
    {activity}, summed AS (
        SELECT actor, part, CASE WHEN part = 0 THEN day END AS day, {counts}, {grades},
               min(first_time), max(last_time)
        FROM activity GROUP BY 1, 2, 3
    )
    SELECT summed.*, r.schema, r."table" FROM summed LEFT JOIN relation r ON r.id = part
    ORDER BY day, part
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedDays:
    """The part of a slot's record that is summed up: its incarnations, and whole days."""

    #: ``(incarnation, last commit_seq that is in the sums or left out)``.
    incarnations: tuple[tuple[int, int], ...] = ()
    #: First day; None: from the beginning.
    first_day: dt.date | None = None
    last_day: dt.date | None = None
    #: Number of transactions that are in no sum and are not read either.
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCounts:
    """Numbers of transactions, changes by operation, and messages."""

    transactions: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    truncates: int = 0
    messages: int = 0

    @property
    def changes(self) -> int:
        """Return the number of changes of all operations."""
        return self.inserts + self.updates + self.deletes + self.truncates


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSum(ActorCounts):
    """The sums of one actor."""

    #: Name of the actor; empty: unknown.
    actor: str
    claimed: int
    stamped: int
    first_time: dt.datetime | None
    last_time: dt.datetime | None
    #: Value that the list is ordered by.
    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorList:
    """A page of actors, and sums over all that were found."""

    rows: list[ActorSum]
    #: Number of actors in the span that match the search, and of their transactions.
    actors: int = 0
    transactions: int = 0
    #: Number of transactions without an actor.
    unknown: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSum(ActorCounts):
    """The sums of one actor in one table."""

    relation_id: int
    #: Name of the table as last received; empty where the store has deleted it.
    schema: str
    table: str
    last_time: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorDay(ActorCounts):
    """The sums of one actor on one day."""

    day: dt.date
    claimed: int
    stamped: int
    first_time: dt.datetime | None
    last_time: dt.datetime | None


@dataclass(slots=True)
class ActorTotals:
    """The changes of one actor, by day and by table."""

    actor: str
    #: Days with changes, in order.
    days: list[ActorDay] = field(default_factory=list)
    #: Tables, the one with most changes first.
    tables: list[TableSum] = field(default_factory=list)

    @property
    def whole(self) -> ActorSum:
        """Return the sums over all days."""
        names = (*_COUNT_NAMES, "claimed", "stamped")
        return ActorSum(
            actor=self.actor,
            first_time=min((day.first_time for day in self.days if day.first_time), default=None),
            last_time=max((day.last_time for day in self.days if day.last_time), default=None),
            order=0,
            **{name: sum(getattr(day, name) for day in self.days) for name in names},
        )


def span_of(
    slot_id: int, first_day: dt.date | None = None, last_day: dt.date | None = None
) -> SummedDays:
    """Return the incarnations of a slot, and how far each is summed up."""
    incarnations, left_out = [], 0
    for incarnation, last_seq, rolled_seq in rows(_INCARNATIONS, {"slot": slot_id}):
        after = max(rolled_seq, last_seq - RECENT_MOST)
        left_out += after - rolled_seq
        incarnations.append((incarnation, after))
    return SummedDays(
        incarnations=tuple(incarnations), first_day=first_day, last_day=last_day, left_out=left_out
    )


def actors_of(
    span: SummedDays,
    *,
    text: str = "",
    sort: str = "last",
    after: tuple[int, str] | None = None,
    limit: int = 50,
) -> ActorList:
    """Return a page of actors, the greatest first.

    ``after`` is ``order`` and name of the last actor on the page before. ``text`` is searched for
    in names; transactions without an actor are found as *unknown*.
    """
    activity = _activity((_WHOLE_TRANSACTIONS,), span, who=sql.SQL("true"))
    query = sql.SQL(_ACTORS).format(
        activity=activity, counts=_COUNTS, grades=_GRADES, order=sql.SQL(_ORDERS[sort])
    )
    place, name = after or (None, None)
    actor_rows = rows(query, _parameters(span, text=text, place=place, name=name, limit=limit + 1))
    actors, transactions, unknown = actor_rows[0][-3:]
    return ActorList(
        rows=[_actor(*row) for row in actor_rows[:limit] if row[0] is not None],
        more=len(actor_rows) > limit,
        actors=actors, transactions=transactions, unknown=unknown,
    )  # fmt: skip


def totals_of(
    span: SummedDays, actors: Sequence[str], *, tables_on: Mapping[str, dt.date] | None = None
) -> dict[str, ActorTotals]:
    """Return each actor's changes by day and table (``tables_on``: of one day of the actor)."""
    if not actors:
        return {}
    parts, who = (_WHOLE_TRANSACTIONS, _TABLES), sql.SQL("actor = ANY(%(actors)s)")
    if tables_on is not None:
        # Use the index of days: the index of actors would read the rows of all their tables, too.
        parts = (_WHOLE_TRANSACTIONS, _TABLES_ON_DAYS)
        who = sql.SQL("actor || '' = ANY(%(actors)s)")
    query = sql.SQL(_DAYS_AND_TABLES).format(
        activity=_activity(parts, span, who=who), counts=_COUNTS, grades=_GRADES
    )
    by_actor: dict[str, ActorTotals] = {}
    day_of_actor = tables_on or {}
    params = _parameters(
        span, actors=list(actors), on_who=list(day_of_actor), on_day=list(day_of_actor.values())
    )
    for actor, part, day, *columns in rows(query, params):
        counts, (claimed, stamped, first, last, schema, table) = _counts(columns[:6]), columns[6:]
        totals = by_actor.setdefault(actor, ActorTotals(actor))
        if part:
            totals.tables.append(
                TableSum(relation_id=part, schema=schema or "", table=table or "", last_time=last,
                         **counts)
            )  # fmt: skip
        else:
            totals.days.append(
                ActorDay(day=day, claimed=claimed, stamped=stamped, first_time=first,
                         last_time=last, **counts)
            )  # fmt: skip
    for totals in by_actor.values():
        totals.tables.sort(key=lambda table_sum: (-table_sum.changes, table_sum.relation_id))
    return by_actor


def _activity(parts: Sequence[str], span: SummedDays, *, who: sql.SQL) -> sql.Composed:
    """Return the CTEs up to ``activity``; ``who`` is the condition on actors of the sums."""
    bounds = ["true"]
    if span.first_day is not None:
        bounds.append("{day} >= %(first)s")
    if span.last_day is not None:
        bounds.append("{day} <= %(last)s")
    days = sql.SQL(" AND ".join(bounds))
    conditions = {
        "days": days.format(day=sql.Identifier("day")),
        "recent_days": days.format(day=sql.SQL("(at AT TIME ZONE 'UTC')::date")),
        "who": who,
    }
    united = sql.SQL(" UNION ALL ").join(sql.SQL(part).format(**conditions) for part in parts)
    return sql.SQL(_ACTIVITY).format(parts=united, shares=sql.SQL(SHARES))


def _parameters(span: SummedDays, **extra: Any) -> dict[str, object]:
    return {
        "incarnations": [incarnation for incarnation, _ in span.incarnations],
        "after": [after for _, after in span.incarnations],
        "first": span.first_day,
        "last": span.last_day,
        "actors": None,
        **extra,
    }


def _actor(actor: str, *row: Any) -> ActorSum:
    claimed, stamped, first, last, order = row[6:11]
    return ActorSum(
        actor=actor, **_counts(row[:6]), claimed=claimed, stamped=stamped, first_time=first,
        last_time=last, order=order,
    )  # fmt: skip


def _counts(row: Sequence[Any]) -> dict[str, int]:
    return dict(zip(_COUNT_NAMES, row, strict=True))

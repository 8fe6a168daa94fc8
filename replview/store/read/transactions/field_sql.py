"""The SQL that each field of a transaction filter adds to the conditions."""

from collections.abc import Callable, Iterable
from typing import Any

import orjson
from psycopg import sql

from decoder.scalars import LSN
from replview.store.read.history_places import PLACED_LSN
from replview.store.read.rows import NOT_ABORTED
from replview.store.read.seen import pattern_of
from replview.store.read.table_names import CHOSEN, chosen_values, is_chosen_sql
from replview.store.read.transactions.conditions import Conditions, any_of
from replview.store.read.transactions.filter_values import (
    NO_ORIGIN,
    OPERATIONS,
    PLACED_STATES,
    UNKNOWN_ACTOR,
    Touched,
    read_time,
    resolved_states,
)
from replview.text.parsing import whole_number

#: SQL for the number of changes and messages that count; of an aborted transaction, all.
CHANGES = "t.inserts + t.updates + t.deletes + t.truncates + t.messages"
#: Number of a transaction's first changes whose values are searched for a text.
TEXT_CHANGES = 200

_COUNT_INDEXES = {"I": 0, "U": 1, "D": 2, "T": 3}
_COUNTERS = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates", "M": "messages"}
# The statement resolves table names itself, once, before it reads any row. A name means every table
# that has had it.
_NAMED_TABLES = sql.SQL("""
    SELECT r.id FROM relation r JOIN {chosen} ON {has_name}
    UNION SELECT v.relation_id FROM relation_version v JOIN {chosen} ON {had_name}
""").format(chosen=sql.SQL(CHOSEN), has_name=is_chosen_sql("r"), had_name=is_chosen_sql("v"))
_TABLE_KEYS = sql.SQL("ARRAY(SELECT id::text FROM ({}) named)").format(_NAMED_TABLES)
_TOUCHED = sql.SQL("t.relations ?| {}").format(_TABLE_KEYS)
_ACTIVITY = sql.SQL("""
    relation_activity a WHERE a.relation_id IN ({named_tables})
    AND a.incarnation_id = b.incarnation_id AND a.block = b.block
""").format(named_tables=_NAMED_TABLES)
_DONE_TO_TABLE = sql.SQL("""
    {touched} AND (t.state <> 'snapshot'
        AND EXISTS (SELECT FROM unnest({keys}) k (key) WHERE {done}){or_snapshot})
""")
_ACTOR_ALTERNATIVES = (
    sql.SQL("t.actor = %(actor)s"),
    sql.SQL("t.actor IS DISTINCT FROM %(actor)s AND t.actors @> %(actors)s::jsonb"),
)
_HAS_TEXT = sql.SQL("""
    (t.gid ILIKE %(pattern)s OR t.actor ILIKE %(pattern)s OR t.origin ILIKE %(pattern)s
     OR t.xid::text ILIKE %(pattern)s OR t.commit_lsn::text ILIKE %(pattern)s
     OR EXISTS (SELECT FROM jsonb_array_elements(t.actors) e
                WHERE e ->> 'actor' ILIKE %(pattern)s)
     OR t.relations ?| ARRAY(SELECT id::text FROM relation
                             WHERE schema || '.' || "table" ILIKE %(pattern)s)
     OR EXISTS (SELECT FROM change c WHERE c.transaction_id = t.id AND c.seq <= {searched}
                AND {holds_text} AND {not_aborted}))
""")


def add_tables(conditions: Conditions, tables: tuple[str, ...], filter_: Touched) -> None:
    """Add the condition that one of the wanted operations was done to one of the tables."""
    conditions.values |= chosen_values(tables)
    _operations_on_tables(conditions, "" if filter_.ops == OPERATIONS else filter_.ops)


def add_operations(conditions: Conditions, ops: str, filter_: Touched) -> None:
    """Add the condition that an operation was done, unless that on tables has it already."""
    if filter_.tables:
        return
    names = [_COUNTERS[op] for op in ops if op in _COUNTERS]
    counters = [sql.Identifier("b", name) for name in names]
    blocks: list[sql.Composable] = [*_positive(counters)]
    rows = _positive([sql.Identifier("t", name) for name in names])
    row = sql.SQL("(t.state <> 'snapshot' AND {})").format(any_of(rows))
    number = sql.SQL("least({}, b.transactions)").format(sql.SQL(" + ").join(counters))
    if "S" not in ops:
        conditions.add(row, any_of(blocks), number)
        return
    blocks.append(sql.SQL("b.states ? 'snapshot'"))
    conditions.add(sql.SQL("({} OR t.state = 'snapshot')").format(row), any_of(blocks))


def _operations_on_tables(conditions: Conditions, ops: str) -> None:
    transactions = sql.SQL("sum(a.transactions)")
    number = sql.SQL("SELECT {} FROM {}")
    if not ops:
        block = sql.SQL("EXISTS (SELECT FROM {})").format(_ACTIVITY)
        conditions.add(_TOUCHED, block, number.format(transactions, _ACTIVITY))
        return
    names = [_COUNTERS[op] for op in ops if op in _COUNT_INDEXES] + ["snapshots"] * ("S" in ops)
    counters = [sql.Identifier("a", name) for name in names]
    block = sql.SQL("EXISTS (SELECT FROM {} AND {})").format(_ACTIVITY, any_of(_positive(counters)))
    done = sql.SQL("least({}, sum({}))").format(transactions, sql.SQL(" + ").join(counters))
    counts = [
        sql.SQL("(t.relations->k.key->>{})::bigint").format(_COUNT_INDEXES[op])
        for op in ops
        if op in _COUNT_INDEXES
    ]
    row = _DONE_TO_TABLE.format(
        touched=_TOUCHED,
        keys=_TABLE_KEYS,
        done=any_of(_positive(counts)),
        or_snapshot=sql.SQL(" OR t.state = 'snapshot'" if "S" in ops else ""),
    )
    conditions.add(row, block, number.format(done if counters else transactions, _ACTIVITY))


def _positive(numbers: Iterable[sql.Composable]) -> list[sql.Composed]:
    """Return the conditions that these numbers are above zero."""
    return [sql.SQL("{} > 0").format(number) for number in numbers]


def add_states(conditions: Conditions, names: tuple[str, ...], _: Touched) -> None:
    """Add the condition that the transaction is in one of the states."""
    states = sorted(resolved_states(names))
    conditions.add(
        sql.SQL("t.state = ANY(%(states)s)"),
        sql.SQL("b.states ?| %(placed)s"),
        sql.SQL("SELECT sum((b.states->>s)::bigint) FROM unnest(%(placed)s::text[]) s"),
        states=states,
        placed=[state for state in states if state in PLACED_STATES],
    )


def add_actor(conditions: Conditions, actor: str, _: Touched) -> None:
    """Add the condition that all changes, or some, are of the actor; it has an index."""
    actors = [{"actor": None if actor == UNKNOWN_ACTOR else actor}]
    conditions.values["actors"] = orjson.dumps(actors).decode()
    if actor == UNKNOWN_ACTOR:
        conditions.add(sql.SQL("(t.actor IS NULL OR t.actors @> %(actors)s::jsonb)"))
    else:
        conditions.add_indexed(*_ACTOR_ALTERNATIVES, actor=actor)


def add_origin(conditions: Conditions, origin: str, _: Touched) -> None:
    """Add the condition that the transaction has the origin; it has an index."""
    if origin == NO_ORIGIN:
        conditions.add(sql.SQL("(t.origin IS NULL)"))
    else:
        conditions.add_indexed(sql.SQL("t.origin = %(origin)s"), origin=origin)


def add_id(conditions: Conditions, id_: str, _: Touched) -> None:
    """Add the condition that gid or xid are equal."""
    xid = whole_number(id_)
    conditions.rows.append(
        sql.SQL("t.gid = %(id)s" if xid is None else "(t.gid = %(id)s OR t.xid = %(xid)s)")
    )
    conditions.values |= {"id": id_, "xid": xid}
    conditions.by_id = True


def add_prepared_min(conditions: Conditions, seconds: int, _: Touched) -> None:
    """Add the least time for which a transaction was, or has been, prepared; it has an index."""
    conditions.add(
        sql.SQL(
            "t.gid IS NOT NULL AND t.prepared_at IS NOT NULL AND coalesce(t.commit_time, "
            "t.ended_at, now()) - t.prepared_at >= make_interval(secs => %(prepared_min)s)"
        ),
        prepared_min=seconds,
    )
    conditions.indexed = True


def at_least(name: str, row: str, block: str) -> Callable[[Conditions, int, Touched], None]:
    """Return the function that adds the lower bound of a number, in rows and as a block's most."""

    def add(conditions: Conditions, least: int, _: Touched) -> None:
        row_bound, block_bound = (
            sql.SQL("{} >= {}").format(sql.SQL(number), sql.Placeholder(name))
            for number in (row, block)
        )
        conditions.add(row_bound, block_bound, sql.SQL("1"), **{name: least})

    return add


def add_since(conditions: Conditions, text: str, _: Touched) -> None:
    """Add the first moment."""
    _bound(conditions, conditions.time, "since", ">=", read_time(text))


def add_until(conditions: Conditions, text: str, _: Touched) -> None:
    """Add the moment before which transactions match."""
    _bound(conditions, conditions.time, "until", "<", read_time(text))


def add_from_lsn(conditions: Conditions, lsn: LSN | None, _: Touched) -> None:
    """Add the first LSN."""
    _bound(conditions, sql.SQL(PLACED_LSN), "from_lsn", ">=", lsn)


def add_to_lsn(conditions: Conditions, lsn: LSN | None, _: Touched) -> None:
    """Add the last LSN."""
    _bound(conditions, sql.SQL(PLACED_LSN), "to_lsn", "<=", lsn)


def _bound(
    conditions: Conditions, row: sql.Composable, name: str, comparison: str, value: Any
) -> None:
    """Add a bound of time or LSN. A block that crosses it counts as holding no match."""
    if value is None:
        return
    kind = "lsn" if isinstance(value, LSN) else "time"
    reaches, within = ("last", "first") if comparison == ">=" else ("first", "last")
    in_row, in_some, in_all = (
        sql.SQL("{} {} {}").format(place, sql.SQL(comparison), sql.Placeholder(name))
        for place in (
            row,
            sql.Identifier("b", f"{reaches}_{kind}"),
            sql.Identifier("b", f"{within}_{kind}"),
        )
    )
    if kind == "lsn":
        in_some = any_of([in_some, sql.SQL("b.states ? 'snapshot'")])
        value = str(value)
    number = sql.SQL("CASE WHEN {} THEN b.transactions ELSE 0 END").format(in_all)
    conditions.add(in_row, in_some, number, **{name: value})


def add_text(conditions: Conditions, text: str, _: Touched) -> None:
    """Add the search for a text in names, and in values of a transaction's first changes."""
    limits = conditions.limits
    has_text = _HAS_TEXT.format(
        searched=TEXT_CHANGES, holds_text=limits.holds_text, not_aborted=sql.SQL(NOT_ABORTED)
    )
    conditions.add(has_text, pattern=pattern_of(text), **limits.parameters)
    conditions.reads_values = True

"""The SQL that each field of a transaction filter adds to the conditions."""

from collections.abc import Callable
from typing import Any

import orjson
from psycopg import sql

from decoder.scalars import LSN
from replview.store.read.history_places import PLACED_LSN
from replview.store.read.rows import NOT_ABORTED
from replview.store.read.seen import pattern_of
from replview.store.read.table_names import CHOSEN, chosen_values, is_chosen_sql
from replview.store.read.transactions.conditions import Conditions
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
_NAMED_TABLES = (
    sql.SQL("""
    SELECT r.id FROM relation r JOIN {chosen} ON {has_name}
    UNION SELECT v.relation_id FROM relation_version v JOIN {chosen} ON {had_name}
""")
    .format(chosen=sql.SQL(CHOSEN), has_name=is_chosen_sql("r"), had_name=is_chosen_sql("v"))
    .as_string()
)
_TABLES_WITH_TEXT = (
    "SELECT id::text FROM relation WHERE schema || '.' || \"table\" ILIKE %(pattern)s"
)
_TABLE_KEYS = f"ARRAY(SELECT id::text FROM ({_NAMED_TABLES}) named)"  # noqa: S608
_ACTOR_ALTERNATIVES = (
    "t.actor = %(actor)s",
    "t.actor IS DISTINCT FROM %(actor)s AND t.actors @> %(actors)s::jsonb",
)


def add_tables(conditions: Conditions, tables: tuple[str, ...], filter_: Touched) -> None:
    """Add the condition that one of the wanted operations was done to one of the tables."""
    conditions.values |= chosen_values(tables)
    _operations_on_tables(conditions, "" if filter_.ops == OPERATIONS else filter_.ops)


def add_operations(conditions: Conditions, ops: str, filter_: Touched) -> None:
    """Add the condition that an operation was done, unless that on tables has it already."""
    if filter_.tables:
        return
    counters = [f"b.{_COUNTERS[op]}" for op in ops if op in _COUNTERS]
    blocks = [f"{counter} > 0" for counter in counters]
    rows = [f"t.{_COUNTERS[op]} > 0" for op in ops if op in _COUNTERS]
    row = f"(t.state <> 'snapshot' AND ({' OR '.join(rows) or 'false'}))"
    if "S" in ops:
        row = f"({row} OR t.state = 'snapshot')"
        blocks.append("b.states ? 'snapshot'")
    number = "" if "S" in ops else f"least({' + '.join(counters)}, b.transactions)"
    conditions.add(row, f"({' OR '.join(blocks)})", number)


def _operations_on_tables(conditions: Conditions, ops: str) -> None:
    counters = [_COUNTERS[op] for op in ops if op in _COUNT_INDEXES] + ["snapshots"] * ("S" in ops)
    is_done = (
        f" AND ({' OR '.join(f'a.{counter} > 0' for counter in counters) or 'false'})"
        if ops
        else ""
    )
    block = (
        f"EXISTS (SELECT FROM relation_activity a WHERE a.relation_id IN ({_NAMED_TABLES})"
        f" AND a.incarnation_id = b.incarnation_id AND a.block = b.block{is_done})"
    )
    number_done = (
        f"least(sum(a.transactions), sum({' + '.join(f'a.{column}' for column in counters)}))"
    )
    number = (
        f"SELECT {number_done if counters else 'sum(a.transactions)'} FROM relation_activity a"  # noqa: S608 (of constants)
        f" WHERE a.relation_id IN ({_NAMED_TABLES})"
        " AND a.incarnation_id = b.incarnation_id AND a.block = b.block"
    )
    touched = f"t.relations ?| {_TABLE_KEYS}"
    if not ops:
        conditions.add(touched, block, number)
        return
    rows = [
        f"(t.relations->k.key->>{_COUNT_INDEXES[op]})::bigint > 0"
        for op in ops
        if op in _COUNT_INDEXES
    ]
    snapshots = " OR t.state = 'snapshot'" if "S" in ops else ""
    row = (
        f"{touched} AND (t.state <> 'snapshot' AND EXISTS (SELECT"
        f" FROM unnest({_TABLE_KEYS}) k (key) WHERE {' OR '.join(rows) or 'false'})"
        f"{snapshots})"
    )
    conditions.add(row, block, number)


def add_states(conditions: Conditions, names: tuple[str, ...], _: Touched) -> None:
    """Add the condition that the transaction is in one of the states."""
    states = sorted(resolved_states(names))
    number = "SELECT sum((b.states->>s)::bigint) FROM unnest(%(placed)s::text[]) s"
    conditions.add("t.state = ANY(%(states)s)", "b.states ?| %(placed)s", number, states=states,
                   placed=[state for state in states if state in PLACED_STATES])  # fmt: skip


def add_actor(conditions: Conditions, actor: str, _: Touched) -> None:
    """Add the condition that all changes, or some, are of the actor; it has an index."""
    actors = [{"actor": None if actor == UNKNOWN_ACTOR else actor}]
    conditions.values["actors"] = orjson.dumps(actors).decode()
    if actor == UNKNOWN_ACTOR:
        conditions.add("(t.actor IS NULL OR t.actors @> %(actors)s::jsonb)")
        return
    conditions.index_alternatives = _ACTOR_ALTERNATIVES
    conditions.add_indexed(conditions.any_way, actor=actor)


def add_origin(conditions: Conditions, origin: str, _: Touched) -> None:
    """Add the condition that the transaction has the origin; it has an index."""
    if origin == NO_ORIGIN:
        conditions.add("(t.origin IS NULL)")
    else:
        conditions.add_indexed("t.origin = %(origin)s", origin=origin)


def add_id(conditions: Conditions, id_: str, _: Touched) -> None:
    """Add the condition that gid or xid are equal."""
    xid = whole_number(id_)
    conditions.rows.append(
        "t.gid = %(id)s" if xid is None else "(t.gid = %(id)s OR t.xid = %(xid)s)"
    )
    conditions.values |= {"id": id_, "xid": xid}
    conditions.by_id = True


def add_prepared_min(conditions: Conditions, seconds: int, _: Touched) -> None:
    """Add the least time for which a transaction was, or has been, prepared; it has an index."""
    conditions.add(
        "t.gid IS NOT NULL AND t.prepared_at IS NOT NULL AND coalesce(t.commit_time, "
        "t.ended_at, now()) - t.prepared_at >= make_interval(secs => %(prepared_min)s)",
        prepared_min=seconds,
    )
    conditions.indexed = True


def at_least(name: str, row: str, block: str) -> Callable[[Conditions, int, Touched], None]:
    """Return the function that adds the lower bound of a number, in rows and as a block's most."""

    def add(conditions: Conditions, least: int, _: Touched) -> None:
        bound = f">= %({name})s"
        conditions.add(f"{row} {bound}", f"{block} {bound}", "1", **{name: least})

    return add


def add_since(conditions: Conditions, text: str, _: Touched) -> None:
    """Add the first moment."""
    _bound(conditions, conditions.time, "since", ">=", read_time(text))


def add_until(conditions: Conditions, text: str, _: Touched) -> None:
    """Add the moment before which transactions match."""
    _bound(conditions, conditions.time, "until", "<", read_time(text))


def add_from_lsn(conditions: Conditions, lsn: LSN | None, _: Touched) -> None:
    """Add the first LSN."""
    _bound(conditions, PLACED_LSN, "from_lsn", ">=", lsn)


def add_to_lsn(conditions: Conditions, lsn: LSN | None, _: Touched) -> None:
    """Add the last LSN."""
    _bound(conditions, PLACED_LSN, "to_lsn", "<=", lsn)


def _bound(conditions: Conditions, row: str, name: str, comparison: str, value: Any) -> None:
    """Add a bound of time or LSN. A block that crosses it counts as holding no match."""
    if value is None:
        return
    kind = "lsn" if isinstance(value, LSN) else "time"
    reaches, within = ("last", "first") if comparison == ">=" else ("first", "last")
    bound = f"{comparison} %({name})s"
    block = f"b.{reaches}_{kind} {bound}"
    if kind == "lsn":
        block = f"({block} OR b.states ? 'snapshot')"
        value = str(value)
    number = f"CASE WHEN b.{within}_{kind} {bound} THEN b.transactions ELSE 0 END"
    conditions.add(f"{row} {bound}", block, number, **{name: value})


def add_text(conditions: Conditions, text: str, _: Touched) -> None:
    """Add the search for a text in names, and in values of a transaction's first changes."""
    limits = conditions.limits
    names = " OR ".join(
        f"{name} ILIKE %(pattern)s"
        for name in ("t.gid", "t.actor", "t.origin", "t.xid::text", "t.commit_lsn::text")
    )
    actor_matches = (
        "EXISTS (SELECT FROM jsonb_array_elements(t.actors) e"
        " WHERE e ->> 'actor' ILIKE %(pattern)s)"
    )
    in_values = (
        f"EXISTS (SELECT FROM change c WHERE c.transaction_id = t.id AND c.seq <= {TEXT_CHANGES}"
        f" AND {limits.holds_text} AND {NOT_ABORTED})"
    )
    conditions.add(
        f"({names} OR {actor_matches} OR t.relations ?| ARRAY({_TABLES_WITH_TEXT}) OR {in_values})",
        pattern=pattern_of(text),
        **limits.parameters,
    )
    conditions.reads_values = True

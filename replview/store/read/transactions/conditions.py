"""A transaction filter becomes SQL: conditions on rows, and on blocks that may hold such rows.

Every value is a parameter; the SQL is built of constants alone.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson

from decoder.scalars import LSN
from replview.store.read.history_places import BLOCK, PLACED_LSN, PLACED_TIME
from replview.store.read.rows import NOT_ABORTED
from replview.store.read.seen import (
    TextLimits,
    all_tables,
    pattern_of,
    tables_without_size,
    text_limits,
)
from replview.store.read.session import ReadSession
from replview.store.read.table_names import CHOSEN, chosen_values, is_chosen_sql
from replview.store.read.transactions.transaction_filter import (
    NO_ORIGIN,
    OPERATIONS,
    PLACED_STATES,
    UNKNOWN_ACTOR,
    TransactionFilter,
)
from replview.text.parsing import whole_number

#: SQL for the time that orders a transaction without a commit_seq: after its end, and while open.
ENDED_TIME = "coalesce(t.ended_at, t.stored_at, t.received_at)"
OPEN_TIME = "CASE WHEN t.state = 'prepared' THEN coalesce(t.prepared_at, t.received_at) ELSE t.received_at END"  # noqa: E501

_CHANGES = "t.inserts + t.updates + t.deletes + t.truncates + t.messages"
_COUNT_INDEXES = {"I": 0, "U": 1, "D": 2, "T": 3}
_COUNTERS = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates", "M": "messages"}
#: Number of a transaction's first changes whose values are searched for a text.
TEXT_CHANGES = 200

# The statement resolves table names itself, once, before it reads any row. A name means every table
# that has had it.
_NAMED_TABLES = f"""
    SELECT r.id FROM relation r JOIN {CHOSEN} ON {is_chosen_sql("r")}
    UNION SELECT v.relation_id FROM relation_version v JOIN {CHOSEN} ON {is_chosen_sql("v")}
"""  # noqa: S608 (our own columns)
_TABLES_WITH_TEXT = (
    "SELECT id::text FROM relation WHERE schema || '.' || \"table\" ILIKE %(pattern)s"
)
_TABLE_KEYS = f"ARRAY(SELECT id::text FROM ({_NAMED_TABLES}) named)"  # noqa: S608
_ACTOR_ALTERNATIVES = (
    "t.actor = %(actor)s",
    "t.actor IS DISTINCT FROM %(actor)s AND t.actors @> %(actors)s::jsonb",
)


@dataclass(slots=True)
class Conditions:
    """Conditions on rows and on blocks, with the values of their parameters."""

    #: Conditions on ``transaction t``, all of which must hold.
    rows: list[str] = field(default_factory=list)
    #: Conditions on ``history_block b``, false only if no transaction of the block matches.
    blocks: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    #: SQL over ``history_block b``: about how many of the block's transactions meet a condition.
    numbers: list[str] = field(default_factory=list)
    #: True if some condition has no such number.
    uncounted: bool = False
    #: True if an index leads to the rows, so that few others are read.
    indexed: bool = False
    #: Alternatives, each with its own index in order; every matching row meets exactly one.
    index_alternatives: tuple[str, ...] = ("true",)
    #: True if the filter names one gid or xid.
    by_id: bool = False
    #: True if rows are tested one by one; their number is then bounded.
    searches: bool = False
    #: True if values of changes are read.
    reads_values: bool = False

    def add(self, row: str, block: str = "", number: str = "", **values: Any) -> None:
        """Add a condition that rows are tested for one by one."""
        self.rows.append(row)
        if number:
            self.numbers.append(number)
        else:
            self.uncounted = True
        if block:
            self.blocks.append(block)
        self.values |= values
        self.searches = True

    @property
    def row_sql(self) -> str:
        """Return all conditions on ``transaction t``."""
        return " AND ".join(self.rows) or "true"

    @property
    def any_way(self) -> str:
        """Return the condition that one of ``index_alternatives`` holds."""
        return f"({' OR '.join(self.index_alternatives)})"

    def first_rows(self, limited: str) -> str:
        """Return SQL of a table ``t`` with the first rows by each of ``index_alternatives``.

        ``limited`` is the WHERE clause with all conditions, order and limit.
        """
        read = "(SELECT * FROM transaction t WHERE {})".format
        parts = (
            read(limited.replace(self.any_way, alternative))
            for alternative in self.index_alternatives
        )
        return f"({' UNION ALL '.join(parts)}) t"

    @property
    def number_sql(self) -> str:
        """Return SQL that estimates a block's matches, taking the conditions as independent."""
        if self.uncounted or self.indexed or not self.numbers:
            return "NULL"
        return " * ".join(f"(({number}) / {BLOCK}.0)" for number in self.numbers) + f" * {BLOCK}"

    @property
    def block_sql(self) -> str:
        """Return all conditions on ``history_block b``."""
        return " AND ".join(self.blocks) or "true"


def conditions_of(
    session: ReadSession, filter_: TransactionFilter, *, time: str = PLACED_TIME
) -> Conditions:
    """Return the filter's conditions; ``time`` is SQL for the moment of the rows they apply to."""
    limits = text_limits(session, all_tables(session)) if filter_.text else TextLimits()
    conditions = limited_conditions(filter_, limits, time=time)
    if filter_.min_bytes and not session.visibility.open:
        untold = tables_without_size(session)
        conditions.add("NOT t.relations ?| %(untold)s::text[]", untold=untold)
    return conditions


def limited_conditions(
    filter_: TransactionFilter, limits: TextLimits, *, time: str = PLACED_TIME
) -> Conditions:
    """Return the filter's conditions, with the limits of a text search."""
    conditions = Conditions()
    _indexed(conditions, filter_)
    _states(conditions, filter_)
    _tables(conditions, filter_)
    _sizes(conditions, filter_)
    _time_and_lsn(conditions, filter_, time)
    if filter_.text:
        _text(conditions, filter_.text, limits)
    return conditions


def _indexed(conditions: Conditions, filter_: TransactionFilter) -> None:
    """Add the conditions that have an index with commit_seq as its last column."""
    for name, unknown in (("actor", UNKNOWN_ACTOR), ("origin", NO_ORIGIN)):
        value = getattr(filter_, name)
        if value and name == "actor":
            # The actor may also be that of only some of its changes.
            actors = [{"actor": None if value == unknown else value}]
            conditions.values["actors"] = orjson.dumps(actors).decode()
        if value == unknown:
            or_unknown = " OR t.actors @> %(actors)s::jsonb" if name == "actor" else ""
            conditions.add(f"(t.{name} IS NULL{or_unknown})")
        elif value:
            conditions.index_alternatives = (
                _ACTOR_ALTERNATIVES if name == "actor" else conditions.index_alternatives
            )
            conditions.rows.append(
                conditions.any_way if name == "actor" else f"t.{name} = %({name})s"
            )
            conditions.values[name] = value
            conditions.indexed = True
    if filter_.id:
        xid = whole_number(filter_.id)
        conditions.rows.append(
            "t.gid = %(id)s" if xid is None else "(t.gid = %(id)s OR t.xid = %(xid)s)"
        )
        conditions.values |= {"id": filter_.id, "xid": xid}
        conditions.by_id = True
    if filter_.prepared_min:
        conditions.add(
            "t.gid IS NOT NULL AND t.prepared_at IS NOT NULL AND coalesce(t.commit_time, "
            "t.ended_at, now()) - t.prepared_at >= make_interval(secs => %(prepared_min)s)",
            prepared_min=filter_.prepared_min,
        )
        conditions.indexed = True


def _states(conditions: Conditions, filter_: TransactionFilter) -> None:
    if filter_.states:
        states = sorted(filter_.wanted_states)
        number = "SELECT sum((b.states->>s)::bigint) FROM unnest(%(placed)s::text[]) s"
        conditions.add("t.state = ANY(%(states)s)", "b.states ?| %(placed)s", number, states=states,
                       placed=[state for state in states if state in PLACED_STATES])  # fmt: skip
    else:
        # These are hidden. They have no commit_seq, so that blocks need no condition.
        conditions.rows.append("t.state NOT IN ('copying', 'discarded')")


def _tables(conditions: Conditions, filter_: TransactionFilter) -> None:
    """Add the condition that one of the wanted operations was done to one of the wanted tables."""
    ops = "" if filter_.ops == OPERATIONS else filter_.ops
    if filter_.tables:
        conditions.values |= chosen_values(filter_.tables)
        _operations_on_tables(conditions, ops)
    elif ops:
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


def _sizes(conditions: Conditions, filter_: TransactionFilter) -> None:
    if least := filter_.min_changes:
        row, block = f"{_CHANGES} >= %(min_changes)s", "b.max_changes >= %(min_changes)s"
        conditions.add(row, block, "1", min_changes=least)
    if least := filter_.min_bytes:
        row, block = "t.size_bytes >= %(min_bytes)s", "b.max_size_bytes >= %(min_bytes)s"
        conditions.add(row, block, "1", min_bytes=least)


def _time_and_lsn(conditions: Conditions, filter_: TransactionFilter, time: str) -> None:
    """Add the bounds of time and LSN. A block that crosses a bound counts as holding no match."""
    for name, value, row, comparison, reaches, within in (
        ("since", filter_.since_at, time, ">=", "last_time", "first_time"),
        ("until", filter_.until_at, time, "<", "first_time", "last_time"),
        ("from_lsn", filter_.from_lsn, PLACED_LSN, ">=", "last_lsn", "first_lsn"),
        ("to_lsn", filter_.to_lsn, PLACED_LSN, "<=", "first_lsn", "last_lsn"),
    ):
        if value is None:
            continue
        bound = f"{comparison} %({name})s"
        block = f"b.{reaches} {bound}"
        if is_lsn := isinstance(value, LSN):
            block = f"({block} OR b.states ? 'snapshot')"
        number = f"CASE WHEN b.{within} {bound} THEN b.transactions ELSE 0 END"
        conditions.add(f"{row} {bound}", block, number, **{name: str(value) if is_lsn else value})


def _text(conditions: Conditions, text: str, limits: TextLimits) -> None:
    """Add the search for a text in names, and in values of a transaction's first changes."""
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

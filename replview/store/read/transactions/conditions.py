"""A transaction filter as SQL: of rows, and of the blocks that may hold such rows.

Every value is a parameter; the texts here are put together from constants alone.
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

#: The moment by which one without a place stands among the others.
ENDED_TIME = "coalesce(t.ended_at, t.stored_at, t.received_at)"
OPEN_TIME = "CASE WHEN t.state = 'prepared' THEN coalesce(t.prepared_at, t.received_at) ELSE t.received_at END"  # noqa: E501

_CHANGES = "t.inserts + t.updates + t.deletes + t.truncates + t.messages"
_PLACES = {"I": 0, "U": 1, "D": 2, "T": 3}
_COUNTERS = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates", "M": "messages"}
#: How far into a transaction a text is looked for in values.
TEXT_CHANGES = 200

# Resolved by the statement itself, once, before it looks at any row.
# A table is looked for under all names it had.
_NAMED = f"""
    SELECT r.id FROM relation r JOIN {CHOSEN} ON {is_chosen_sql("r")}
    UNION SELECT v.relation_id FROM relation_version v JOIN {CHOSEN} ON {is_chosen_sql("v")}
"""  # noqa: S608 (our own columns)
_HOLDING = "SELECT id::text FROM relation WHERE schema || '.' || \"table\" ILIKE %(pattern)s"
_KEYS = f"ARRAY(SELECT id::text FROM ({_NAMED}) named)"  # noqa: S608
_OF_ACTOR = (
    "t.actor = %(actor)s",
    "t.actor IS DISTINCT FROM %(actor)s AND t.actors @> %(actors)s::jsonb",
)


@dataclass(slots=True)
class Conditions:
    """What rows and blocks must fulfil, with the values of the parameters."""

    #: On ``transaction t``; each is true of every row that passes.
    rows: list[str] = field(default_factory=list)
    #: On ``history_block b``: false only where no transaction of the block passes.
    blocks: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    #: On ``history_block b``: for each condition, how many of the block's transactions fulfil it,
    #: about; what is not told of a condition is not counted on.
    numbers: list[str] = field(default_factory=list)
    #: Some condition has no such number.
    uncounted: bool = False
    #: Where an index of its own leads to the rows, others need hardly be looked at.
    indexed: bool = False
    #: One of them is true of each row that passes; each has an index of its own, in order.
    ways: tuple[str, ...] = ("true",)
    #: Exactly one gid or xid.
    by_id: bool = False
    #: Rows are looked at one by one: how many may be, is bounded.
    searches: bool = False
    #: Values of changes are looked at.
    reads_values: bool = False

    def add(self, row: str, block: str = "", number: str = "", **values: Any) -> None:
        """One more condition that rows are searched for."""
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
        return " AND ".join(self.rows) or "true"

    @property
    def any_way(self) -> str:
        return f"({' OR '.join(self.ways)})"

    def first_rows(self, limited: str) -> str:
        """As a table: what begins with the first rows; ``limited``: all conditions, with order."""
        read = "(SELECT * FROM transaction t WHERE {})".format
        return (
            f"({' UNION ALL '.join(read(limited.replace(self.any_way, w)) for w in self.ways)}) t"
        )

    @property
    def number_sql(self) -> str:
        """How many of a block's transactions pass, about; of conditions that are independent."""
        if self.uncounted or self.indexed or not self.numbers:
            return "NULL"
        return " * ".join(f"(({number}) / {BLOCK}.0)" for number in self.numbers) + f" * {BLOCK}"

    @property
    def block_sql(self) -> str:
        return " AND ".join(self.blocks) or "true"


def conditions_of(
    session: ReadSession, wanted: TransactionFilter, *, time: str = PLACED_TIME
) -> Conditions:
    """The filter's conditions; ``time`` is the moment of the rows they are for."""
    limits = text_limits(session, all_tables(session)) if wanted.text else TextLimits()
    found = limited_conditions(wanted, limits, time=time)
    if wanted.min_bytes and not session.visibility.open:
        untold = tables_without_size(session)
        found.add("NOT t.relations ?| %(untold)s::text[]", untold=untold)
    return found


def limited_conditions(
    wanted: TransactionFilter, limits: TextLimits, *, time: str = PLACED_TIME
) -> Conditions:
    """Return the conditions with what a search for a text must leave out."""
    found = Conditions()
    _indexed(found, wanted)
    _states(found, wanted)
    _tables(found, wanted)
    _sizes(found, wanted)
    _stretch(found, wanted, time)
    if wanted.text:
        _text(found, wanted.text, limits)
    return found


def _indexed(found: Conditions, wanted: TransactionFilter) -> None:
    """Conditions that have an index with commit_seq as its last column."""
    for name, none in (("actor", UNKNOWN_ACTOR), ("origin", NO_ORIGIN)):
        value = getattr(wanted, name)
        if value and name == "actor":
            # Or that of some of its changes.
            named = [{"actor": None if value == none else value}]
            found.values["actors"] = orjson.dumps(named).decode()
        if value == none:
            also = " OR t.actors @> %(actors)s::jsonb" if name == "actor" else ""
            found.add(f"(t.{name} IS NULL{also})")
        elif value:
            found.ways = _OF_ACTOR if name == "actor" else found.ways
            found.rows.append(found.any_way if name == "actor" else f"t.{name} = %({name})s")
            found.values[name] = value
            found.indexed = True
    if wanted.id:
        xid = whole_number(wanted.id)
        found.rows.append(
            "t.gid = %(id)s" if xid is None else "(t.gid = %(id)s OR t.xid = %(xid)s)"
        )
        found.values |= {"id": wanted.id, "xid": xid}
        found.by_id = True
    if wanted.prepared_min:
        found.add(
            "t.gid IS NOT NULL AND t.prepared_at IS NOT NULL AND coalesce(t.commit_time, "
            "t.ended_at, now()) - t.prepared_at >= make_interval(secs => %(prepared_min)s)",
            prepared_min=wanted.prepared_min,
        )
        found.indexed = True


def _states(found: Conditions, wanted: TransactionFilter) -> None:
    if wanted.states:
        states = sorted(wanted.wanted_states)
        counted = "SELECT sum((b.states->>s)::bigint) FROM unnest(%(placed)s::text[]) s"
        found.add("t.state = ANY(%(states)s)", "b.states ?| %(placed)s", counted, states=states,
                  placed=[state for state in states if state in PLACED_STATES])  # fmt: skip
    else:
        # Hidden; they have no place, so that blocks need not be asked.
        found.rows.append("t.state NOT IN ('copying', 'discarded')")


def _tables(found: Conditions, wanted: TransactionFilter) -> None:
    """Tables and operations: something that is asked for, done to what is asked for."""
    ops = "" if wanted.ops == OPERATIONS else wanted.ops
    if wanted.tables:
        found.values |= chosen_values(wanted.tables)
        _operations_on_tables(found, ops)
    elif ops:
        done = [f"b.{_COUNTERS[one]}" for one in ops if one in _COUNTERS]
        blocks = [f"{counter} > 0" for counter in done]
        rows = [f"t.{_COUNTERS[one]} > 0" for one in ops if one in _COUNTERS]
        plain = f"(t.state <> 'snapshot' AND ({' OR '.join(rows) or 'false'}))"
        if "S" in ops:
            plain = f"({plain} OR t.state = 'snapshot')"
            blocks.append("b.states ? 'snapshot'")
        number = "" if "S" in ops else f"least({' + '.join(done)}, b.transactions)"
        found.add(plain, f"({' OR '.join(blocks)})", number)


def _operations_on_tables(found: Conditions, ops: str) -> None:
    counters = [_COUNTERS[one] for one in ops if one in _PLACES] + ["snapshots"] * ("S" in ops)
    done = f" AND ({' OR '.join(f'a.{name} > 0' for name in counters) or 'false'})" if ops else ""
    block = (
        f"EXISTS (SELECT FROM relation_activity a WHERE a.relation_id IN ({_NAMED})"
        f" AND a.incarnation_id = b.incarnation_id AND a.block = b.block{done})"
    )
    rows_done = f"least(sum(a.transactions), sum({' + '.join(f'a.{one}' for one in counters)}))"
    number = (
        f"SELECT {rows_done if counters else 'sum(a.transactions)'} FROM relation_activity a"  # noqa: S608 (of constants)
        f" WHERE a.relation_id IN ({_NAMED})"
        " AND a.incarnation_id = b.incarnation_id AND a.block = b.block"
    )
    touched = f"t.relations ?| {_KEYS}"
    if not ops:
        found.add(touched, block, number)
        return
    rows = [f"(t.relations->k.key->>{_PLACES[one]})::bigint > 0" for one in ops if one in _PLACES]
    snapshots = " OR t.state = 'snapshot'" if "S" in ops else ""
    row = (
        f"{touched} AND (t.state <> 'snapshot' AND EXISTS (SELECT FROM unnest({_KEYS}) k (key)"
        f" WHERE {' OR '.join(rows) or 'false'})"
        f"{snapshots})"
    )
    found.add(row, block, number)


def _sizes(found: Conditions, wanted: TransactionFilter) -> None:
    if least := wanted.min_changes:
        row, block = f"{_CHANGES} >= %(min_changes)s", "b.max_changes >= %(min_changes)s"
        found.add(row, block, "1", min_changes=least)
    if least := wanted.min_bytes:
        row, block = "t.size_bytes >= %(min_bytes)s", "b.max_size_bytes >= %(min_bytes)s"
        found.add(row, block, "1", min_bytes=least)


def _stretch(found: Conditions, wanted: TransactionFilter, time: str) -> None:
    """From when to when, from where to where. A block across a bound is not counted on."""
    for name, value, row, sign, reaches, within in (
        ("since", wanted.since_at, time, ">=", "last_time", "first_time"),
        ("until", wanted.until_at, time, "<", "first_time", "last_time"),
        ("from_lsn", wanted.from_lsn, PLACED_LSN, ">=", "last_lsn", "first_lsn"),
        ("to_lsn", wanted.to_lsn, PLACED_LSN, "<=", "first_lsn", "last_lsn"),
    ):
        if value is None:
            continue
        bound = f"{sign} %({name})s"
        block = f"b.{reaches} {bound}"
        if is_lsn := isinstance(value, LSN):
            block = f"({block} OR b.states ? 'snapshot')"
        whole = f"CASE WHEN b.{within} {bound} THEN b.transactions ELSE 0 END"
        found.add(f"{row} {bound}", block, whole, **{name: str(value) if is_lsn else value})


def _text(found: Conditions, text: str, limits: TextLimits) -> None:
    """In names, or in the values of a transaction's first changes that count."""
    names = " OR ".join(
        f"{name} ILIKE %(pattern)s"
        for name in ("t.gid", "t.actor", "t.origin", "t.xid::text", "t.commit_lsn::text")
    )
    named = (
        "EXISTS (SELECT FROM jsonb_array_elements(t.actors) e"
        " WHERE e ->> 'actor' ILIKE %(pattern)s)"
    )
    in_values = (
        f"EXISTS (SELECT FROM change c WHERE c.transaction_id = t.id AND c.seq <= {TEXT_CHANGES}"
        f" AND {limits.holds_text} AND {NOT_ABORTED})"
    )
    found.add(
        f"({names} OR {named} OR t.relations ?| ARRAY({_HOLDING}) OR {in_values})",
        pattern=pattern_of(text),
        **limits.parameters,
    )
    found.reads_values = True

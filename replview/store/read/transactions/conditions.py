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
_PLACES = {"I": 0, "U": 1, "D": 2, "T": 3}
_COUNTERS = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates", "M": "messages"}
#: Number of a transaction's first changes whose values are searched for a text.
TEXT_CHANGES = 200

# The statement resolves table names itself, once, before it reads any row. A name means every table
# that has had it.
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
        parts = (read(limited.replace(self.any_way, one)) for one in self.index_alternatives)
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
    session: ReadSession, wanted: TransactionFilter, *, time: str = PLACED_TIME
) -> Conditions:
    """Return the filter's conditions; ``time`` is SQL for the moment of the rows they apply to."""
    limits = text_limits(session, all_tables(session)) if wanted.text else TextLimits()
    found = limited_conditions(wanted, limits, time=time)
    if wanted.min_bytes and not session.visibility.open:
        untold = tables_without_size(session)
        found.add("NOT t.relations ?| %(untold)s::text[]", untold=untold)
    return found


def limited_conditions(
    wanted: TransactionFilter, limits: TextLimits, *, time: str = PLACED_TIME
) -> Conditions:
    """Return the filter's conditions, with the limits of a text search."""
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
    """Add the conditions that have an index with commit_seq as its last column."""
    for name, none in (("actor", UNKNOWN_ACTOR), ("origin", NO_ORIGIN)):
        value = getattr(wanted, name)
        if value and name == "actor":
            # The actor may also be that of only some of its changes.
            named = [{"actor": None if value == none else value}]
            found.values["actors"] = orjson.dumps(named).decode()
        if value == none:
            also = " OR t.actors @> %(actors)s::jsonb" if name == "actor" else ""
            found.add(f"(t.{name} IS NULL{also})")
        elif value:
            found.index_alternatives = _OF_ACTOR if name == "actor" else found.index_alternatives
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
        # These are hidden. They have no commit_seq, so that blocks need no condition.
        found.rows.append("t.state NOT IN ('copying', 'discarded')")


def _tables(found: Conditions, wanted: TransactionFilter) -> None:
    """Add the condition that one of the wanted operations was done to one of the wanted tables."""
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
    """Add the bounds of time and LSN. A block that crosses a bound counts as holding no match."""
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
    """Add the search for a text in names, and in values of a transaction's first changes."""
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

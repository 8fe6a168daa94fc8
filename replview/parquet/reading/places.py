"""Write a slice as SQL: conditions on ``transaction t``, and counts of a transaction's changes."""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace

import orjson
from psycopg import sql

from decoder.scalars import LSN
from replview.parquet.slices import LAST_SEQ, OPERATIONS, STATES, Slice, SliceRange, SliceTable
from replview.store.read import history_places, rows
from replview.store.read.seen import TextLimits
from replview.store.read.session import array_text
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.text.parsing import chosen_tables

#: The time and LSN of a transaction; one without its own (a message) has those of its record.
PLACED_TIME = sql.SQL(history_places.PLACED_TIME)
PLACED_LSN = sql.SQL(history_places.PLACED_LSN)
#: The day of a commit.
PLACED_DAY = sql.SQL("({} AT TIME ZONE 'UTC')::date").format(PLACED_TIME)
#: Each operation's index in the counts of ``transaction.relations``.
_COUNTED = {"insert": 0, "update": 1, "delete": 2, "truncate": 3}
_CODES = {"insert": "I", "update": "U", "delete": "D", "truncate": "T", "message": "M",
          "snapshot": "S"}  # fmt: skip
#: A condition that excludes the changes of aborted subtransactions.
NOT_ABORTED = sql.SQL(rows.NOT_ABORTED)

_HAS_KEYS = """
    (c.key_hash = ANY({hashes}::bigint[]) OR c.key_hash IS NULL
     OR c.old_key_hash = ANY({hashes}::bigint[]))
"""
_TOUCHES_KEYS = """
    t.id IN (SELECT c.transaction_id FROM change c WHERE c.relation_id = {relation}
                AND (c.key_hash = ANY({hashes}::bigint[]) OR c.key_hash IS NULL)
             UNION ALL SELECT c.transaction_id FROM change c WHERE c.relation_id = {relation}
                AND c.old_key_hash = ANY({hashes}::bigint[]))
"""
_IN_TABLES = """
    AND (c.relation_id IS NULL OR c.relation_id IN (
        SELECT r.id FROM relation r WHERE r.schema || '.' || r."table" = ANY(%(searched)s::text[])
            OR (r.schema, r."table") IN (
                SELECT * FROM unnest(%(searched_schemas)s::text[], %(searched_names)s::text[]))))
"""
_NOT_MASKED = """
    AND NOT coalesce(jsonb_exists(%(masked)s::jsonb -> (
        SELECT r.schema || '.' || r."table" FROM relation r WHERE r.id = c.relation_id), v.key),
        false)
"""
_MASKS_NOTHING = """
    NOT t.relations ?| ARRAY(
        SELECT r.id::text FROM slot_incarnation i JOIN relation r ON r.slot_id = i.slot_id
        JOIN relation_version v ON v.relation_id = r.id
        WHERE i.id = {incarnation}
          AND {masked}::text[] && ARRAY[r.schema || '.' || r."table", v.schema || '.' || v."table"])
"""
_HAS_ONLY = """
    t.messages = 0 AND t.relations - ARRAY(
        SELECT r.id::text FROM relation r
        WHERE r.schema || '.' || r."table" = ANY({words}::text[]) OR (r.schema, r."table") IN (
            SELECT * FROM unnest({schemas}::text[], {names}::text[]))) = '{{}}'
"""
# Count the changes of these actors alone in a transaction of several actors.
_THEIRS = """CASE WHEN t.actors IS NULL THEN {all} ELSE (
    SELECT coalesce(sum((e #>> {path})::bigint), 0)::bigint FROM jsonb_array_elements(t.actors) e
    WHERE coalesce(e ->> 'actor', '') = ANY({whose})) END"""


def everything(part: Slice) -> SliceRange:
    """Return the whole slice as one range."""
    return SliceRange(after=(part.after_seq, LAST_SEQ), through=(part.through_seq, LAST_SEQ))


def conditions(
    part: Slice, within: SliceRange | None = None, relation_ids: Sequence[int] | None = None
) -> sql.Composed:
    """Return the condition for transactions of the range that touched one of these relations."""
    found: list[sql.Composable] = [
        sql.SQL("t.incarnation_id = {}").format(part.incarnation_id),
        sql.SQL("t.commit_seq > {} AND t.commit_seq <= {}").format(*ends(part, within)),
        _filter_conditions(part),
    ]
    if part.actors:
        by_actor = [_row_conditions(TransactionFilter(actor=name)) for name in part.actors]
        found.append(sql.SQL("({})").format(sql.SQL(" OR ").join(by_actor)))
    if within is not None and within.by_day and within.commit_date is not None:
        midnight = dt.datetime.combine(within.commit_date, dt.time(), tzinfo=dt.UTC)
        found.append(sql.SQL("{} >= {}").format(PLACED_TIME, midnight))
        found.append(sql.SQL("{} < {}").format(PLACED_TIME, midnight + dt.timedelta(days=1)))
    if relation_ids is not None:
        names = [str(each) for each in relation_ids]
        found.append(
            sql.SQL("t.relations ? {}").format(names[0])
            if len(names) == 1
            else sql.SQL("t.relations ?| {}").format(names)
        )
    return sql.SQL(" AND ").join(found)


def _filter_conditions(part: Slice) -> sql.Composed:
    """Return the slice's conditions that are fields of a filter; it may have several actors."""
    filter_ = replace(
        part.narrowed.filter,
        states=part.narrowed.filter.states or STATES,
        since="" if part.since is None else part.since.isoformat(),
        until="" if part.until is None else part.until.isoformat(),
        from_lsn=None if part.from_lsn is None else LSN(part.from_lsn),
        to_lsn=None if part.to_lsn is None else LSN(part.to_lsn),
    )
    rows = _row_conditions(filter_, _limits(part))
    return sql.SQL("{} AND {}").format(rows, shows_size(part)) if filter_.min_bytes else rows


def shows_size(part: Slice) -> sql.Composable:
    """Return the condition for transactions whose size reveals no length of a withheld value.

    A slice without messages is one of an account that may see its tables only, so a transaction
    must have touched no other table.
    """
    found: list[sql.Composable] = []
    if part.masked:
        masked = [name for name, _ in part.masked]
        found.append(sql.SQL(_MASKS_NOTHING).format(incarnation=part.incarnation_id, masked=masked))
    if not part.narrowed.in_messages:
        words, schemas, names = _named(part.tables)
        found.append(sql.SQL(_HAS_ONLY).format(words=words, schemas=schemas, names=names))
    return sql.SQL("({})").format(sql.SQL(" AND ").join(found)) if found else sql.SQL("true")


def _limits(part: Slice) -> TextLimits:
    """Exclude masked values from the text search, and tables that may not be searched."""
    asked = part.narrowed
    in_tables = "" if asked.searched is None else _IN_TABLES
    words, schemas, names = _named(asked.searched or ())
    in_messages = "" if asked.in_messages else " AND c.op::text <> 'M'"
    masked = orjson.dumps({name: list(columns) for name, columns in part.masked}).decode()
    return TextLimits(
        of_change=sql.SQL(in_tables + in_messages),
        of_value=sql.SQL(_NOT_MASKED if part.masked else ""),
        parameters={
            "searched": words,
            "searched_schemas": schemas,
            "searched_names": names,
            "masked": masked,
        },
    )


def _named(tables: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the tables for SQL: words that may be of several tables, then schemas and names."""
    chosen = chosen_tables(tables)
    return (
        [word for word, schema, _ in chosen if schema is None],
        [schema for _, schema, _ in chosen if schema is not None],
        [name for _, _, name in chosen if name is not None],
    )


def _row_conditions(filter_: TransactionFilter, limits: TextLimits | None = None) -> sql.Composed:
    """Return the filter's condition on ``transaction t``, with values in place of parameters."""
    conditions_ = filter_.conditions(limits)
    pieces = re.split(r"%\((\w+)\)s", conditions_.row_sql.as_string())
    return sql.Composed(
        [
            sql.Literal(conditions_.values[piece]) if number % 2 else sql.SQL(piece)
            for number, piece in enumerate(pieces)
        ]
    )


def ends(part: Slice, within: SliceRange | None) -> tuple[int, int]:
    """Return the ends of a range, or of the slice: ``after < commit_seq <= through``."""
    if within is None:
        return part.after_seq, part.through_seq
    # The range begins within a transaction, unless all of that one came before it.
    after = within.after[0] if within.after[1] >= LAST_SEQ else within.after[0] - 1
    return max(part.after_seq, after), min(part.through_seq, within.through[0])


def wanted_operations(
    part: Slice, *, rows: bool = False, truncations: bool = False
) -> tuple[str, ...]:
    """Return the slice's operations; with ``rows`` only operations that give a table's rows.

    A truncation gives a row only with ``truncations``.
    """
    asked = part.operations or OPERATIONS
    without_row = ("message",) if truncations else ("message", "truncate")
    return tuple(each for each in asked if not rows or each not in without_row)


def operation_codes(operations: Sequence[str]) -> list[str]:
    """Return the codes of these operations, as ``change.op`` has them."""
    return [_CODES[each] for each in operations]


def counted(
    operations: Sequence[str], relation_id: int | None, *, update_weight: int = 1,
    whose: Sequence[str] = (),
) -> sql.Composed:  # fmt: skip
    """Return the SQL that counts a transaction's changes of these operations, in one table or all.

    ``whose`` (``Slice.whose``) limits the count to the changes of these actors.
    """
    if relation_id is None:
        places = [sql.SQL("t.{}").format(sql.Identifier(f"{name}s")) for name in _COUNTED]
        places.append(sql.SQL("{}").format(sql.SQL("t.messages")))
    else:
        count = sql.SQL("(t.relations -> {} ->> {})::bigint")
        places = [count.format(str(relation_id), place) for place in _COUNTED.values()]
    path = ["counts"] if relation_id is None else ["relations", str(relation_id)]
    paths = [sql.SQL("{}").format([*path, str(place)]) for place in range(len(places))]
    weight = sql.SQL("{}").format(update_weight)
    return _counted(operations, places, paths, weight, whose, messages=relation_id is None)


def counted_each(
    operations: Sequence[str], *, update_weight: sql.Composable, whose: Sequence[str]
) -> sql.Composed:
    """Like counted(), for each relation ``r`` of ``jsonb_each(t.relations)``."""
    places = [sql.SQL("(r.value ->> {})::bigint").format(place) for place in _COUNTED.values()]
    path = sql.SQL("ARRAY['relations', r.key, {}]")
    paths = [path.format(str(place)) for place in _COUNTED.values()]
    return _counted(operations, places, paths, update_weight, whose, messages=False)


def _counted(
    operations: Sequence[str], places: list[sql.Composed], paths: Sequence[sql.Composed],
    update_weight: sql.Composable, whose: Sequence[str], *, messages: bool,
) -> sql.Composed:  # fmt: skip
    """Add up the counts of operations.

    ``paths``: the path of each count within an actor's entry of a transaction of several actors.
    """
    for place, each in enumerate(places if whose else ()):
        values = {"all": each, "path": paths[place], "whose": list(whose)}
        places[place] = sql.SQL(_THEIRS).format(**values)
    one = sql.SQL("1")
    counts = [
        sql.SQL("{} * coalesce({}, 0)").format(
            update_weight if operation == "update" else one, places[place]
        )
        for operation, place in _COUNTED.items()
        if operation in operations
    ]
    if messages and "message" in operations:
        counts.append(sql.Composed([places[4]]))
    of_stream = sql.SQL(" + ").join(counts) if counts else sql.SQL("0")
    of_baseline = (
        sql.SQL("coalesce({}, 0)").format(places[0]) if "snapshot" in operations else sql.SQL("0")
    )
    return sql.SQL("CASE WHEN t.state = 'snapshot' THEN {} ELSE {} END").format(
        of_baseline, of_stream
    )


def counted_in(
    operations: Sequence[str], relation_ids: Sequence[int] | None, whose: Sequence[str] = ()
) -> sql.Composed:
    """Return the SQL that counts operations of several relations together, or of all."""
    wanted: Sequence[int | None] = [None] if relation_ids is None else relation_ids
    sums = [sql.SQL("({})").format(counted(operations, each, whose=whose)) for each in wanted]
    return sql.SQL(" + ").join(sums)


def of_actors(whose: Sequence[str]) -> sql.Composed:
    """Return the condition for changes of these actors (``Slice.whose``), or of everybody."""
    theirs = sql.SQL("{} = ANY({})").format(sql.SQL(rows.CHANGES_ACTOR), list(whose))
    return theirs if whose else sql.Composed([sql.SQL("true")])


def has_keys(table: SliceTable | None) -> sql.Composable:
    """Return the condition for changes of the table's chosen keys (``SliceTable.key_hashes``)."""
    if table is None or not table.key_hashes:
        return sql.SQL("true")
    return sql.SQL(_HAS_KEYS).format(hashes=array_text(table.key_hashes))


def touches_keys(table: SliceTable | None) -> sql.Composable:
    """Return the condition for transactions with such changes."""
    if table is None or not table.key_hashes:
        return sql.SQL("true")
    return sql.SQL(_TOUCHES_KEYS).format(
        relation=table.relation_id, hashes=array_text(table.key_hashes)
    )


def of_relations(relation_ids: Sequence[int] | None) -> sql.Composed:
    """Return the condition for changes of these relations, or of all."""
    if relation_ids is None:
        return sql.Composed([sql.SQL("true")])
    if len(relation_ids) == 1:
        return sql.SQL("c.relation_id = {}").format(relation_ids[0])
    return sql.SQL("c.relation_id = ANY({})").format(list(relation_ids))

"""Resolve a request to a slice with fixed ends, and find the tables changed in it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from psycopg import sql

from decoder.scalars import lsn_text
from replview.parquet.reading.connecting import StoreConnection, StoreProblem, did_you_mean
from replview.parquet.reading.places import (
    PLACED_LSN,
    PLACED_TIME,
    conditions,
    counted,
    counted_in,
    of_relations,
    operation_codes,
    wanted_operations,
)
from replview.parquet.slice_schemas import MOST_DIGITS, with_scale
from replview.parquet.slices import (
    BeforeOrigin,
    Narrowing,
    Slice,
    SliceRange,
    SliceTable,
    TableVersion,
)
from replview.store.read.changes import records
from replview.store.read.relation_shapes import SHAPE_CAME
from replview.store.read.transactions.filter_values import OPERATIONS, UNKNOWN_ACTOR
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.text.formats import some_of
from replview.text.parsing import is_chosen, read_table_word, table_word

_SHOWN = 20
_INCARNATIONS = """
    SELECT o.name, s.name, i.id, i.number, i.id = s.incarnation_id
    FROM slot s JOIN source o ON o.id = s.source_id
    LEFT JOIN slot_incarnation i ON i.slot_id = s.id
    WHERE (%(source)s::text IS NULL OR o.name = %(source)s)
      AND (%(slot)s::text IS NULL OR s.name = %(slot)s)
    ORDER BY o.name, s.name, i.number
"""
_NAMED_ONCE = """
    SELECT DISTINCT r.schema, r."table"
    FROM slot_incarnation i
    JOIN relation r ON r.slot_id = i.slot_id AND r.system_identifier = i.system_identifier
    JOIN relation_version v ON v.relation_id = r.id
    WHERE i.id = %(incarnation)s
      AND (%(schemas)s::text[] = '{}' OR v.schema = ANY(%(schemas)s::text[]))
      AND (%(tables)s::text[] = '{}' OR v."table" = ANY(%(tables)s::text[]))
"""
_LAST = "SELECT coalesce(max(commit_seq), 0) FROM transaction WHERE incarnation_id = %s"
# Baselines are left out: their commit_seq does not grow with their LSN.
_NEXT = """
    SELECT t.commit_seq, {lsn} < {wanted}::pg_lsn FROM transaction t
    WHERE t.incarnation_id = {incarnation_id} AND t.commit_seq > {after} AND t.state <> 'snapshot'
    ORDER BY t.commit_seq LIMIT 1
"""
_LATER = """
    SELECT t.commit_seq FROM transaction t
    WHERE t.incarnation_id = {incarnation_id}
      AND t.commit_seq > {after} AND t.commit_seq <= {through}
      AND ({time} >= {until}::timestamptz OR {lsn} > {to_lsn}::pg_lsn)
    ORDER BY t.commit_seq LIMIT 1
"""
_BASELINES = """
    SELECT min(t.commit_seq), max(t.commit_seq)
    FROM baseline b JOIN transaction t ON t.id = b.transaction_id
    WHERE t.incarnation_id = %s AND t.state = 'snapshot'
      AND t.commit_lsn BETWEEN coalesce(%s::pg_lsn, '0/0') AND coalesce(%s::pg_lsn, t.commit_lsn)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRequest:
    """A choice of transactions, and the form of their rows, from which a slice is resolved."""

    #: May be None where the store has but one source or slot; ``slot`` may be ``source/name``.
    source: str | None = None
    slot: str | None = None
    #: The incarnation's number; None: the current one.
    incarnation: int | None = None
    #: Transactions with ``after_seq < commit_seq <= through_seq``; None: the last that is stored.
    after_seq: int = 0
    through_seq: int | None = None
    #: Conditions on the transactions, with tables as last seen. Its slot is not read.
    filter: TransactionFilter = field(default_factory=TransactionFilter)
    #: Several known actors, in place of the filter's one.
    actors: tuple[str, ...] = ()
    #: ``Slice.before`` and ``Slice.numeric_scale``.
    before: BeforeOrigin = "sent"
    numeric_scale: int | None = None

    @property
    def known_actors(self) -> tuple[str, ...]:
        """Return the actors to choose, without the one that stands for an unknown actor."""
        named = (self.filter.actor,) if self.filter.actor not in ("", UNKNOWN_ACTOR) else ()
        return self.actors or named

    @property
    def operations(self) -> tuple[str, ...]:
        """Return the operations of the filter as those of a slice; empty: all."""
        letters = "" if self.filter.ops == OPERATIONS else self.filter.ops
        return tuple(records.OPERATIONS[letter] for letter in letters)


def resolve(connection: StoreConnection, request: SliceRequest) -> Slice:
    """Return the slice of a request: open ends become what is stored at this moment.

    Raises ``StoreProblem``.
    """
    filter_ = request.filter
    source, slot, incarnation_id, number = _incarnation(connection, request)
    row = connection.execute(_LAST, [incarnation_id]).fetchone()
    first, last = max(request.after_seq, 0), int(row[0]) if row else 0
    if request.through_seq is not None:
        last = min(last, request.through_seq)
    from_lsn, to_lsn = (
        None if lsn is None else int(lsn) for lsn in (filter_.from_lsn, filter_.to_lsn)
    )
    if from_lsn is not None or to_lsn is not None:
        first, last = _narrowed(connection, incarnation_id, first, last, from_lsn, to_lsn)
    return Slice(
        source=source, slot=slot, incarnation_id=incarnation_id, incarnation=number,
        after_seq=first, through_seq=max(first, last), since=filter_.since_at,
        until=filter_.until_at, from_lsn=from_lsn, to_lsn=to_lsn, tables=filter_.tables,
        operations=request.operations, actors=request.known_actors, before=request.before,
        narrowed=Narrowing.of(filter_), numeric_scale=_checked_scale(request.numeric_scale),
    )  # fmt: skip


def ended_at_a_place(connection: StoreConnection, part: Slice) -> Slice:
    """End the slice before its first transaction that is later than ``until`` or ``to_lsn``.

    A slice that continues there misses no transaction. Commit times mostly grow with commit_seq,
    but may step back.
    """
    if part.until is None and part.to_lsn is None:
        return part
    within = replace(part, until=None, to_lsn=None)
    query = sql.SQL(_LATER).format(
        incarnation_id=part.incarnation_id, after=part.after_seq, through=part.through_seq,
        time=PLACED_TIME, until=part.until, lsn=PLACED_LSN,
        to_lsn=lsn_text(part.to_lsn),
    )  # fmt: skip
    row = connection.execute(query).fetchone()
    return within if row is None else replace(within, through_seq=int(row[0]) - 1)


def _checked_scale(digits: int | None) -> int | None:
    if digits is not None and not 0 <= digits <= MOST_DIGITS:
        raise StoreProblem(f"no decimal has {digits} digits behind the point",
                           f"choose from 0 to {MOST_DIGITS}")  # fmt: skip
    return digits


def _incarnation(connection: StoreConnection, request: SliceRequest) -> tuple[str, str, int, int]:
    """Return the source, the slot, and the incarnation's identifier and number."""
    source, slot, incarnation = request.source, request.slot, request.incarnation
    if slot and not source and "/" in slot:
        source, slot = slot.split("/", 1)
    found = connection.execute(_INCARNATIONS, {"source": source, "slot": slot}).fetchall()
    slots = list(dict.fromkeys((row[0], row[1]) for row in found))
    if not slots:
        everything = connection.execute(_INCARNATIONS, {"source": None, "slot": None}).fetchall()
        raise _no_slot(source, slot, [f"{row[0]}/{row[1]}" for row in everything])
    if len(slots) > 1:
        names = some_of([f"{each[0]}/{each[1]}" for each in slots], _SHOWN)
        raise StoreProblem(
            "the store has several slots", f"name one with source and slot; there are {names}"
        )
    incarnations = [row for row in found if row[2] is not None]
    if incarnation is None:
        chosen = [row for row in incarnations if row[4]] or incarnations[-1:]
    else:
        chosen = [row for row in incarnations if row[3] == incarnation]
    if not chosen:
        name = f"{slots[0][0]}/{slots[0][1]}"
        if incarnation is None:
            raise StoreProblem(f"nothing was received of {name} yet", "start its receiver")
        numbers = ", ".join(str(row[3]) for row in incarnations) or "none"
        raise StoreProblem(
            f"{name} has no incarnation {incarnation}", f"name another; there are {numbers}"
        )
    return chosen[0][0], chosen[0][1], int(chosen[0][2]), int(chosen[0][3])


def _no_slot(source: str | None, slot: str | None, names: list[str]) -> StoreProblem:
    names = list(dict.fromkeys(names))
    wanted = "/".join(filter(None, (source, slot)))
    if not names:
        return StoreProblem("the store has no slots", "add a source and a slot in replview first")
    known = some_of(names, _SHOWN)
    hint = f"{did_you_mean(wanted, names)}name one with source and slot; there are {known}"
    return StoreProblem(f"the store has no slot {wanted!r}", hint)


def _narrowed(
    connection: StoreConnection, incarnation_id: int, first: int, last: int,
    from_lsn: int | None, to_lsn: int | None,
) -> tuple[int, int]:  # fmt: skip
    """Return the commit_seqs between which every transaction of these LSNs is."""
    before = partial(_before, connection, incarnation_id, first, last)
    narrow_first = first if from_lsn is None else before(from_lsn)
    narrow_last = last if to_lsn is None else before(to_lsn + 1)
    params = [incarnation_id, lsn_text(from_lsn), lsn_text(to_lsn)]
    row = connection.execute(_BASELINES, params).fetchone()
    if row and row[0] is not None:
        narrow_first = max(first, min(narrow_first, row[0] - 1))
        narrow_last = min(last, max(narrow_last, row[1]))
    return narrow_first, narrow_last


def _before(
    connection: StoreConnection, incarnation_id: int, first: int, last: int, lsn: int
) -> int:
    """Return the last commit_seq before an LSN: within an incarnation both grow together."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        query = sql.SQL(_NEXT).format(
            lsn=PLACED_LSN, wanted=lsn_text(lsn), incarnation_id=incarnation_id, after=middle
        )
        row = connection.execute(query).fetchone()
        if row is None or row[0] > high:
            # Only baselines are left up to ``high``.
            high = middle
        elif row[1]:
            low = row[0]
        else:
            high = middle
    return low


#: Up to this number of tables, count all without asking which of them the slice touched.
_FEW = 8
_RELATIONS = sql.SQL("""
    SELECT r.id, r.schema, r."table" FROM relation r
    JOIN slot_incarnation i ON i.slot_id = r.slot_id AND i.system_identifier = r.system_identifier
    WHERE i.id = %s ORDER BY r.schema || '.' || r."table", {shape_came} NULLS FIRST, 1
""").format(shape_came=sql.SQL(SHAPE_CAME))
_VERSIONS = """
    SELECT r.id, r.oid, v.schema, v."table", v.id, v.number, v.columns, v.key_columns,
           v.replica_identity
    FROM relation r JOIN relation_version v ON v.relation_id = r.id
    WHERE r.id = ANY(%s) ORDER BY r.id, v.number
"""
_SEEN = """
    SELECT DISTINCT c.version_id FROM transaction t JOIN change c ON c.transaction_id = t.id
    WHERE {where} AND {relations} AND c.op::text = ANY({codes})
      AND c.transaction_id BETWEEN
          (SELECT min(t.id) FROM transaction t WHERE {where}) AND
          (SELECT max(t.id) FROM transaction t WHERE {where})
"""


def relation_ids(connection: StoreConnection, part: Slice) -> list[int] | None:
    """Return the store's identifiers of the slice's tables; None: all. Raises ``StoreProblem``."""
    if not part.tables:
        return None
    rows = connection.execute(_RELATIONS, [part.incarnation_id]).fetchall()
    found: dict[int, None] = {}
    for name in part.tables:
        word = read_table_word(name)
        mine = [row[0] for row in rows if is_chosen([word], row[1], row[2])]
        if not mine:
            known = list(dict.fromkeys(table_word(*row[1:]) for row in rows))
            raise _no_table(name, known, f"{part.source}/{part.slot}")
        found |= dict.fromkeys(mine)
    return list(found)


def known_tables(connection: StoreConnection, part: Slice) -> list[str]:
    """Return every table of the slice's incarnation, by its present name, each once."""
    rows = connection.execute(_RELATIONS, [part.incarnation_id])
    return list(dict.fromkeys(table_word(schema, table) for _, schema, table in rows))


def named_once(
    connection: StoreConnection, part: Slice, schemas: Sequence[str], tables: Sequence[str]
) -> list[str]:
    """Return the tables that ever had one of these schemas and names, as last seen; empty: any."""
    asked = {"incarnation": part.incarnation_id, "schemas": list(schemas), "tables": list(tables)}
    return [table_word(schema, table) for schema, table in connection.execute(_NAMED_ONCE, asked)]


def _no_table(name: str, known: list[str], slot: str) -> StoreProblem:
    if not known:
        return StoreProblem(f"{slot} has no table {name!r}", "nothing was received of it yet")
    hint = did_you_mean(name, known)
    if not hint and "." not in name:
        like = next((each for each in known if each.endswith(f".{name}")), None)
        hint = f"did you mean {like}? " if like else ""
    return StoreProblem(
        f"{slot} has no table {name!r}",
        f"{hint}name it as schema.table, as last seen; there are {some_of(known, _SHOWN)}",
    )


def tables_of(connection: StoreConnection, part: Slice) -> list[SliceTable]:
    """Return the tables with inserts, updates, deletes or baseline rows, by name, with shapes.

    A table dropped and created again within the slice is two, of the same name and another oid.
    """
    wanted = relation_ids(connection, part)
    if wanted is None:
        wanted = [row[0] for row in connection.execute(_RELATIONS, [part.incarnation_id])]
        if len(wanted) > _FEW:
            wanted = touched(connection, part)
    counts = _counts(connection, part, wanted)
    found = described(connection, part, [each for each in wanted if counts.get(each)])
    return [replace(table, rows=counts[table.relation_id]) for table in found]


def transactions_of(
    connection: StoreConnection, part: Slice, within: SliceRange | None = None
) -> sql.Composed:
    """Return the condition for the slice's transactions.

    Where tables or operations are chosen, the transactions have at least one of these changes.
    """
    ids = relation_ids(connection, part)
    where = conditions(part, within, ids)
    if not part.operations and ids is None:
        return where
    counts = counted_in(wanted_operations(part), ids, part.whose)
    return sql.SQL("{} AND ({}) > 0").format(where, counts)


def touched(connection: StoreConnection, part: Slice) -> list[int]:
    """Return the relations that some transaction of the slice touched."""
    query = sql.SQL(
        "SELECT DISTINCT k::bigint FROM transaction t, jsonb_object_keys(t.relations) k WHERE {}"
    ).format(conditions(part))
    return [row[0] for row in connection.execute(query)]


def _counts(connection: StoreConnection, part: Slice, ids: Sequence[int]) -> dict[int, int]:
    """Return relation → changes that give rows, counted in one reading of the transactions."""
    if not ids:
        return {}
    operations = wanted_operations(part, rows=True)
    sums = [sql.SQL("sum({})").format(counted(operations, each, whose=part.whose)) for each in ids]
    found: dict[int, int] = {}
    # A select list has at most 1,664 entries.
    for start in range(0, len(ids), 200):
        some = ids[start : start + 200]
        query = sql.SQL("SELECT {} FROM transaction t WHERE {}").format(
            sql.SQL(", ").join(sums[start : start + 200]), conditions(part, None, some)
        )
        row = connection.execute(query).fetchone() or ()
        found |= {each: int(count or 0) for each, count in zip(some, row, strict=True)}
    return found


def _all_versions(
    connection: StoreConnection, ids: Sequence[int]
) -> dict[int, list[tuple[int, str, str, TableVersion]]]:
    """Return relation → its shapes by number, each with its oid, schema and table name."""
    found: dict[int, list[tuple[int, str, str, TableVersion]]] = {}
    for row in connection.execute(_VERSIONS, [list(ids)]):
        relation, oid, schema, table, identifier, number, columns, key, identity = row
        version = TableVersion(id=identifier, number=number, columns=tuple(columns),
                               key_columns=tuple(key), replica_identity=identity)  # fmt: skip
        found.setdefault(relation, []).append((oid, schema, table, version))
    return found


def described(connection: StoreConnection, part: Slice, ids: Sequence[int]) -> list[SliceTable]:
    """Return tables by name, with the shapes of the slice's changes; rows are not counted."""
    if not ids:
        return []
    versions = _all_versions(connection, ids)
    # A table that had only one shape needs no look at its changes.
    several = [relation for relation, shapes in versions.items() if len(shapes) > 1]
    seen = _seen(connection, part, several)
    found = [
        _table_of(part, relation, [shape for shape in shapes if shape[3].id in seen] or shapes[-1:])
        for relation, shapes in versions.items()
    ]
    return sorted(found, key=lambda table: (table.schema, table.table, table.oid))


def _table_of(
    part: Slice, relation: int, shapes: Sequence[tuple[int, str, str, TableVersion]]
) -> SliceTable:
    """Return the table of these shapes, named as in the last of them."""
    oid, schema, table, _ = shapes[-1]
    versions = tuple(
        replace(each, columns=tuple(with_scale(one, part.numeric_scale) for one in each.columns))
        for _, _, _, each in shapes
    )
    return SliceTable(relation_id=relation, oid=oid, schema=schema, table=table, versions=versions)


def chosen(
    connection: StoreConnection, part: Slice, only: Sequence[str] | None = None,
    *, truncations: bool = False,
) -> SliceTable:  # fmt: skip
    """Return the slice's one table with every shape it has had, and of its columns those named.

    Reads no changes and counts none.
    """
    ids = relation_ids(connection, part) or []
    # Of several relations with this name, the last one has it now.
    [(relation, shapes)] = _all_versions(connection, ids[-1:]).items()
    made = replace(_table_of(part, relation, shapes), truncations=truncations)
    if only is None:
        return made
    names = [column.source_name for column in made.columns]
    for name in only:
        if name not in names:
            hint = f"{did_you_mean(name, names)}there are {', '.join(names)}"
            raise StoreProblem(f"{made.name} has no column {name!r}", hint)
    return replace(made, only=tuple(only))


def _seen(connection: StoreConnection, part: Slice, ids: Sequence[int]) -> set[int]:
    """Return the versions of these relations that occur in the slice; reads its changes."""
    if not ids:
        return set()
    query = sql.SQL(_SEEN).format(
        where=conditions(part, None, ids),
        relations=of_relations(ids),
        codes=operation_codes(wanted_operations(part, rows=True)),
    )
    return {row[0] for row in connection.execute(query) if row[0] is not None}

"""Find the tables of a slice, each with the versions that its changes have."""

from collections.abc import Sequence
from dataclasses import replace

from psycopg import sql

from replview.parquet.reading.connecting import StoreConnection, StoreProblem, did_you_mean
from replview.parquet.reading.places import (
    conditions,
    counted,
    counted_in,
    of_relations,
    operation_codes,
    wanted_operations,
)
from replview.parquet.slice_schemas import with_scale
from replview.parquet.slices import Slice, SliceRange, SliceTable, TableVersion
from replview.store.read.relation_shapes import SHAPE_CAME
from replview.text.formats import some_of
from replview.text.parsing import is_chosen, read_table_word, table_word

_SHOWN = 20
_NAMED_ONCE = """
    SELECT DISTINCT r.schema, r."table"
    FROM slot_incarnation i
    JOIN relation r ON r.slot_id = i.slot_id AND r.system_identifier = i.system_identifier
    JOIN relation_version v ON v.relation_id = r.id
    WHERE i.id = %(incarnation)s
      AND (%(schemas)s::text[] = '{}' OR v.schema = ANY(%(schemas)s::text[]))
      AND (%(tables)s::text[] = '{}' OR v."table" = ANY(%(tables)s::text[]))
"""
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

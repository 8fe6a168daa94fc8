"""The tables that have changes in a slice."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from psycopg import sql

from replview.parquet.reading.connecting import Connection, StoreProblem
from replview.parquet.reading.places import (
    conditions,
    counted,
    of_relations,
    operation_codes,
    wanted_operations,
)
from replview.parquet.slices import Slice, SliceTable, TableVersion

_SHOWN = 20
#: So few tables are all counted, whether the slice has changes of them or not.
_FEW = 8
_RELATIONS = """
    SELECT r.id, r.schema || '.' || r."table" FROM relation r
    JOIN slot_incarnation i ON i.slot_id = r.slot_id AND i.system_identifier = r.system_identifier
    WHERE i.id = %s ORDER BY 2, 1
"""
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


def relation_ids(connection: Connection, part: Slice) -> list[int] | None:
    """The store's identifiers of the slice's tables; None: all of them. Raises ``StoreProblem``."""
    if not part.tables:
        return None
    known: dict[str, list[int]] = {}
    for identifier, name in connection.execute(_RELATIONS, [part.incarnation_id]):
        known.setdefault(name, []).append(identifier)
    for name in part.tables:
        if name not in known:
            raise _no_table(name, list(known), f"{part.source}/{part.slot}")
    return [identifier for name in part.tables for identifier in known[name]]


def known_tables(connection: Connection, part: Slice) -> list[str]:
    """Every table of the slice's life, by its present name, each once."""
    rows = connection.execute(_RELATIONS, [part.incarnation_id])
    return list(dict.fromkeys(name for _, name in rows))


def _no_table(name: str, known: list[str], slot: str) -> StoreProblem:
    if not known:
        return StoreProblem(f"{slot} has no table {name!r}", "nothing was received of it yet")
    like = get_close_matches(name, known, 1)
    if not like and "." not in name:
        like = [each for each in known if each.endswith(f".{name}")][:1]
    hint = f"did you mean {like[0]}? " if like else ""
    names = ", ".join(known[:_SHOWN])
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return StoreProblem(
        f"{slot} has no table {name!r}",
        f"{hint}name it as schema.table, as last seen; there are {names}{more}",
    )


def tables_of(connection: Connection, part: Slice) -> list[SliceTable]:
    """Those with inserts, updates, deletes or baseline rows, by name; each with its shapes there.

    A table dropped and made anew within the slice is two, of the same name and another oid.
    """
    wanted = relation_ids(connection, part)
    if wanted is None:
        wanted = [row[0] for row in connection.execute(_RELATIONS, [part.incarnation_id])]
        if len(wanted) > _FEW:
            wanted = _touched(connection, part)
    counts = _counts(connection, part, wanted)
    found = described(connection, part, [each for each in wanted if counts.get(each)])
    return [replace(table, rows=counts[table.relation_id]) for table in found]


def _touched(connection: Connection, part: Slice) -> list[int]:
    query = sql.SQL(
        "SELECT DISTINCT k::bigint FROM transaction t, jsonb_object_keys(t.relations) k WHERE {}"
    ).format(conditions(part))
    return [row[0] for row in connection.execute(query)]


def _counts(connection: Connection, part: Slice, ids: Sequence[int]) -> dict[int, int]:
    """Changes that give rows, by relation: of all those in one reading of the transactions."""
    if not ids:
        return {}
    operations = wanted_operations(part, rows=True)
    sums = [sql.SQL("sum({})").format(counted(operations, each)) for each in ids]
    found: dict[int, int] = {}
    # A select list has room for 1,664.
    for start in range(0, len(ids), 200):
        some = ids[start : start + 200]
        query = sql.SQL("SELECT {} FROM transaction t WHERE {}").format(
            sql.SQL(", ").join(sums[start : start + 200]), conditions(part, None, some)
        )
        row = connection.execute(query).fetchone() or ()
        found |= {each: int(count or 0) for each, count in zip(some, row, strict=True)}
    return found


def _all_versions(
    connection: Connection, ids: Sequence[int]
) -> dict[int, list[tuple[int, str, str, TableVersion]]]:
    """Per relation its shapes by number, each with the oid and the names it then had."""
    found: dict[int, list[tuple[int, str, str, TableVersion]]] = {}
    for row in connection.execute(_VERSIONS, [list(ids)]):
        relation, oid, schema, table, identifier, number, columns, key, identity = row
        version = TableVersion(
            id=identifier, number=number, columns=tuple(columns), key_columns=tuple(key),
            replica_identity=identity,
        )  # fmt: skip
        found.setdefault(relation, []).append((oid, schema, table, version))
    return found


def shapes_of(connection: Connection, ids: Sequence[int]) -> dict[int, list[TableVersion]]:
    """Per relation every shape it has had, by number."""
    return {each: [s[3] for s in shapes] for each, shapes in _all_versions(connection, ids).items()}


def described(connection: Connection, part: Slice, ids: Sequence[int]) -> list[SliceTable]:
    """Tables with the shapes that changes of the slice were made under, by name; not counted."""
    if not ids:
        return []
    versions = _all_versions(connection, ids)
    # The one shape that a table ever had is the slice's, too.
    several = [relation for relation, shapes in versions.items() if len(shapes) > 1]
    seen = _seen(connection, part, several)
    found = []
    for relation, shapes in versions.items():
        there = [shape for shape in shapes if relation not in several or shape[3].id in seen]
        oid, schema, table, _ = (there or shapes)[-1]
        found.append(
            SliceTable(
                relation_id=relation, oid=oid, schema=schema, table=table,
                versions=tuple(shape[3] for shape in there or shapes[-1:]),
            )
        )  # fmt: skip
    return sorted(found, key=lambda table: (table.schema, table.table, table.oid))


def chosen(connection: Connection, part: Slice, only: Sequence[str] | None = None) -> SliceTable:
    """The slice's one table with every shape it has had, so that no change has to be looked at;
    of its columns those named. Not counted.
    """
    ids = relation_ids(connection, part) or []
    found = _all_versions(connection, ids)
    if len(found) != 1:
        # Dropped and made anew: the newest.
        found = dict(list(found.items())[-1:])
    [(relation, shapes)] = found.items()
    oid, schema, table, _ = shapes[-1]
    made = SliceTable(
        relation_id=relation, oid=oid, schema=schema, table=table,
        versions=tuple(shape[3] for shape in shapes),
    )  # fmt: skip
    if only is None:
        return made
    names = [column.source_name for column in made.columns]
    for name in only:
        if name not in names:
            like = get_close_matches(name, names, 1)
            hint = f"did you mean {like[0]}? " if like else ""
            raise StoreProblem(
                f"{made.name} has no column {name!r}", f"{hint}there are {', '.join(names)}"
            )
    return replace(made, only=tuple(only))


def _seen(connection: Connection, part: Slice, ids: Sequence[int]) -> set[int]:
    """The versions of these relations that occur in the slice: the changes are looked through."""
    if not ids:
        return set()
    query = sql.SQL(_SEEN).format(
        where=conditions(part, None, ids),
        relations=of_relations(ids),
        codes=operation_codes(wanted_operations(part, rows=True)),
    )
    return {row[0] for row in connection.execute(query) if row[0] is not None}

"""Shapes of tables for queries over many changes, which read each shape once and share it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg import sql

from replview.store.read.rows import QueriedSlot
from replview.store.read.session import ReadSession
from replview.store.read.table_names import CHOSEN, chosen_values, is_chosen_sql

#: SQL for the time at which the present shape of ``relation r`` came into force. Among tables of
#: one name, the one with the last time has the name.
SHAPE_CAME = """(SELECT v.intervals->-1->>'at' FROM relation_version v
                 WHERE v.id = r.current_version_id)"""
_SHAPES = """
    SELECT v.id, v.relation_id, r.oid, v.schema, v."table", v.number, v.replica_identity,
           v.columns, v.key_columns
    FROM relation_version v JOIN relation r ON r.id = v.relation_id
    WHERE {where} ORDER BY v.relation_id, v.number
"""
_HAD_NAME = sql.SQL("""
    r.slot_id = %(slot)s AND EXISTS (SELECT FROM {chosen} WHERE {has_name}
        OR EXISTS (SELECT FROM relation_version o WHERE o.relation_id = r.id AND {had_name}))
""").format(chosen=sql.SQL(CHOSEN), has_name=is_chosen_sql("r"), had_name=is_chosen_sql("o"))


@dataclass(frozen=True, slots=True)
class VersionShape:
    """One row of ``relation_version`` with its table's identifiers."""

    id: int
    relation_id: int
    #: The table's oid on its source.
    oid: int
    schema: str
    table: str
    #: 1 for the table's first shape.
    number: int
    replica_identity: str
    #: ``[{"name", "type_oid", "type", "typmod", "key"}]`` in the stream's order.
    columns: list[dict[str, Any]]
    key_columns: list[str]


def made_anew(before: Mapping[str, Sequence[int]], after: Mapping[str, Sequence[int]]) -> set[str]:
    """Return the columns that another column of that name replaced, or whose values were rewritten.

    Both arguments have the form of ``relation_version.made``. A column that is missing in one of
    them counts as unchanged. An entry of fewer than three numbers, which describes a later state,
    counts as replaced unless both entries are equal.
    """
    names = before.keys() & after.keys()
    return {name for name in names if not _is_same(before[name], after[name])}


def _is_same(before: Sequence[int], after: Sequence[int]) -> bool:
    if before == after:
        return True
    if len(before) < 3 or len(after) < 3 or before[0] != after[0]:
        return False
    # An ALTER TABLE that rewrites the table gives it another file. VACUUM FULL does, too, but
    # leaves the transaction that made the column.
    return before[1] == after[1] or before[2] == after[2] != 0


def _read(
    session: ReadSession, where: sql.Composable, params: list[Any] | dict[str, Any]
) -> list[VersionShape]:
    rows = session.rows(sql.SQL(_SHAPES).format(where=where), params)
    lists = (map(orjson.loads, (row[7] or "[]", row[8] or "[]")) for row in rows)
    return [VersionShape(*row[:7], *last) for row, last in zip(rows, lists, strict=True)]


def shapes_by_id(session: ReadSession, ids: Collection[int]) -> list[VersionShape]:
    """Return the shapes with these identifiers."""
    return _read(session, sql.SQL("v.id = ANY(%s)"), [list(ids)]) if ids else []


def shapes_of_slot(session: ReadSession, slot: QueriedSlot) -> list[VersionShape]:
    """Return all shapes of all tables of a slot."""
    return _read(session, sql.SQL("r.slot_id = %s"), [slot.pk])


def shapes_named(
    session: ReadSession, slot: QueriedSlot, names: Collection[str]
) -> list[VersionShape]:
    """Return all shapes of the tables that have, or had, one of these names.

    Names have the form of ``read_table_word``.
    """
    if not names:
        return []
    return _read(session, _HAD_NAME, {"slot": slot.pk, **chosen_values(names)})

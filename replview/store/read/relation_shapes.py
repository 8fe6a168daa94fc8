"""The shapes of tables as reads of many changes need them: each read once, then shared by all."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from replview.store.read.rows import Slot
from replview.store.read.session import ReadSession
from replview.store.read.table_names import CHOSEN, chosen_values, is_chosen_sql

#: Of ``relation r``: when its shape came last. Of those of one name the last one has it.
SHAPE_CAME = """(SELECT v.intervals->-1->>'at' FROM relation_version v
                 WHERE v.id = r.current_version_id)"""
_SHAPES = """
    SELECT v.id, v.relation_id, r.oid, v.schema, v."table", v.number, v.replica_identity,
           v.columns, v.key_columns
    FROM relation_version v JOIN relation r ON r.id = v.relation_id
"""


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
    """The columns that another one of the same name replaced, or whose values were rewritten: as
    ``relation_version.made`` tells two columns apart. One that is not told is the same; one of
    which only a later state was told may be another.
    """
    both = before.keys() & after.keys()
    return {name for name in both if not _is_same(before[name], after[name])}


def _is_same(one: Sequence[int], two: Sequence[int]) -> bool:
    if one == two:
        return True
    if len(one) < 3 or len(two) < 3 or one[0] != two[0]:
        return False
    # ALTER TABLE that rewrites gives the rows another file; VACUUM FULL does, too.
    return one[1] == two[1] or one[2] == two[2] != 0


def _read(
    session: ReadSession, where: str, parameters: list[Any] | dict[str, Any]
) -> list[VersionShape]:
    rows = session.rows(f"{_SHAPES} WHERE {where} ORDER BY v.relation_id, v.number", parameters)
    lists = (map(orjson.loads, (row[7] or "[]", row[8] or "[]")) for row in rows)
    return [VersionShape(*row[:7], *last) for row, last in zip(rows, lists, strict=True)]


def shapes_by_id(session: ReadSession, ids: Collection[int]) -> list[VersionShape]:
    """These versions, in no order that matters."""
    return _read(session, "v.id = ANY(%s)", [list(ids)]) if ids else []


def shapes_of_slot(session: ReadSession, slot: Slot) -> list[VersionShape]:
    return _read(session, "r.slot_id = %s", [slot.pk])


def shapes_named(session: ReadSession, slot: Slot, names: Collection[str]) -> list[VersionShape]:
    """All versions of the tables that have one of these names, as ``read_table_word`` gives them,
    or had it.
    """
    if not names:
        return []
    named = f"""
        r.slot_id = %(slot)s AND EXISTS (SELECT FROM {CHOSEN} WHERE {is_chosen_sql("r")}
            OR EXISTS (SELECT FROM relation_version o
                       WHERE o.relation_id = r.id AND {is_chosen_sql("o")}))
    """  # noqa: S608 (our own columns)
    return _read(session, named, {"slot": slot.pk, **chosen_values(names)})

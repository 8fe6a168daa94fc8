"""The shapes of tables as reads of many changes need them: each read once, then shared by all; and
how wide a table's rows are, from a bounded sample.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from replview.store.read.rows import Slot
from replview.store.read.session import ReadSession

#: Of ``relation r``: when its shape came last. Of those of one name the last one has it.
SHAPE_CAME = """(SELECT v.intervals->-1->>'at' FROM relation_version v
                 WHERE v.id = r.current_version_id)"""
_SHAPES = """
    SELECT v.id, v.relation_id, r.oid, v.schema, v."table", v.number, v.replica_identity,
           v.columns, v.key_columns
    FROM relation_version v JOIN relation r ON r.id = v.relation_id
"""
_NAMES = """
    WITH mine AS (
        SELECT r.id FROM relation r JOIN slot s ON s.id = r.slot_id
        WHERE s.source_id = %(source)s
          AND ((r.schema = %(schema)s AND r."table" = %(table)s)
               OR EXISTS (SELECT FROM relation_version v WHERE v.relation_id = r.id
                          AND v.schema = %(schema)s AND v."table" = %(table)s)))
    SELECT schema, "table" FROM relation WHERE id IN (SELECT id FROM mine)
    UNION
    SELECT schema, "table" FROM relation_version WHERE relation_id IN (SELECT id FROM mine)
"""
_UNKNOWN = """
    SELECT n.name FROM unnest(%(names)s::text[]) AS n (name) WHERE NOT EXISTS (
        SELECT FROM relation r JOIN slot s ON s.id = r.slot_id JOIN source o ON o.id = s.source_id
        WHERE (%(slot)s = '' OR (o.name = %(source)s AND s.name = %(name)s))
          AND (%(seen)s::bigint[] IS NULL OR o.id = ANY(%(seen)s::bigint[]))
          AND (n.name = r.schema || '.' || r."table" OR EXISTS (
              SELECT FROM relation_version v
              WHERE v.relation_id = r.id AND n.name = v.schema || '.' || v."table")))
"""
#: Changes that are looked at.
SAMPLE = 150
# By the keys' hashes: as good as drawn by lot; rows that change more often weigh more.
_WIDTHS = f"""
    SELECT count(*), avg(width)::float8, avg(key_width)::float8, count(*) FILTER (WHERE partial)
    FROM (
        SELECT (SELECT coalesce(sum(octet_length(v.value)), 0) FROM jsonb_each_text(c.new) v)
                   AS width,
               (SELECT coalesce(sum(octet_length(c.new->>k)), 0) FROM unnest(%(key)s::text[]) k)
                   AS key_width,
               (SELECT count(*) FROM jsonb_object_keys(c.new)) < %(columns)s::int AS partial
        FROM (SELECT op, new FROM change
              WHERE relation_id = %(relation)s::bigint AND key_hash IS NOT NULL
              ORDER BY key_hash, lsn, seq LIMIT {SAMPLE}) c
        WHERE c.op IN ('I', 'U') AND c.new IS NOT NULL) w
"""  # noqa: S608 (of a constant)


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


def names_had(
    session: ReadSession, source_id: int, schema: str, table: str
) -> set[tuple[str, str]]:
    """Every name that a table of this name has had in the record of a source, this one included."""
    found = session.rows(_NAMES, {"source": source_id, "schema": schema, "table": table})
    return {(schema, table), *((row[0], row[1]) for row in found)}


def _read(session: ReadSession, where: str, parameters: list[Any]) -> list[VersionShape]:
    rows = session.rows(f"{_SHAPES} WHERE {where} ORDER BY v.relation_id, v.number", parameters)
    lists = (map(orjson.loads, (row[7] or "[]", row[8] or "[]")) for row in rows)
    return [VersionShape(*row[:7], *last) for row, last in zip(rows, lists, strict=True)]


def shapes_by_id(session: ReadSession, ids: Collection[int]) -> list[VersionShape]:
    """These versions, in no order that matters."""
    return _read(session, "v.id = ANY(%s)", [list(ids)]) if ids else []


def shapes_of_slot(session: ReadSession, slot: Slot) -> list[VersionShape]:
    return _read(session, "r.slot_id = %s", [slot.pk])


def shapes_named(session: ReadSession, slot: Slot, names: Collection[str]) -> list[VersionShape]:
    """All versions of the tables that have one of these names (``schema.table``), or had it."""
    if not names:
        return []
    named = """
        r.slot_id = %s AND (r.schema || '.' || r."table" = ANY(%s)
            OR EXISTS (SELECT FROM relation_version n WHERE n.relation_id = r.id
                       AND n.schema || '.' || n."table" = ANY(%s)))
    """
    return _read(session, named, [slot.pk, list(names), list(names)])


def unknown_tables(session: ReadSession, names: Collection[str], slot: str = "") -> list[str]:
    """Of these tables (``schema.table``) those of which a slot (``source/name``; empty: every one)
    has no change, under any name they had.
    """
    if not names:
        return []
    source, _, name = slot.rpartition("/")
    wanted = {"names": list(names), "slot": slot, "source": source, "name": name,
              "seen": session.source_ids()}  # fmt: skip
    return [row[0] for row in session.rows(_UNKNOWN, wanted)]


def unknown_words(session: ReadSession, names: Collection[str], slot: str = "") -> str:
    """``no change of a table public.ordres is recorded``; empty: all are known."""
    unknown = unknown_tables(session, names, slot)
    return f"no change of a table {', '.join(unknown)} is recorded" if unknown else ""


@dataclass(frozen=True, slots=True)
class RowWidths:
    """Averages over stored rows; lengths of values as text."""

    rows: int
    row_bytes: float
    key_bytes: float
    #: Some rows came without a large value that had not changed: they are wider than told.
    at_least: bool


def row_widths(
    session: ReadSession, relation_id: int, key_columns: list[str], columns: int
) -> RowWidths | None:
    """The widths of a table's rows; None where none with a key is stored."""
    parameters = {"relation": relation_id, "key": key_columns, "columns": columns}
    rows, width, key_width, partial = session.prepared_rows(_WIDTHS, parameters)[0]
    return RowWidths(rows, width, key_width, partial > 0) if rows else None

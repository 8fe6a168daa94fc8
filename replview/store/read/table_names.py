"""The names that tables had in the record."""

from collections.abc import Collection

from replview.store.read.session import ReadSession

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


def names_had(
    session: ReadSession, source_id: int, schema: str, table: str
) -> set[tuple[str, str]]:
    """Every name that a table of this name has had in the record of a source, this one included."""
    found = session.rows(_NAMES, {"source": source_id, "schema": schema, "table": table})
    return {(schema, table), *((row[0], row[1]) for row in found)}


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

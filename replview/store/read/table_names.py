"""The names that tables had in the record."""

from collections.abc import Collection, Iterable

from psycopg import sql

from replview.store.read.session import ReadSession
from replview.text.parsing import chosen_tables

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
_ALL_NAMES = """
    SELECT id, schema, "table", true FROM relation WHERE id = ANY(%(ids)s)
    UNION
    SELECT relation_id, schema, "table", false FROM relation_version
    WHERE relation_id = ANY(%(ids)s)
    ORDER BY 1, 4 DESC
"""
#: The table names of a filter, each with schema and table if it means exactly one.
CHOSEN = """unnest(%(tables)s::text[], %(table_schemas)s::text[], %(table_names)s::text[])
    AS n (word, schema, name)"""


_IS_CHOSEN = sql.SQL(
    "CASE WHEN n.schema IS NULL THEN n.word = {row}.schema || '.' || {row}.\"table\" "
    'ELSE n.schema = {row}.schema AND n.name = {row}."table" END'
)


def is_chosen_sql(row: str) -> sql.Composed:
    """Return the condition that a name of ``CHOSEN`` means a row's ``schema`` and ``"table"``."""
    return _IS_CHOSEN.format(row=sql.Identifier(row))


_UNKNOWN_TABLES = sql.SQL("""
    SELECT n.word FROM {chosen} WHERE NOT EXISTS (
        SELECT FROM relation r JOIN slot s ON s.id = r.slot_id JOIN source o ON o.id = s.source_id
        WHERE (%(slot)s = '' OR (o.name = %(source)s AND s.name = %(name)s))
          AND (%(seen)s::bigint[] IS NULL OR o.id = ANY(%(seen)s::bigint[]))
          AND ({has_name} OR EXISTS (
              SELECT FROM relation_version v
              WHERE v.relation_id = r.id AND {had_name})))
""").format(chosen=sql.SQL(CHOSEN), has_name=is_chosen_sql("r"), had_name=is_chosen_sql("v"))


def chosen_values(words: Iterable[str]) -> dict[str, list[str | None]]:
    """Return the parameters of ``CHOSEN``."""
    tables = chosen_tables(words)
    names = ("tables", "table_schemas", "table_names")
    return {name: [table[index] for table in tables] for index, name in enumerate(names)}


def names_had(
    session: ReadSession, source_id: int, schema: str, table: str
) -> set[tuple[str, str]]:
    """Return every name a table of this name has had in the record of a source, with this one."""
    rows = session.rows(_NAMES, {"source": source_id, "schema": schema, "table": table})
    return {(schema, table), *((row[0], row[1]) for row in rows)}


def names_of_tables(session: ReadSession, ids: Collection[int]) -> dict[int, list[tuple[str, str]]]:
    """Return ``{relation id: [(schema, table)]}``: every name, the present one first."""
    names: dict[int, list[tuple[str, str]]] = {}
    for relation_id, schema, table, _ in session.rows(_ALL_NAMES, {"ids": list(ids)}):
        names.setdefault(relation_id, []).append((schema, table))
    return names


def unknown_tables(session: ReadSession, names: Collection[str], slot: str = "") -> list[str]:
    """Return the table names of a filter of which a slot has no table, under any name it had.

    ``slot`` is ``source/name``; empty: every slot.
    """
    if not names:
        return []
    source, _, name = slot.rpartition("/")
    params = {**chosen_values(names), "slot": slot, "source": source, "name": name,
              "seen": session.source_ids()}  # fmt: skip
    return [row[0] for row in session.rows(_UNKNOWN_TABLES, params)]


def unknown_words(session: ReadSession, names: Collection[str], slot: str = "") -> str:
    """Return a sentence about table names that are not in the record; empty: all are."""
    unknown = unknown_tables(session, names, slot)
    return f"no change of a table {', '.join(unknown)} is recorded" if unknown else ""

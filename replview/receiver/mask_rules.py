"""This module decides which columns a receiver must not store.

They come from the slot's own column rules and the mask rules of its source. Mask rules may be
created and removed at any time: a store transaction applies the rules that held when it began, so
no receiver needs a restart.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from replview.store.read import mask_rules

#: ``{"schema.table": {"column": "drop" | "mask"}}``.
ColumnRules = Mapping[str, Mapping[str, str]]

#: SQL for a text that changes whenever a mask rule is created or removed; no rule is ever altered.
MARK = "(SELECT count(*) || ':' || coalesce(max(id), 0) FROM mask_rule)"

_RULES = """
    SELECT s.source_id, m.id, m.source_id, m.table_pattern, m.column_pattern, m.type_pattern,
           m."when"
    FROM slot s LEFT JOIN mask_rule m
        ON m."when" = 'ingest' AND coalesce(m.source_id, s.source_id) = s.source_id
    WHERE s.id = %s ORDER BY m.id
"""
# All names, past and present, of the tables of a slot that once had a given name.
_NAMES_OF = """
    SELECT schema, "table" FROM relation_version WHERE relation_id IN (
        SELECT v.relation_id FROM relation_version v JOIN relation r ON r.id = v.relation_id
        WHERE r.slot_id = %s AND v.schema = %s AND v."table" = %s)
"""


class MaskRules:
    """The column rules and mask rules of one slot, as last read."""

    def __init__(self, slot_id: int, column_rules: ColumnRules) -> None:
        self._slot_id = slot_id
        self._own = column_rules
        self._source_id = 0
        self._rules: tuple[mask_rules.Rule, ...] = ()
        #: ``MARK`` when the rules were read; None: not read yet.
        self._mark: str | None = None

    def read(self, connection: psycopg.Connection[Any], mark: str | None = None) -> bool:
        """Read the rules unless ``mark`` shows that they are unchanged; return if they changed."""
        if mark is None:
            row = connection.execute(sql.SQL("SELECT {}").format(sql.SQL(MARK))).fetchone()
            mark = None if row is None else str(row[0])
        if mark == self._mark:
            return False
        rows = connection.execute(_RULES, [self._slot_id]).fetchall()
        former_rules, self._mark = self._rules, mark
        self._source_id = int(rows[0][0]) if rows else 0
        self._rules = mask_rules.rules_of_rows(row[1:] for row in rows if row[1] is not None)
        return self._rules != former_rules

    def of_table(
        self, schema: str, table: str, columns: Sequence[mask_rules.NamedColumn]
    ) -> dict[str, str]:
        """Return ``{column: "drop" | "mask"}`` for a table; the slot's own rules come first."""
        rules = dict.fromkeys(
            mask_rules.masked_by(self._rules, self._source_id, schema, table, columns), "mask"
        )
        return {**rules, **self._own.get(f"{schema}.{table}", {})}

    def of_names(
        self, names: Iterable[tuple[str, str]], columns: Sequence[mask_rules.NamedColumn]
    ) -> dict[str, str]:
        """Return ``{column: "drop" | "mask"}`` for a table that has had all these names.

        A rule for any of the names applies, and "drop" outranks "mask".
        """
        rules: dict[str, str] = {}
        for schema, table in names:
            name_rules = self.of_table(schema, table, columns)
            rules |= {
                column: action
                for column, action in name_rules.items()
                if rules.get(column) != "drop"
            }
        return rules


def withholds_raw(
    connection: psycopg.Connection[Any], slot_id: int, column_rules: ColumnRules, name: str
) -> bool:
    """Return whether a raw message about the table ``name`` must not be stored.

    That is so if a rule may mask or drop one of its columns, at ingest or on display. If ``name``
    is empty the table is unknown, and any rule of the slot or its source counts.
    """
    sql = """
        SELECT s.source_id, m.id, m.source_id, m.table_pattern, m.column_pattern, m.type_pattern,
               m."when"
        FROM slot s JOIN mask_rule m ON coalesce(m.source_id, s.source_id) = s.source_id
        WHERE s.id = %s
    """
    rows = connection.execute(sql, [slot_id]).fetchall()
    names = set(mask_rules.table_readings(name))
    if not names:
        return bool(rows or column_rules)
    for schema, table in mask_rules.table_readings(name):
        names.update(connection.execute(_NAMES_OF, [slot_id, schema, table]).fetchall())
    rules = mask_rules.rules_of_rows(row[1:] for row in rows)
    return any(
        f"{schema}.{table}" in column_rules
        or any(rule.matches_table(int(rows[0][0]), schema, table) for rule in rules)
        for schema, table in names
    )
